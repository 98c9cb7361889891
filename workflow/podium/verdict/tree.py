"""What a results tree holds: submitters, their systems, the result folders and their logs. Nothing is read or written.

Layout (submission rules): `<submitter>/{systems/<system>.json, results/<system>/<benchmark>/result_<i>.txt}`. Any part
of it can be given: a round (a folder of submitters), a submitter, a system's results, one result folder, one log.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podium.errors import BadInput

PARAMS = "package_checker_params"
SCALING = "scaling.json"
LOGS = "result_*.txt"
DEPTH = 12  # folders below the tree that are looked into for result logs in odd places


@dataclass(frozen=True)
class Result:
    """A result folder: its logs in the official order (plain sort of their names), and whatever else lies in it."""

    submitter: str
    system: str
    benchmark: str
    folder: Path
    logs: tuple[Path, ...]
    others: tuple[Path, ...]

    @property
    def name(self) -> str:
        return f"{self.submitter}/{self.system}/{self.benchmark}"

    @property
    def loose(self) -> bool:
        """Whether it lies in no submission's results/, so that its place says nothing of what it is."""
        return self.folder.parents[1].name != "results"

    def shown(self, path: Path | None = None) -> str:
        """How this folder, or something in it or above it, is written: from the submitter's name on."""
        place = self.folder if path is None else path
        root = self.folder.parents[1] if self.loose else self.folder.parents[2]
        return place.relative_to(root.parent).as_posix() if place.is_relative_to(root.parent) else place.as_posix()

    def other(self, name: str) -> Path | None:
        """The file or folder of that name beside the logs: scaling.json, power, package_checker_params."""
        return next((path for path in self.others if path.name == name), None)


@dataclass(frozen=True)
class System:
    """A system with results. `folder` is results/<system>; `description` is where its JSON belongs, there or not."""

    submitter: str
    name: str
    folder: Path
    description: Path
    results: tuple[Result, ...]


@dataclass(frozen=True)
class Submitter:
    """A submitter's tree. `descriptions` are all systems/*.json, also those without results.

    `strays` are folders with result logs where the layout has none (deeper, or directly in a system's folder): the
    official tools never look at them.
    """

    name: str
    folder: Path
    systems: tuple[System, ...]
    descriptions: tuple[Path, ...]
    strays: tuple[Path, ...]

    @property
    def results(self) -> Iterator[Result]:
        for system in self.systems:
            yield from system.results


@dataclass(frozen=True)
class Tree:
    """What was asked about. `kind`: "round", "submitter", "system", "result" or "log"; a part has one submitter with
    only that part in it."""

    path: Path
    kind: str
    submitters: tuple[Submitter, ...]

    @property
    def results(self) -> Iterator[Result]:
        for submitter in self.submitters:
            yield from submitter.results


def read(path: Path, only: tuple[str, ...] = ()) -> Tree:
    """See what lies at `path`; `only` names the submitters that are wanted.

    Raises BadInput where there is nothing of the kind, or a wanted submitter is not there.
    """
    if not path.exists():
        raise BadInput(
            f"nothing at {path}", "a submission tree, a part of one, or a log", "nothing", f"ls {path.parent}"
        )
    place = path.resolve()
    if place.is_file():
        return Tree(path, "log", (_part(place.parent.parent, place.parent, (place,)),))
    if _is_submitter(place):
        if only and place.name not in only:
            raise BadInput(
                f"{path} is the tree of one submitter, by its folder's name {place.name}",
                f"{place.name}, or no submitter's name",
                ", ".join(only),
                "the same without --submitter",
            )
        return Tree(path, "submitter", (submitter(place),))
    names = [name for name in _folders(place) if _is_submitter(place / name)]
    if names:
        return Tree(path, "round", tuple(submitter(place / name) for name in _wanted(path, names, only)))
    if place.name == "results" and _folders(place):
        return Tree(path, "submitter", (submitter(place.parent),))
    if place.parent.name == "results":
        return Tree(path, "system", (_part(place),))
    if place.parent.parent.name == "results" or _logs(place):
        return Tree(path, "result", (_part(place.parent, place),))
    if any(_logs(place / name) for name in _folders(place)):
        return Tree(path, "system", (_part(place),))
    raise BadInput(
        f"{path} holds no results",
        "folders systems/ and results/, submitters that have them, or result_*.txt",
        ", ".join(sorted(entry.name for entry in place.iterdir())[:8]) or "an empty folder",
        f"ls {path}",
    )


def submitter(folder: Path) -> Submitter:
    """A submitter's whole tree."""
    results = folder / "results"
    systems = tuple(system(folder, results / name) for name in _folders(results))
    return Submitter(folder.name, folder, systems, tuple(descriptions(folder)), tuple(_strays(results)))


def system(submitter: Path, folder: Path) -> System:
    """A system's results: `folder` is results/<system> of the submitter's tree."""
    results = tuple(result(submitter.name, folder / name) for name in _folders(folder))
    return System(submitter.name, folder.name, folder, submitter / "systems" / f"{folder.name}.json", results)


def result(submitter: str, folder: Path, logs: tuple[Path, ...] | None = None) -> Result:
    """A result folder, or the given logs of it."""
    found = tuple(_logs(folder)) if logs is None else logs
    hidden = {path.name for path in found}
    # Hidden files are no part of a result: the official tool's `*` does not match them either.
    others = tuple(folder / name for name in _names(folder) if name not in hidden and not name.startswith("."))
    return Result(submitter, folder.parent.name, folder.name, folder, found, others if logs is None else ())


def descriptions(submitter: Path) -> Iterator[Path]:
    """Every systems/*.json of a submitter's tree."""
    folder = submitter / "systems"
    for name in _names(folder):
        if fnmatch.fnmatchcase(name, "*.json") and not name.startswith("."):
            yield folder / name


def _part(system_folder: Path, only: Path | None = None, logs: tuple[Path, ...] | None = None) -> Submitter:
    """One system of a submitter, one result of it, or some of its logs."""
    home = system_folder.parent.parent if system_folder.parent.name == "results" else system_folder.parent
    whole = system(home, system_folder) if only is None else None
    results = whole.results if whole else (result(home.name, only, logs),)
    description = home / "systems" / f"{system_folder.name}.json"
    one = System(home.name, system_folder.name, system_folder, description, results)
    return Submitter(home.name, home, (one,), (description,) if description.exists() else (), ())


def _wanted(path: Path, names: list[str], only: tuple[str, ...]) -> list[str]:
    if missing := sorted(set(only) - set(names)):
        raise BadInput(
            f"no submitter {', '.join(missing)} in {path}", "one of " + ", ".join(names), "another", f"ls {path}"
        )
    return [name for name in names if not only or name in only]


def _is_submitter(folder: Path) -> bool:
    return (folder / "results").is_dir() or (folder / "systems").is_dir()


def _strays(results: Path) -> Iterator[Path]:
    """Folders below results/ with result logs that are no <system>/<benchmark>; links are not followed."""
    for base, folders, names in os.walk(results):
        depth = len(Path(base).relative_to(results).parts)
        folders[:] = sorted(folders) if depth < DEPTH else []
        if depth != 2 and any(fnmatch.fnmatchcase(name, LOGS) for name in names):
            yield Path(base)


def _logs(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if fnmatch.fnmatchcase(name, LOGS)]


def _folders(folder: Path) -> list[str]:
    return [name for name in _names(folder) if (folder / name).is_dir()]


def _names(folder: Path) -> list[str]:
    """Names in a folder in plain order; none where it is absent or cannot be read."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []
