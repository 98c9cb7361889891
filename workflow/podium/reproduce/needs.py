"""What an implementation reads from the host: the folders that its scripts mount, the data layout in each, and where
ours lies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from podium import config as configuration
from podium import manifest
from podium.config import Config
from podium.reproduce import discover
from podium.reproduce.discover import Implementation

MOUNT = re.compile(r"\$\{?(\w+)\}?[\w/.-]*[\"']?:[\"']?(/[\w./-]+)")
WRITTEN = frozenset(("LOGDIR", "ABSLOGDIR", "API_LOG_DIR", "APILOG_DIR", "NSYS", "CHECKPOINTDIR", "RESULT_DIR"))
CODE = frozenset(("PWD", "CWD", "HOME", "SCRIPT_DIR", "CODEDIR", "WORK_DIR", "IMPL_PATH", "NVMLPERF_NSIGHT_LOCATION",
                  "JET_DIR", "DEPENDENCIES", "POWERCMDDIR", "MASTER_ADDR", "BASE_PATH"))  # fmt: skip
READ = re.compile(r"\b(DATADIR\w*|DATA_DIR|DATAROOT|EVALDIR|PREPROC_DATA|MODEL|SPM|CHECKPOINTDIR\w*)\b")


@dataclass(frozen=True)
class Need:
    """A folder of the host. `variable` is how the scripts call it, `target` where a container sees it.

    `set` and `layout` are Podium's names of what belongs there, empty where it has none; `place` is where that lies
    here, `prepared` whether it does, and `command` what makes it.
    """

    variable: str
    target: str
    set: str
    layout: str
    files: str
    place: str
    prepared: bool
    command: str


def mounts(item: Implementation) -> dict[str, str]:
    """Variable: folder in the container, as the start script and the files that it sources say."""
    names = (item.style.entry, "config_mounts.sh", "mounts.txt")
    text = "\n".join(item.code.code(name) for name in names)
    found = {name: target.rstrip("/") for name, target in MOUNT.findall(text) if name not in CODE}
    if not found:
        found = dict.fromkeys(READ.findall(item.code.code(item.style.entry)) or ["DATADIR"], "")
    return {name: target for name, target in found.items() if name not in WRITTEN and not name.startswith("_")}


def needs(item: Implementation, config: Config | None) -> tuple[Need, ...]:
    """What must lie on the host before it starts."""
    layouts = configuration.catalog("published")["data"]
    facts = layouts.get(item.benchmark, layouts.get(discover.benchmark(item.benchmark), {}))
    bases = " ".join((*item.image.bases, item.image.reference, item.path.lower()))
    framework = next((name for name in ("tensorflow", "pytorch") if name in bases or f"{name[:1]}f-" in bases), "")
    found = []
    for variable, target in mounts(item).items():
        special = f"{variable}/{framework}" if item.benchmark == "resnet" else variable
        fact = facts.get(special, facts.get(variable, {}))
        found.append(_need(config, variable, target, fact))
    return tuple(found)


def _need(config: Config | None, variable: str, target: str, fact: dict[str, str]) -> Need:
    name, layout, files = fact.get("set", ""), fact.get("layout", ""), fact.get("files", "")
    given = config.reproduce.data.get(variable) if config else None
    if given:
        return Need(variable, target, name, layout, files, given, Path(given).exists(), f"ls {given}")
    if not name:
        return Need(
            variable,
            target,
            "",
            "",
            files,
            "",
            False,
            f"# {variable}: put it on the nodes, and set reproduce.data.{variable} in the config",
        )
    make = (
        f"podium fetch {name}" if layout == "raw" else f"podium fetch {name} && podium prepare {name} --layout {layout}"
    )
    if config is None:
        return Need(variable, target, name, layout, files, "", False, make)
    place = (config.data_root / name / layout).absolute()
    return Need(variable, target, name, layout, files, str(place), (place / manifest.NAME).exists(), make)


def environment(found: tuple[Need, ...]) -> dict[str, str]:
    """The variables of the data that is known to lie somewhere."""
    return {need.variable: need.place for need in found if need.place}
