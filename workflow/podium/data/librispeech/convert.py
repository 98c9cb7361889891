"""FLAC to WAV, byte for byte what the reference's pysox and SoX write, and the list that goes with a subset."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from podium import files
from podium.data.formats import flac, wav
from podium.data.librispeech.source import AUDIO, NEXT, TEXT, Member, Subset
from podium.errors import BadInput
from podium.progress import bar

RATE = 16_000
BATCH = 64  # utterances that a thread converts before it hands them over
LISTED = 20  # offenders that one error names
SOX_FULL_SCALE = 2**31 - 1  # SoX computes on 32-bit samples and divides by the largest
MAX_DURATION = 16.7  # seconds; longer utterances are not trained on (reference configs/baseline_v3-1023sp.yaml)
UP_TO_MAX = f"up_to_{MAX_DURATION}_s"  # the count of those that are
SILENCE = 0.001  # pysox 1.4.1, file_info.silent: "Mean norm" below this

Item = TypeVar("Item")
Result = TypeVar("Result")

ENTRY = """\
  {{
    "transcript": {transcript},
    "files": [
      {{
        "channels": 1,
        "sample_rate": 16000.0,
        "bitdepth": 16,
        "bitrate": {bitrate},
        "duration": {duration},
        "num_samples": {samples},
        "encoding": "Signed Integer PCM",
        "silent": {silent},
        "fname": {fname},
        "speed": 1
      }}
    ],
    "original_duration": {duration},
    "original_num_samples": {samples}
  }}"""


@dataclass(frozen=True)
class Utterance:
    """One utterance of a subset: `fname` is the WAV relative to the layout, `samples` its length at 16 kHz."""

    fname: str
    transcript: str
    samples: int
    silent: bool

    @property
    def duration(self) -> float:
        """Seconds as `soxi -D` prints them: six decimals."""
        return float(f"{self.samples / RATE:.6f}")

    @property
    def bitrate(self) -> float:
        """Bits of the whole file per second as `soxi -B` prints them: three digits."""
        return float(f"{8 * wav.file_bytes(self.samples) / (self.samples / RATE):.3g}")

    def entry(self) -> str:
        """The lines of json.dumps(…, indent=2) of a list with what pysox finds in the WAV."""
        return ENTRY.format(
            transcript=json.dumps(self.transcript),
            fname=json.dumps(self.fname),
            silent=json.dumps(self.silent),
            samples=self.samples,
            duration=self.duration,
            bitrate=self.bitrate,
        )


@dataclass(frozen=True)
class Audio:
    """A file that was converted, `<speaker>/<chapter>/<id>`, or the `problem` why it could not be."""

    key: str
    samples: int = 0
    silent: bool = False
    problem: str = ""


def convert(subset: Subset, to: Path, workers: int, take: int = 0) -> tuple[list[Utterance], list[str]]:
    """Write `<subset>-wav/<speaker>/<chapter>/<id>.wav` below `to`; its utterances, and the transcripts of the source.

    Both are sorted by file name. With `take` only the first utterances in that order are written; whatever other audio
    is in the source is neither decoded nor missed.

    A WAV that is there already is kept when it is whole, which the md5 in its FLAC proves. At most BATCH utterances
    per worker, and as many more, are in memory. Raises BadInput that names the offenders when audio or transcripts are
    not what they must be.
    """
    folder = to / f"{subset.name}-wav"
    transcripts: dict[str, str] = {}
    audio: dict[str, Audio] = {}
    problems: list[str] = []
    chosen = _first(subset, take)

    def audio_members() -> Iterator[Member]:
        for member in subset.members():
            if member.name.endswith(TEXT):
                problems.extend(_read_transcripts(member, transcripts))
            elif chosen is None or _key(member) in chosen:
                yield member

    for found in bar(_spread(partial(_to_wav, folder), audio_members(), workers), subset.name, unit="utterance"):
        if found.key in audio:
            problems.append(f"{found.key}: twice")
        if found.problem:
            problems.append(f"{found.key}: {found.problem}")
        audio[found.key] = found
    every_transcript = [transcripts[key] for key in sorted(transcripts)]
    if chosen is not None:
        transcripts = {key: words for key, words in transcripts.items() if key in chosen}
    chapters = Counter(key.rpartition("/")[2] for key in audio)
    problems += [f"{name}: in {count} chapters" for name, count in chapters.items() if count > 1]
    problems += [f"{key}: audio without transcript" for key in sorted(audio.keys() - transcripts.keys())]
    problems += [f"{key}: transcript without audio" for key in sorted(transcripts.keys() - audio.keys())]
    if not audio:
        problems.append("no audio")
    if problems:
        listed = [*problems[:LISTED], *([f"{len(problems) - LISTED} more"] if len(problems) > LISTED else [])]
        raise BadInput(
            f"{subset.path} cannot be converted",
            f"utterances with one transcript and one whole FLAC each: mono, 16 bits, {RATE} Hz",
            "; ".join(listed),
            NEXT,
        )
    utterances = [
        Utterance(f"{folder.name}/{key}.wav", transcripts[key], found.samples, found.silent)
        for key, found in audio.items()
    ]
    return sorted(utterances, key=lambda utterance: utterance.fname), every_transcript


def hours(samples: int) -> float:
    """Of so many samples, to four decimals."""
    return round(samples / RATE / 3600, 4)


def write_list(utterances: Sequence[Utterance], path: Path) -> None:
    """Write `librispeech-<subset>-wav.json`: the text of json.dump(…, indent=2) over what pysox finds in each WAV."""
    with files.writing(path, "w") as file:
        for separator, utterance in zip(["[\n", *[",\n"] * (len(utterances) - 1)], utterances, strict=True):
            file.write(separator + utterance.entry())
        file.write("\n]")


def is_silent(pcm: np.ndarray) -> bool:
    """pysox's `silent`: the mean of |x| that `sox stat` prints, with six decimals, is below 0.001 (int16 samples)."""
    for part in (pcm[: len(pcm) // 4], pcm):  # the sum over a part is at most that over all, and mostly settles it
        magnitude = int(np.abs(part).view(np.uint16).sum(dtype=np.uint64))  # |-32768| is right only without a sign
        mean = magnitude * 2**16 / SOX_FULL_SCALE / len(pcm)
        if float(f"{mean:.6f}") >= SILENCE:
            return False
    return True


def _first(subset: Subset, take: int) -> set[str] | None:
    """The keys of the first utterances by file name, or None for all. An archive is read an extra time for them."""
    if not take:
        return None
    return set(sorted(_key(member) for member in subset.members() if member.name.endswith(AUDIO))[:take])


def _key(member: Member) -> str:
    return f"{member.folder}/{member.name.removesuffix(AUDIO)}"


def _spread(work: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`map` over threads, in order, with few items in flight: decoding, hashing and writing release the GIL.

    Items go in batches: each handing over wakes a thread, which takes as long as a part of an utterance.
    """
    if workers == 1:
        yield from map(work, items)
        return
    waiting: deque = deque()
    items = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        while batch := list(islice(items, BATCH)):
            waiting.append(pool.submit(lambda batch: [work(item) for item in batch], batch))
            if len(waiting) > workers:
                yield from waiting.popleft().result()
        for future in waiting:
            yield from future.result()


def _read_transcripts(member: Member, transcripts: dict[str, str]) -> list[str]:
    """Add a chapter's lines `ID WORDS` to `transcripts`; the problems.

    As in the reference, words become lower case and a line may end in LF or CRLF.
    """
    try:
        text = member.read().decode()
    except UnicodeDecodeError as error:
        return [f"{member.folder}/{member.name}: {error}"]
    problems = []
    for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
        name, _, words = line.partition(" ")
        key, words = f"{member.folder}/{name}", words.lower().strip()
        if not name or not words:
            problems.append(f"{member.folder}/{member.name}: {line[:40]!r} is not an id and words")
        elif key in transcripts:
            problems.append(f"{key}: two transcripts")
        transcripts[key] = words
    return problems


def _to_wav(folder: Path, member: Member) -> Audio:
    key = _key(member)
    path = folder / f"{key}.wav"
    data = member.read()
    try:
        info = flac.stream_info(data)
        if (info.rate, info.channels, info.bits) != (RATE, 1, 16):
            raise ValueError(f"{info.channels} channels of {info.bits} bits at {info.rate} Hz")
        pcm = _kept(path, info)
        if pcm is None:
            pcm = flac.decode(data)
            with files.explained(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    file.write(wav.header(len(pcm), RATE))
                    file.write(pcm)
    except ValueError as error:
        return Audio(key, problem=str(error))
    return Audio(key, len(pcm), is_silent(pcm)) if len(pcm) else Audio(key, problem="no samples")


def _kept(path: Path, info: flac.StreamInfo) -> np.ndarray | None:
    """The samples of a WAV from an earlier try, if it is whole; one that was torn by a kill is not."""
    if not path.exists():
        return None
    header, pcm = wav.split(path.read_bytes())
    if header != wav.header(info.samples, RATE) or not info.proves(pcm):
        return None
    return np.frombuffer(pcm, dtype="<i2")
