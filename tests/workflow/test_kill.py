"""`podium prepare` killed at random moments, started again, and killed again: in the end the bytes are the same.

A moment is one of the process's own dealings with files (opening, renaming, removing, making a folder), as Python
reports them to an audit hook: the process counts them and kills itself at the drawn one, while its other threads and
processes are wherever they are. No test waits. `KILL_SEED=<seed> pytest …` draws the moments of a failed run again.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from podium import files

PROGRAM = """
import os, signal, sys
from podium.cli import main

folder, moment = sys.argv[1], int(sys.argv[2])

def watch(event, args):
    global moment
    if args and isinstance(args[0], str | os.PathLike) and os.fspath(args[0]).startswith(folder):
        moment -= 1
        if moment == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
status = main(sys.argv[3:])
print(-moment)
sys.exit(status)
"""
KILLS = 3
SHARDS = {"shards": {"train": 8, "validation": 2}}
WIKIPEDIA = {"max_seq_length": 40, "max_predictions_per_seq": 6, "dupe_factor": 2, "shards": 5}
PREPARATIONS = [
    ("imagenet", "recordio", {}),
    ("imagenet", "tfrecord", SHARDS),
    ("imagenet", "folder", {}),
    ("librispeech", "wav", {"vocab_size": 10}),
    ("kits19", "npy", {"min_shape": [16, 24, 24]}),
    ("wikipedia", "hdf5-shuffled", WIKIPEDIA),
    ("wikipedia", "hdf5-packed", WIKIPEDIA),
    ("wikipedia", "text", {"eval_articles": 6, "block_mib": 0.01}),
    ("c4", "megatron", {"parts": [1], "validation_documents": 9, "vocabulary": 4}),
]


def add_dump(folder: Path) -> None:
    """A dump beside the published text: 400 pages, each in a stream of its own."""
    pages = (
        f"<page><title>A{number}</title><ns>0</ns><id>{number}</id><text>{'Most people make salt. ' * 20}</text></page>"
        for number in range(400)
    )
    content = b"".join(bz2.compress(part.encode()) for part in ("<mediawiki>", *pages, "</mediawiki>"))
    (folder / "enwiki-20200101-pages-articles-multistream.xml.bz2").write_bytes(content)


def make_c4(folder: Path) -> None:
    """Shards of one part, the validation set, and a tokenizer of four words."""
    names = [f"c4-train.{number:05}-of-01024.json.gz" for number in range(128, 256)]
    for number, name in enumerate([*names, *(f"c4-validation.{number:05}-of-00008.json.gz" for number in range(8))]):
        lines = [json.dumps({"text": "a b c " * (number % 5 + line)}) + "\n" for line in range(3)]
        (folder / name).write_bytes(gzip.compress("".join(lines).encode()))
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate("abc?")}, "?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The demo's sources and one of C4, each made once."""
    made: dict[str, Path] = {}

    def source(dataset: str) -> Path:
        if dataset not in made:
            made[dataset] = tmp_path_factory.mktemp(dataset)
            if dataset == "c4":
                make_c4(made[dataset])
                return made[dataset]
            importlib.import_module(f"podium.data.demo.{dataset}").make(made[dataset])
            if dataset == "wikipedia":
                add_dump(made[dataset])
        return made[dataset]

    return source


def prepare(dataset: str, source: Path, layout: str, to: Path, params: dict, moment: int = 0) -> tuple[int, str]:
    """Exit status (negative: the signal) and standard output of a preparation that kills itself at `moment`."""
    given = to.with_name("params.json")
    given.write_text(json.dumps(params))
    words = ["prepare", dataset, "--from", source, "--layout", layout, "--to", to, "--params", given, "--workers", "2"]
    command = [sys.executable, "-c", PROGRAM, str(to.parent), str(moment), *map(str, words)]
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return answer.returncode, answer.stdout


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): (folder / path).read_bytes() for path in files.walk(folder)}


@pytest.mark.parametrize(("dataset", "layout", "params"), PREPARATIONS)
def test_killed_at_random_moments_it_ends_with_the_same_bytes(dataset, layout, params, sources, tmp_path):
    source, to = sources(dataset), tmp_path / "killed" / layout
    if dataset == "c4":
        params = params | {"tokenizer": str(source)}
    for folder in ("uncut", "killed"):
        (tmp_path / folder).mkdir()
    status, told = prepare(dataset, source, layout, tmp_path / "uncut" / layout, params)
    assert status == 0
    moments = int(told.split()[-1])
    seed = int(os.environ.get("KILL_SEED", random.randrange(1 << 32)))
    chance = random.Random(seed)
    ended = []
    for _ in range(KILLS):
        moment = chance.randint(1, moments)
        ended.append(prepare(dataset, source, layout, to, params, moment)[0])
        print(f"seed {seed}: to be killed at {moment} of {moments}, status {ended[-1]}")
        if ended[-1] == 0:  # it came to its end, for so much was left of the tries before: begin anew
            shutil.rmtree(to)
    assert set(ended) in ({-signal.SIGKILL}, {0, -signal.SIGKILL})
    assert prepare(dataset, source, layout, to, params)[0] == 0
    assert content(to) == content(tmp_path / "uncut" / layout)
    assert {path.name for path in to.parent.iterdir()} == {f".{layout}.lock", layout, "params.json"}
    assert not [path for path in content(to) if any(part.startswith(".") for part in Path(path).parts)]
