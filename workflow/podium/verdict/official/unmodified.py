"""The official tool itself, unmodified and in an environment of its own: another version's answer beside ours.

Old rounds were judged by the tool of their time, and today's tool answers differently (seeds, RCP data, rules made
stricter). The tool runs on a copy, for it writes scaling.json into what it checks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import files
from podium.errors import BadEnvironment, BadInput
from podium.verdict.official import rulefiles
from podium.verdict.official.hearing import FAIL, NONE, PASS
from podium.verdict.tree import PARAMS, Result, Submitter

SOURCE = "https://github.com/mlcommons/logging.git"


@dataclass(frozen=True)
class Tool:
    """A version of the official tool: the Python that has it, and its folder where it is a checkout."""

    name: str
    python: Path
    folder: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Where its modules are found; the order of sets is fixed, so that it says the same twice."""
        paths = {"PYTHONPATH": str(self.folder)} if self.folder else {}
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        return {**kept, **paths, "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Said:
    """What the tool says of a submission: pass, fail, or none where it ends in a traceback; its errors, or the last
    line of the traceback."""

    answer: str
    errors: tuple[str, ...]
    output: str


def version(pinned: str) -> str:
    """The installed checker's version; raises BadEnvironment when it is not the one that the config pins."""
    found = rulefiles.version()
    if found != pinned:
        raise BadEnvironment(
            "another checker is installed than the config pins",
            f"mlperf-logging {pinned} (checker.version)",
            found,
            "make env, or change checker.version in the config",
        )
    return found


def tool(wanted: str, cache: Path) -> Tool:
    """The tool that `--checker` names: a Python, a virtual environment, a checkout, or a version.

    A version is installed once into an environment below `cache`: from the package index, or from its git tag where it
    is none of a release (3.0.0-rc2). Raises BadInput for what is none of these, BadEnvironment where pip fails.
    """
    path = Path(wanted)
    if (path / "mlperf_logging").is_dir():
        return Tool(str(path), Path(sys.executable), path.resolve())
    for python in (path / "bin" / "python", path):
        if python.is_file() and os.access(python, os.X_OK):
            return Tool(str(path), python.absolute())
    if not re.fullmatch(r"\d+(\.\d+)+(-?rc\d+[\w.-]*)?", wanted):
        expected = "a Python, a virtual environment, a checkout of mlcommons/logging, or a version like 3.0.0-rc2"
        raise BadInput(f"no checker {wanted}", expected, "none of them", "pip index versions mlperf-logging")
    return Tool(f"mlperf-logging {wanted}", _installed(wanted, cache / "checkers" / wanted))


def ask(tool: Tool, submitter: Submitter, round: str, flags: Sequence[str] = ()) -> Said:
    """The package checker's answer on a submitter's systems (all of them, or the part that is in `submitter`)."""
    with _copied(submitter) as copy:
        # Tools of round 1.0 look for their reference data below the folder in which they are started.
        (copy.parent / "mlperf_logging").symlink_to(_package(tool, copy.parent))
        command = [tool.python, "-m", "mlperf_logging.package_checker", copy.name, "training", round]
        done = _run(tool, copy.parent, [*command, *_spelt(tool, copy.parent, flags)])
    return _read(done.returncode, done.stdout + done.stderr)


def _read(status: int, output: str) -> Said:
    # Tools up to 2.0 raise an exception to say no; later ones say it in a line and exit with 0.
    if "FOUND NO ERRORS" in output:
        answer = PASS
    elif "FOUND ERRORS" in output or "Found too many errors" in output:
        answer = FAIL
    elif status == 0 and "Traceback" not in output:
        answer = PASS
    else:
        answer = NONE
    lines = output.splitlines()
    errors = [line for line in lines if re.match(r"ERROR\b", line)]
    if answer == NONE or not errors:
        errors += [line for line in lines[-1:] if answer == NONE]
    return Said(answer, tuple(errors), output)


def _package(tool: Tool, place: Path) -> Path:
    """Where the tool's modules are; raises BadInput for a Python that has none."""
    command = [tool.python, "-c", "import mlperf_logging; print(mlperf_logging.__path__[0])"]
    done = _run(tool, place, command)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise BadInput(
            f"{tool.name} has no checker", "a Python with mlperf_logging", last, f"{tool.python} -m pip list"
        )
    return Path(done.stdout.strip())


def _spelt(tool: Tool, place: Path, flags: Sequence[str]) -> list[str]:
    """Flags as this version of the tool spells them, with hyphens or underscores."""
    if not flags:
        return []
    done = _run(tool, place, [tool.python, "-m", "mlperf_logging.package_checker", "--help"])
    spellings = [(f"--{flag}", f"--{flag.replace('-', '_')}") for flag in flags]
    return [next((text for text in both if text in done.stdout), both[0]) for both in spellings]


def _run(tool: Tool, place: Path, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=place, env=tool.environment, capture_output=True, encoding="utf-8", errors="replace", check=False
    )


@contextlib.contextmanager
def _copied(submitter: Submitter) -> Iterator[Path]:
    """A tree with the same names: folders made anew, logs as links to the real ones, small files copied."""
    with tempfile.TemporaryDirectory(prefix="podium-checker-") as place:
        root = Path(place) / submitter.name
        (root / "systems").mkdir(parents=True)
        (root / "results").mkdir()
        for path in submitter.descriptions:
            shutil.copyfile(path, root / "systems" / path.name)
        for system in submitter.systems:
            (root / "results" / system.name).mkdir()
            _with_params(system.folder, root / "results" / system.name)
            for result in system.results:
                _linked(result, root / "results" / system.name / result.benchmark)
        yield root


def _linked(result: Result, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in result.logs:
        (folder / path.name).symlink_to(path.absolute())
    for path in result.others:
        if path.is_dir():
            (folder / path.name).symlink_to(path.absolute())
        elif path.is_file():
            shutil.copyfile(path, folder / path.name)


def _with_params(source: Path, target: Path) -> None:
    if (source / PARAMS).is_file():
        shutil.copyfile(source / PARAMS, target / PARAMS)


def _installed(wanted: str, folder: Path) -> Path:
    python = folder / "bin" / "python"
    if (folder / "complete").exists():
        return python
    tag = f"git+{SOURCE}@{wanted}"
    with files.locked(folder.parent / f".{wanted}.lock"):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _pip(wanted, [sys.executable, "-m", "venv", str(folder)])
            install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            if "rc" in wanted:
                _pip(wanted, [*install, tag])
            else:
                try:
                    _pip(wanted, [*install, f"mlperf-logging=={wanted}"])
                except BadEnvironment:  # old releases are tags only
                    _pip(wanted, [*install, tag])
            files.write_text(folder / "complete", f"{wanted}\n")
    return python


def _pip(wanted: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode:
        last = ((done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        expected = "Python's venv, and a package index (or github.com for a tag) that can be reached"
        raise BadEnvironment(f"checker {wanted} cannot be installed", expected, last, " ".join(command))
