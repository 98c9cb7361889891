"""LibriSpeech in its original form from the few real recordings that the sample folder holds.

The recordings are real, and so are the words; that they belong together holds for 2412-153948-0000 only. The folder has
the transcripts of one utterance from each of 38 chapters, and of its three recordings only that one is among them:

- `dev-clean`: the two FLAC files of chapter 2412-153948, untouched. 0000 has its own words; those of 0001 are not in
  the folder, so it borrows the first words of another chapter.
- `train-clean-100`: every other transcript, each with a piece of its own of the recording 1088-134315-0000, as FLAC.

No model can learn speech from it. It is there to try the way of the data on files as they are distributed.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import soundfile

from podium import files
from podium.errors import BadInput

DEV, TRAIN = "2412-153948", "1088-134315"
PIECE = 64_000  # samples: 4 s
NAMES = (f"{DEV}-0000.flac", f"{DEV}-0001.flac", f"libri-{TRAIN}-0000.wav", "mini_librispeech.text.txt")


def make(sample_data: Path, to: Path) -> None:
    """Write `dev-clean.tar.gz` and `train-clean-100.tar.gz` into `to` from the files in `sample_data/librispeech`.

    Raises BadInput when one of them is missing.
    """
    folder = sample_data / "librispeech"
    missing = [name for name in NAMES if not (folder / name).exists()]
    if missing:
        raise BadInput(
            f"sample files are missing in {folder}", ", ".join(NAMES), f"no {', '.join(missing)}", f"ls {folder}"
        )
    own, other, recording, text = (folder / name for name in NAMES)
    transcripts = _transcripts(text)
    own_words = transcripts.pop(f"{DEV}-0000")
    borrowed, *words = transcripts.values()
    _archive(to, "dev-clean", DEV, [own.read_bytes(), other.read_bytes()], [own_words, borrowed])
    _archive(to, "train-clean-100", TRAIN, _pieces(recording, len(words)), words)


def _transcripts(path: Path) -> dict[str, str]:
    """Kaldi's text form, `lbi-<speaker>-<chapter>-<number> WORDS` a line, by LibriSpeech's own id."""
    lines = (line.split(" ", 1) for line in path.read_text(encoding="utf-8").splitlines())
    return {name.removeprefix("lbi-"): words for name, words in lines}


def _pieces(recording: Path, count: int) -> list[bytes]:
    """`count` overlapping pieces of a WAV, evenly spread over it, each as a FLAC file."""
    pcm, rate = soundfile.read(recording, dtype="int16")
    step = (len(pcm) - PIECE) // (count - 1)
    pieces = []
    for start in range(0, count * step, step):
        flac = io.BytesIO()
        soundfile.write(flac, pcm[start : start + PIECE], rate, format="FLAC", subtype="PCM_16")
        pieces.append(flac.getvalue())
    return pieces


def _archive(to: Path, subset: str, chapter: str, audio: Sequence[bytes], words: Sequence[str]) -> None:
    """Write `<subset>.tar.gz` with one chapter, in the form of OpenSLR's; equal content gives equal bytes."""
    ids = [f"{chapter}-{number:04d}" for number in range(len(audio))]
    transcripts = "".join(f"{name} {line}\n" for name, line in zip(ids, words, strict=True))
    members = {f"{name}.flac": content for name, content in zip(ids, audio, strict=True)}
    members[f"{chapter}.trans.txt"] = transcripts.encode()
    with (
        files.writing(to / f"{subset}.tar.gz") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in members.items():
            entry = tarfile.TarInfo(f"LibriSpeech/{subset}/{chapter.replace('-', '/')}/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
