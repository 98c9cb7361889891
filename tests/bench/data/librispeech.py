"""LibriSpeech FLAC to WAV and lists against pysox and against the bare decoding, in CPU seconds.

The workload of baselines.csv: 300 copies of two recordings. pysox is run here, on ten of them, where it, sox and soxi
are installed: the calls are those of the reference, 19 processes an utterance.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import soundfile
from measure import MEMORY, SAMPLES, Bench, baseline, missing

from podium.data.formats import flac
from podium.data.librispeech.convert import convert, write_list
from podium.data.librispeech.source import Subset

CHAPTERS, MANY, UTTERANCES = 15, 100, 20  # many to see how two workers share
PEER_FILES = 10


def run(bench: Bench, scratch: Path) -> None:
    recordings = [SAMPLES / "librispeech" / f"2412-153948-000{number}.flac" for number in range(2)]
    if reason := missing(*recordings):
        bench.skip("librispeech", reason)
        return
    content = [path.read_bytes() for path in recordings]
    subset = Subset("train-clean-100", make(content, scratch / "train-clean-100", CHAPTERS))
    much = Subset("train-clean-100", make(content, scratch / "much", MANY))
    paths = sorted(subset.path.rglob("*.flac"))
    to = (MEMORY if MEMORY.is_dir() else scratch) / f"{scratch.name}-wav"

    def ours(workers: int = 1, to: Path = to, subset: Subset = subset) -> None:
        write_list(convert(subset, to, workers)[0], to / "list.json")

    work = {"ours": ours, "libsndfile": lambda: [soundfile.read(path, dtype="int16") for path in paths]}
    if flac.miniaudio:
        work["dr_flac"] = lambda: [flac.miniaudio.flac_read_s16(path.read_bytes()) for path in paths]
    peer = "baselines.csv"
    if importlib.util.find_spec("sox") and shutil.which("sox") and shutil.which("soxi"):
        peer = f"pysox on {PEER_FILES} of them here"
        work["pysox"] = lambda: [pysox(path, scratch / "peer.wav") for path in paths[:PEER_FILES]]
    costs = bench.costs(work, to)
    reference = costs["pysox"].cpu * len(paths) / PEER_FILES if "pysox" in costs else baseline("librispeech_convert")
    decoder = "dr_flac" if flac.miniaudio else "libsndfile"
    seconds = ", ".join(f"{name} {cost.cpu:.2f}" for name, cost in costs.items() if name != "pysox")
    how = f"{len(paths)} utterances decoded by {decoder}; CPU seconds: {seconds}, reference {reference:.2f} ({peer})"
    bench.step("librispeech-convert", reference / costs["ours"].cpu, 25, how)
    bench.step("librispeech-of-decoding", costs["libsndfile"].cpu / costs["ours"].cpu, 0.8, "the limit is libsndfile's")
    bench.scaling("librispeech", lambda workers, to: ours(workers, to, much), to)
    shutil.rmtree(to)


def make(recordings: list[bytes], to: Path, chapters: int) -> Path:
    """A subset as the archives unpack, of copies."""
    for chapter in range(chapters):
        folder = to / f"{chapter + 1}" / f"{chapter + 100}"
        folder.mkdir(parents=True)
        names = [f"{chapter + 1}-{chapter + 100}-{number:04d}" for number in range(UTTERANCES)]
        for number, name in enumerate(names):
            (folder / f"{name}.flac").write_bytes(recordings[number % len(recordings)])
        lines = [f"{name} {'AND SO THEY SAID ' * 10}\n" for name in names]
        (folder / f"{chapter + 1}-{chapter + 100}.trans.txt").write_text("".join(lines))
    return to


def pysox(path: Path, to: Path) -> object:
    """The calls of pysox for one utterance in the reference (preprocessing_utils.py): the facts are asked for twice."""
    import sox

    to.unlink(missing_ok=True)
    rate = sox.file_info.sample_rate(str(path))
    sox.Transformer().speed(1).convert(rate).build(str(path), str(to))
    sox.file_info.info(str(to))
    return sox.file_info.info(str(to))
