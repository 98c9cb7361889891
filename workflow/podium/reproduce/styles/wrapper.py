"""The policy's wrapper: a folder for each system with `setup.sh` and `run_and_time.sh`, which change to the folder of
the code, source a config there and start it; or a folder that only names the system, beside the code.

Source: training policies, "Directory structure for submissions"; Inspur, GIGABYTE, H3C, Fujitsu, Dell, nettrix, Verda.
"""

from __future__ import annotations

import difflib
import re

from podium.reproduce.folder import Folder
from podium.reproduce.styles import apptainer, docker, plain, slurm
from podium.reproduce.styles.style import Style

CHANGE = re.compile(r"(?m)^\s*cd\s+[\"']?(?:\$\(dirname[^)]*\)/)?(\.\.[^\s;&\"']*)")
CONFIG = re.compile(r"(?m)^\s*(?:source|\.)\s+[\"']?(?:\./)?(\S*config\S*\.(?:sh|env))")
ENTRY = re.compile(r"run_with_docker\w*\.sh|run\S*\.sub|run\.slurm|run_and_time\.sh")
CODE = (docker, slurm, apptainer)


def detect(folder: Folder) -> Style | None:
    if _code(folder):
        return None
    words = "\n".join(folder.code(name) for name in folder.matching("run*.sh", "setup.sh"))
    change = CHANGE.search(words)
    if change:
        return _named(folder, words, change[1])
    return _beside(folder)


def _named(folder: Folder, words: str, place: str) -> Style | None:
    """It says itself where the code is; the folder it changes to must lie in the tree."""
    target = folder.at(place)
    if target is None:
        return Style("wrapper", target=place, refused=f"it changes to {place}, which is not in the tree")
    entry = ENTRY.search(words)
    ways = _code(target) or [found for found in (plain.detect(target),) if found]
    way = next((item for item in ways if entry and item.entry == entry[0]), ways[0] if ways else None)
    if way is None:
        return None
    config = CONFIG.search(words)
    return _wrapped(way, place, config[1] if config else "", ())


def _beside(folder: Folder) -> Style | None:
    """It only names the system: the code is the folder beside it whose configs are named most like it."""
    if folder.matching("*.py"):
        return None  # code of its own
    above = folder.at("..")
    beside = [item for item in above.folders() if item.path != folder.path and _code(item)] if above else []
    if not beside:
        return None
    best = max(beside, key=lambda item: _likeness(folder, item))
    note = f"nothing in {folder.name} says what it starts: the code beside it, {best.name}, is assumed"
    return _wrapped(_code(best)[0], f"../{best.name}", "", (note,))


def _wrapped(way: Style, target: str, config: str, notes: tuple[str, ...]) -> Style:
    return Style(
        "wrapper", way.entry, way.launcher, way.engine, way.logs, target, config, way.network, "", (*notes, *way.notes)
    )


def _code(folder: Folder) -> list[Style]:
    return [found for way in CODE if (found := way.detect(folder))]


def _likeness(folder: Folder, other: Folder) -> float:
    names = [other.name, *(name[7:-3] for name in other.matching("config_*.sh"))]
    return max(difflib.SequenceMatcher(None, folder.name.lower(), name.lower()).ratio() for name in names)
