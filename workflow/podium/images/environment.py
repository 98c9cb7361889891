"""The virtual environments of engine `process`: one for each list of requirements, made once, known by its content."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from podium import files
from podium.errors import BadEnvironment, BadInput

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's own index of CPU builds: 0.2 GB instead of 3
TORCH_INDEX_VARIABLE = "PODIUM_TORCH_INDEX"  # an index to use instead, or "default"
MARK = "podium.json"  # written last into a virtual environment: a folder without it is an interrupted build


def read_requirements(path: Path) -> tuple[str, ...]:
    """The requirements of a file and of the files it includes by `-r`, without comments, in order."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadInput(
            f"cannot read {path}", "pinned requirements, one a line", str(error), "see containers/README.md"
        ) from error
    found: list[str] = []
    for line in (line.partition("#")[0].strip() for line in lines):
        if line.startswith("-r"):
            found += read_requirements(path.parent / line[2:].strip())
        elif line:
            found.append(line)
    return tuple(dict.fromkeys(found))


def environment(root: Path, requirements: tuple[str, ...], cpu_only: bool, wheels: Path | None = None) -> Path:
    """The virtual environment for these requirements, shared by all implementations that ask for the same.

    With `wheels` it is made of those in that folder alone, without a network. Raises BadEnvironment when pip fails.
    """
    python = ".".join(map(str, sys.version_info[:3]))
    key = files.hash_json({"requirements": sorted(requirements), "python": python, "cpu_only": cpu_only})[:16]
    venv = (root / "images" / "venvs" / key).absolute()
    with files.locked(venv.with_suffix(".lock")):
        if not (venv / MARK).exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(venv, requirements, cpu_only, wheels)
            files.write_json(venv / MARK, {"requirements": requirements, "python": python})
    return venv


def _install(venv: Path, requirements: tuple[str, ...], cpu_only: bool, wheels: Path | None) -> None:
    """Make the environment; pip's words are kept in `<venv>.log`."""
    log = venv.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    _logged([sys.executable, "-m", "venv", str(venv)], log)
    if not requirements:
        return
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    pip += ["--no-index", "--find-links", str(wheels)] if wheels else []
    torch = [line for line in requirements if line.startswith("torch==")]
    index = torch_index() if torch and cpu_only and not wheels else None
    print(
        f"build: {_source(torch, index, wheels)}, installing {len(requirements)} pinned packages into {venv}",
        flush=True,
    )
    started = time.monotonic()
    if index:
        _logged([*pip, "--index-url", index, *torch], log)
    _logged([*pip, *requirements], log)
    print(f"build: environment ready in {time.monotonic() - started:.0f} s", flush=True)


def _source(torch: list[str], index: str | None, wheels: Path | None) -> str:
    """Where a build takes its packages from, and how much: said before it starts, for whoever pays by the byte."""
    if wheels:
        return f"taking wheels from {wheels}"
    if not torch:
        return "downloading what the requirements name"
    small = index or _has_local_wheel()
    return f"downloading about {'0.3 GB' if small else '3 GB (the default index has builds with CUDA)'}"


def base() -> str:
    """What an environment stands on: this Python, and the C library of the machine."""
    return f"Python {platform.python_version()} ({sys.executable}), {' '.join(platform.libc_ver())}"


def download(requirements: tuple[str, ...], wheels: Path, cpu_only: bool, python: str | None = None) -> None:
    """Bring the wheels of these requirements into a folder, for builds without a network.

    `python` is the version (`3.11`) of the Python that they are for, this one by default. Raises BadEnvironment
    where pip fails; what it said is kept in `<wheels>.log`.
    """
    pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--dest", str(wheels)]
    pip += ["--only-binary=:all:", "--find-links", str(wheels)] + (["--python-version", python] if python else [])
    torch = [line for line in requirements if line.startswith("torch==")]
    index = torch_index() if torch and cpu_only else None
    wheels.mkdir(parents=True, exist_ok=True)
    log = wheels.with_name(f"{wheels.name}.log")
    log.write_bytes(b"")
    if index:
        _logged([*pip, "--no-deps", "--index-url", index, *torch], log)
    _logged([*pip, *requirements], log)


def torch_index() -> str | None:
    """PyTorch's CPU index where it answers within 3 s, the one that the variable names, or None for the default."""
    import requests

    chosen = os.environ.get(TORCH_INDEX_VARIABLE)
    if chosen:
        return None if chosen == "default" else chosen
    try:
        return TORCH_CPU_INDEX if requests.head(f"{TORCH_CPU_INDEX}/torch/", timeout=3).ok else None
    except requests.RequestException:
        return None


def _has_local_wheel() -> bool:
    """Whether pip is set up to find torch on this machine's own disk."""
    return any(list(Path(folder).glob("torch-*+cpu*.whl")) for folder in os.environ.get("PIP_FIND_LINKS", "").split())


def _logged(command: list[str], log: Path) -> None:
    with log.open("ab") as writer:
        status = subprocess.run(command, stdout=writer, stderr=subprocess.STDOUT, check=False).returncode
    if status != 0:
        text = log.read_text(encoding="utf-8", errors="replace")
        raise BadEnvironment(
            f"`{' '.join(command[:5])} …` failed with status {status}",
            "all requirements installed",
            f"{_cause(text)}; the last lines of {log}:\n    " + "\n    ".join(text.splitlines()[-30:]),
            "mend the cause and run the same command again",
        )


def _cause(text: str) -> str:
    """The likely cause of a failed pip, from its own words."""
    causes = {
        "No space left on device": "the disk is full",
        "No matching distribution": "a pinned version is not to be had from the index",
        "Temporary failure in name resolution": "the package index cannot be reached",
        "ConnectionError": "the package index cannot be reached",
        "ensurepip is not available": "python3-venv is not installed",
        "Permission denied": "no permission to write",
    }
    return next((cause for words, cause in causes.items() if words in text), "see the log")
