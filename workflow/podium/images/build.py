"""`podium build`: the image of an implementation, built once, locked in `image.json`."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadEnvironment, BadInput
from podium.images import lock
from podium.images.lock import Image
from podium.plan import Plan

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's own index of CPU builds: 0.2 GB instead of 3
TORCH_INDEX_VARIABLE = "PODIUM_TORCH_INDEX"  # an index to use instead, or "default"
MARK = "podium.json"  # written last into a virtual environment: a folder without it is an interrupted build


def build(config: Config, wanted: Plan) -> Image:
    """Build (or find) the virtual environment, snapshot the implementation, write `image.json`; returns the image.

    Nothing is built where the same requirements were installed before, and nothing is written where nothing changed.
    Raises BadInput for an implementation that breaks the folder contract, BadEnvironment when pip fails.
    """
    source = wanted.result.implementation
    _check_contract(source, wanted.result.config)
    requirements = read_requirements(source / "requirements.txt")
    venv = environment(config.root, requirements, cpu_only=wanted.system.gpus_per_node == 0)
    facts = files.read_json(venv / MARK)
    contents = lock.contents(source)
    path = plan.image_file(config, wanted)
    snapshot = path.parent / "implementation"
    commit, dirty = lock.commit(source)
    image = Image(
        engine="process",
        reference=lock.reference(facts["packages"], facts["python"], contents),
        implementation=str(snapshot),
        venv=str(venv),
        python=facts["python"],
        commit=commit,
        dirty=dirty,
        requirements=requirements,
        packages=facts["packages"],
        files=contents,
    )
    if not snapshot.is_dir() or lock.contents(snapshot) != contents:
        with files.replacing(snapshot) as fresh:
            for name in contents:
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, fresh / name)
    files.write_json(path, image.as_json())
    return image


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


def _check_contract(source: Path, config: str) -> None:
    """The folder contract of an implementation: run_and_time.sh, requirements.txt, configs/<config>.env."""
    for name in ("run_and_time.sh", "requirements.txt", f"configs/{config}.env"):
        if not (source / name).is_file():
            raise BadInput(
                f"{source} is not an implementation that Podium can run",
                name,
                "nothing there",
                "see the folder contract in containers/README.md",
            )


def environment(root: Path, requirements: tuple[str, ...], cpu_only: bool) -> Path:
    """The virtual environment for these requirements, shared by all implementations that ask for the same."""
    python = ".".join(map(str, sys.version_info[:3]))
    key = files.hash_json({"requirements": sorted(requirements), "python": python, "cpu_only": cpu_only})[:16]
    venv = (root / "images" / "venvs" / key).absolute()
    with files.locked(venv.with_suffix(".lock")):
        if not (venv / MARK).exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(venv, requirements, cpu_only)
            packages = _freeze(venv)
            files.write_json(venv / MARK, {"python": python, "packages": packages})
    return venv


def _install(venv: Path, requirements: tuple[str, ...], cpu_only: bool) -> None:
    """Make the environment; pip's words are kept in `<venv>.log`."""
    log = venv.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    _logged([sys.executable, "-m", "venv", str(venv)], log)
    if not requirements:
        return
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    torch = [line for line in requirements if line.startswith("torch==")]
    index = torch_index() if torch and cpu_only else None
    print(
        f"build: downloading {_size(torch, index)}, installing {len(requirements)} pinned packages into {venv}",
        flush=True,
    )
    started = time.monotonic()
    if index:
        _logged([*pip, "--index-url", index, *torch], log)
    _logged([*pip, *requirements], log)
    print(f"build: environment ready in {time.monotonic() - started:.0f} s", flush=True)


def _size(torch: list[str], index: str | None) -> str:
    """What a build downloads: said before it starts, for whoever pays by the byte."""
    if not torch:
        return "what the requirements name"
    return "about 0.3 GB" if index or _has_local_wheel() else "about 3 GB (the default index has builds with CUDA)"


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


def _freeze(venv: Path) -> dict[str, str]:
    """Name and version of every installed package."""
    places = [str(path) for path in (venv / "lib").glob("python*/site-packages")]
    return {item.name.lower(): item.version for item in importlib.metadata.distributions(path=places)}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    parser.add_argument("--benchmark", required=True)
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium build --system S --benchmark B`."""
    config = configuration.load(args.config)
    image = build(config, plan.of(config, args.system, args.benchmark))
    print(
        json.dumps(image.as_json(), indent=1)
        if args.json
        else f"build {args.benchmark}: {image.reference[:27]}… locked"
    )
    return 0
