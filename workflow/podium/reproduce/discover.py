"""What a tree of published results holds: the implementations with their style, and the results with their score.

Layout (submission rules): `<submitter>/{benchmarks/<benchmark>/implementations/<name>, systems, results}`. Real trees
differ: `benchmark/`, no `implementations/`, systems above benchmarks, code several folders deeper. Nothing is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from podium import config as configuration
from podium.errors import BadInput
from podium.reproduce import image, styles
from podium.reproduce.folder import Folder, inside
from podium.reproduce.image import Image
from podium.reproduce.styles import plain
from podium.reproduce.styles.style import Style
from podium.verdict import tree

CODE = ("benchmarks", "benchmark")
LEVEL = ("implementations", "implementation")
PARTS = ("scripts", "docker")  # folders beside implementations that are parts of them
DEPTH = 6  # folders below a benchmark's that are looked into
LARGEST = 256 << 20  # bytes of a result log that is read; the longest ever published has 4.1 MB
CONFIGS = ("config_*.sh", "config*.sh", "*.env")
PART = re.compile(r"(?:^|_)(common|mounts|data|hpg)(?:[_.]|$)")  # in names of files that configs source; hpg: a site


@dataclass(frozen=True)
class Implementation:
    """A folder with code for a benchmark, or one that stands for a system beside it.

    `path` is relative to the tree; `ways` are the styles in which it can be started, best first, or one refusal;
    `code` is the folder from which it is started (a wrapper's target).
    """

    submitter: str
    benchmark: str
    path: str
    ways: tuple[Style, ...]
    code: Folder
    configs: tuple[str, ...]
    image: Image

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def style(self) -> Style:
        return self.ways[0]

    @property
    def refused(self) -> str:
        """Why it cannot be run; empty where it can."""
        return self.style.refused or (f"no image: {self.image.why}" if self.image.kind == "missing" else "")


@dataclass(frozen=True)
class Published:
    """A published result: its logs, and the description of its system.

    `trouble` is what is wrong with its place or its logs; such logs are left out.
    """

    result: tree.Result
    description: Mapping[str, Any]
    trouble: tuple[str, ...]

    def number(self, field: str) -> int:
        """A number of the description; 0 where it has none."""
        found = re.match(r"\s*(\d+)", str(self.description.get(field, "")))
        return int(found[1]) if found else 0

    @property
    def nodes(self) -> int:
        return max(1, self.number("number_of_nodes"))

    @property
    def gpus(self) -> int:
        """Accelerators of a node; 0 where it computes on its processors."""
        return self.number("accelerators_per_node")


@dataclass(frozen=True)
class Tree:
    """A published tree: `root` as given, and all that was found below it."""

    root: Path
    implementations: tuple[Implementation, ...]
    results: tuple[Published, ...]


def discover(root: Path, submitters: tuple[str, ...] = ()) -> Tree:
    """Look at a round, or at one submitter's tree. Raises BadInput where there is nothing of the kind."""
    found = tree.read(root, submitters)
    if found.kind not in ("round", "submitter"):
        raise BadInput(
            f"{root} is a part of a tree", "a round, or a submitter's whole tree", f"a {found.kind}", f"ls {root}"
        )
    root = root.resolve()
    seen: list[Implementation] = []
    results: list[Published] = []
    for submitter in found.submitters:
        home = Folder(root, PurePosixPath(submitter.folder.relative_to(root)))
        seen += implementations(home, submitter.name)
        results += [published(root, result) for result in submitter.results if _shown(root, result)]
    return Tree(root, tuple(seen), tuple(results))


def _shown(root: Path, result: tree.Result) -> bool:
    return bool(result.logs) or not inside(root, result.folder) or (result.folder.parents[2] / "systems").is_dir()


def implementations(home: Folder, submitter: str) -> list[Implementation]:
    """Every implementation of a submitter, in plain order."""
    found = []
    for code in (item for name in CODE if (item := home.at(name))):
        for top in code.folders():
            if top.name in LEVEL:  # systems above benchmarks
                places = [(item.name, item) for system in top.folders() for item in system.folders()]
                found += [implementation(item, submitter, name) for name, item in places]
            else:
                found += [implementation(item, submitter, top.name) for item in _code(top)]
    return found


def implementation(folder: Folder, submitter: str, benchmark: str) -> Implementation:
    """What one folder is."""
    ways = styles.of(folder)
    code = folder.at(ways[0].target) or folder
    configs = tuple(name for name in _configs(code) if not PART.search(name.rpartition("/")[2][6:]))
    if ways[0].refused or all(way.engine == "process" for way in ways):
        found = image.NONE
    else:
        found = _image(folder, code, submitter, benchmark)
    if found.kind == "missing" and ways[0].entry in plain.NAMES and "requirements.txt" in code.names():
        # The bare contract needs no container: its requirements make a virtual environment.
        note = f"no image ({found.why}): engine process alone"
        ways, found = (replace(ways[0], engine="process", notes=(*ways[0].notes, note)),), image.NONE
    return Implementation(submitter, benchmark, folder.path.as_posix(), ways, code, configs, found)


def _image(folder: Folder, code: Folder, submitter: str, benchmark: str) -> Image:
    """Of the code, else of the wrapper, else of the code beside it that has a Dockerfile (scripts alone)."""
    tag = re.sub(r"[^a-z0-9_.-]+", "-", f"{submitter}-{benchmark}".lower())
    above = code.at("..")
    beside = [item for item in above.folders() if "Dockerfile" in item.names()] if above else []
    places = {item.path: item for item in (code, folder, *beside)}
    answers = [image.of(place, f"podium-reproduce/{tag}:latest") for place in places.values()]
    return next((answer for answer in answers if answer.kind != "missing"), answers[0])


def _configs(code: Folder) -> Iterator[str]:
    """Configs of a folder and of the folders for them below it."""
    yield from code.matching(*CONFIGS)
    for below in (item for name in ("configs", "config") if (item := code.at(name))):
        for place in (below, *below.folders()):
            prefix = place.path.relative_to(code.path).as_posix()
            yield from (f"{prefix}/{name}" for name in place.matching(*CONFIGS))


def _code(top: Folder) -> list[Folder]:
    """The implementations below a benchmark's folder; the folder itself where it holds the code."""
    found = list(_walk(top, 0, stated=False))
    return found or [top]


def _walk(folder: Folder, depth: int, stated: bool) -> Iterator[Folder]:
    """`stated` says that the layout calls this folder an implementation, whatever is in it."""
    if depth and _starts(folder):
        yield folder
        return
    if not depth and _starts(folder) and not any(folder.at(name) for name in LEVEL):
        yield folder
        return
    below: list[Folder] = []
    for item in folder.folders() if depth < DEPTH else ():
        if item.name in PARTS:
            continue
        below += _walk(item, depth + 1, stated=folder.name in LEVEL)
    if below and stated and any(item.path.parent != folder.path for item in below) and not _nested(below):
        below = []
    yield from below
    if stated and not below:
        yield folder


def _nested(below: list[Folder]) -> bool:
    """Whether what lies deep inside is whole implementations, not scripts of a library among the code."""
    return any(item.matching("run*.sub", "run_with_docker.sh", "run_and_time*.sh", "launch_*.sh") for item in below)


def _starts(folder: Folder) -> bool:
    """Whether scripts that start a training lie in a folder itself."""
    names = folder.matching(
        "run*.sub",
        "run.slurm",
        "run_with_docker.sh",
        "run_and_time*.sh",
        "run_*node*.sh",
        "run_benchmark.sh",
        "launch_*.sh",
        "create_submission.py",
    )
    return bool(names) or bool(folder.matching("config_*.sh", "setup.sh") and folder.path.parent.name in LEVEL)


def published(root: Path, result: tree.Result) -> Published:
    """A result with the description of its system; logs that leave the tree or are far too long are left out."""
    trouble, logs = [], []
    place = result.folder.parents[2] / "systems" / f"{result.system}.json"
    if not inside(root, result.folder):
        return Published(replace(result, logs=()), {}, (f"{result.name}: its folder is a link out of the tree",))
    for path in result.logs:
        if not inside(root, path) or not path.is_file():
            trouble.append(f"{path.name}: no file of this tree; it is left out")
        elif (size := path.stat().st_size) > LARGEST:
            trouble.append(f"{path.name}: {size / 1e9:.1f} GB, a log has at most {LARGEST >> 20} MiB; it is left out")
        else:
            logs.append(path)
    if not result.logs:
        trouble.append("no logs: the folder has no result_*.txt")
    description = _description(root, place)
    if not description:
        trouble.append(f"no description of the system: {place.name} is absent or no JSON object")
    return Published(replace(result, logs=tuple(logs)), description, tuple(trouble))


def _description(root: Path, path: Path) -> Mapping[str, Any]:
    folder = Folder(root, PurePosixPath(path.parent.relative_to(root)))
    try:
        value = json.loads(folder.text(path.name) or "null")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def benchmark(name: str) -> str:
    """The name that a round may have for the benchmark that a folder is called by."""
    return configuration.catalog("published")["benchmarks"].get(name, name)
