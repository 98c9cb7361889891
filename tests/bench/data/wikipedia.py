"""BERT's clean-up, tokens and instances against the reference's rates, in CPU seconds.

The reference was measured on four text files of which two are in the sample folder: rates are compared, not seconds.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from measure import GOLDENS, MEMORY, SAMPLES, Bench, baseline, missing

from podium.data import wikipedia
from podium.data.job import Job
from podium.data.wikipedia import clean, sentences, text
from podium.data.wikipedia.wordpiece import Tokeniser, read_vocabulary

# Bytes of the workloads of baselines.csv, and instances of its part.
CLEANUP_BYTES, SED_BYTES, TOKEN_BYTES, PART_BYTES, INSTANCES = 1_035_716_000, 154_437_777, 12_352_470, 4_117_490, 34_558
PARTS, MANY = 4, 16  # of text; many to see how two workers share, beyond their start
COPIES = 3  # of the part, tokenised one after the other: most words are known then, as in the full set


def run(bench: Bench, scratch: Path) -> None:
    raw, vocabulary = [SAMPLES / "wiki" / f"wiki_0{number}" for number in range(2)], GOLDENS / "wikipedia" / "vocab.txt"
    if reason := missing(*raw, vocabulary):
        bench.skip("bert", reason)
        return
    content = [path.read_bytes() for path in raw]
    part = "".join(sentences.one_a_line(clean.without_markup(clean.without_tags(one))) for one in content)
    pieces = read_vocabulary(vocabulary)
    source, to = scratch / "source", (MEMORY if MEMORY.is_dir() else scratch) / f"{scratch.name}-hdf5"
    much = scratch / "much"
    for folder, parts in ((source, PARTS), (much, MANY)):
        folder.mkdir()
        for number in range(parts):
            (folder / f"part-{number:05d}-of-00500").write_text(part, encoding="utf-8")
        shutil.copyfile(vocabulary, folder / "vocab.txt")

    def clean_up() -> None:
        for one in content * 5:
            clean.without_markup(clean.without_tags(one))

    def tokenise() -> None:
        tokeniser = Tokeniser(pieces)
        for _ in range(COPIES):
            text.tokenise(source, part, tokeniser)

    def prepare(workers: int, to: Path, source: Path = source) -> dict:
        return wikipedia.prepare(Job(source, "hdf5", to, {}, workers))

    size = len(part.encode())
    to.mkdir()
    instances = prepare(1, to)["train_instances"]
    costs = bench.costs({"clean-up": clean_up, "tokens": tokenise, "instances": lambda: prepare(1, to)}, to)
    reference = 1 / (baseline("wiki_cleanup_file") / CLEANUP_BYTES + baseline("wiki_clean_sh") / SED_BYTES)
    rates = {
        "clean-up": (5 * sum(map(len, content)) / costs["clean-up"].cpu, reference, 15, "B"),
        "tokens": (COPIES * size / costs["tokens"].cpu, TOKEN_BYTES / baseline("bert_tokenize_only"), 8, "B"),
        "instances": (instances / costs["instances"].cpu, INSTANCES / _without_tensorflow(), 5, "instances"),
    }
    for name, (ours, theirs, bar, unit) in rates.items():
        how = f"{ours:,.0f} {unit} a CPU second, reference {theirs:,.0f} (baselines.csv)"
        bench.step(f"bert-{name}", ours / theirs, bar, how)
    bench.scaling("bert", lambda workers, to: prepare(workers, to, much), to, "podium.data.wikipedia")
    shutil.rmtree(to)


def _without_tensorflow() -> float:
    """CPU seconds of create_pretraining_data.py from text to HDF5, its start left out."""
    return baseline("bert_create_pretraining_hdf5") - baseline("startup_tensorflow_import")
