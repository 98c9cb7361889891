"""The unmodified official tools as the tests' oracle: the package checker on trees, its functions on single logs."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# One process imports the package checker (SciPy takes seconds) and forks for every tree, so that none knows of another.
_SERVER = """
import json, os, sys
from mlperf_logging.package_checker import package_checker
for tree, round, flags, out in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.chdir(os.path.dirname(tree))
        target = os.open(out, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(target, 1); os.dup2(target, 2)
        sys.argv = ["package_checker", os.path.basename(tree), "training", round, *flags, "--log_output", "/dev/null"]
        package_checker.main()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@dataclass(frozen=True)
class Heard:
    """The package checker's answer on a tree, and its warnings and errors by result folder ("": the descriptions)."""

    answer: str
    messages: dict[str, list[str]]
    rcp: dict[str, str]
    output: str


def package_checker(trees: Sequence[tuple[Path, str, Sequence[str]]]) -> list[Heard]:
    """Run the unmodified package checker on trees that may be written to, each with a round and flags."""
    with tempfile.TemporaryDirectory() as place:
        jobs = [(str(tree), round, list(flags), f"{place}/{index}") for index, (tree, round, flags) in enumerate(trees)]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"}
        subprocess.run(
            [sys.executable, "-c", _SERVER], input=json.dumps(jobs), text=True, check=True, env=environment, cwd=place
        )
        return [_heard(Path(out).read_text(encoding="utf-8", errors="replace")) for *_, out in jobs]


def _heard(output: str) -> Heard:
    answer = "pass" if "FOUND NO ERRORS" in output else "fail" if "FOUND ERRORS" in output else "none"
    records: list[list[str]] = []
    for line in output.split("\n"):
        if found := re.match(r"(INFO|WARNING|ERROR) - (.*)$", line, re.DOTALL):
            records.append([found[1], found[2]])
        elif records:
            records[-1][1] += f"\n{line}"
    messages: dict[str, list[str]] = {"": []}
    rcp: dict[str, str] = {}
    folder = ""
    for level, text in records:
        if found := re.match(r" Running compliance checks in dir (.*)", text):
            folder = found[1].strip()
            messages[folder] = []
        elif text.startswith("RCP Test Passed"):
            rcp[folder] = text.strip().removeprefix("RCP Test Passed: ")
        elif level != "INFO":
            told = text.split("\nTraceback")[0].strip()
            messages["" if told.startswith(("Skipping", "System desc")) else folder].append(normal(f"{level}: {told}"))
    return Heard(answer, messages, rcp, output)


def normal(text: str) -> str:
    """A message without the order of sets, in which the official tool lists some things."""
    level, _, rest = text.partition(": ")
    rest = re.sub(r"with different values: \[(.*)\]", lambda found: f"values {sorted(found[1].split(', '))}", rest)
    rest = re.sub(
        r"Required AT_LEAST_ONE occurrence of ('[^\n]*' or '[^\n]*')",
        lambda found: f"one of {sorted(found[1].split(' or '))}",
        rest,
    )
    parts = dict.fromkeys(rest.strip().split("\n" + "-" * 30 + "\n"))
    return f"{level}: {sorted(parts)}"


@dataclass(frozen=True)
class Log:
    """What the official functions make of one log; an answer is None where they raise."""

    compliant: bool | None
    messages: list[str]
    seeds: Any
    epochs: Any
    samples: Any


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname}: {record.getMessage()}")


def log(path: Path, round: str) -> Log:
    """Ask the compliance checker, the seed checker and the RCP reader of this process's package."""
    from mlperf_logging.compliance_checker import mlp_compliance
    from mlperf_logging.package_checker.seed_checker import SeedChecker
    from mlperf_logging.rcp_checker.rcp_checker import read_submission_file

    lines = _Lines()
    root = logging.getLogger()
    before, root.handlers = root.handlers, [lines]
    mlp_compliance.enqueued_configs.clear()
    try:
        checker = mlp_compliance.make_checker("training", round, False, False)
        compliant = _asked(lambda: mlp_compliance.main(str(path), f"training_{round}/common.yaml", checker)[0])
        said = [normal(text) for text in lines.texts]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seeds = _asked(lambda: SeedChecker(round)._assert_unique_seed_per_run([str(path)]))
        epochs = _asked(lambda: read_submission_file(str(path), round, False))
        samples = _asked(lambda: read_submission_file(str(path), round, True))
    finally:
        root.handlers = before
    return Log(compliant, said, seeds, epochs, samples)


def _asked(question: Any) -> Any:
    try:
        return question()
    # Whatever leaves the official functions is a traceback to their user.
    except Exception:  # noqa: BLE001
        return None


def compare(path: Path, round: str) -> None:
    """Assert that all that Podium knows of a log is what the official functions say of it."""
    from podium.verdict.official import seeds
    from podium.verdict.reading import digest

    theirs, ours = log(path, round), digest.of_log(path, round)
    assert ours.compliant == theirs.compliant, ours.fall
    if theirs.compliant is not None:
        assert [normal(f"WARNING: {text}") for text in ours.messages()] == theirs.messages
        said = _asked(lambda: [message.text for _, message in seeds.check([(str(path), ours.seeds)])])
        assert said == theirs.seeds
    for point, answer in ((ours.epochs, theirs.epochs), (ours.samples, theirs.samples)):
        assert (point.fall is None) == (answer is not None), point.fall
        if answer is not None:
            # By their text: a NaN is not equal to itself.
            assert repr((int(not point.converged), point.point, point.batch_size, point.benchmark)) == repr(answer)
    kept = digest.from_json(json.loads(json.dumps(ours.as_json())))
    assert repr(kept) == repr(ours), "what is kept of a log is not what was found out"
