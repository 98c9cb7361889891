"""What it takes to run a published result again: image, config, hardware, data, environment, start line, time, cost.

A plan is made without running anything of theirs but the config, which is sourced shut in (source_config).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from podium import files
from podium.reproduce import differences, discover, expected, hardware, match, needs, sandbox, source_config, styles
from podium.reproduce.differences import Difference
from podium.reproduce.discover import Implementation, Published
from podium.reproduce.expected import Expected
from podium.reproduce.folder import Folder, leaving
from podium.reproduce.hardware import Hardware, Mine
from podium.reproduce.image import Image
from podium.reproduce.needs import Need
from podium.reproduce.source_config import Sourced
from podium.reproduce.styles.style import Start, Style

CONFIGURED = ("docker", "amd", "slurm", "apptainer")  # styles that cannot start without a config
LIMIT = 1440  # minutes of a run where neither config nor logs tell
# What we always tell a foreign script: the in-image checker has another ruleset, and site checks fail on other sites.
FIXED = {
    "NEXP": "1",
    "CHECK_COMPLIANCE": "0",
    "NCCL_TEST": "0",
    "VERIFY_MOUNTS": "0",
    "HANG_MONITOR_TIMEOUT": "0",
    "API_LOGGING": "0",
}


@dataclass(frozen=True)
class Known:
    """What the logs of a result say: minutes (None: not converged), global batch size, score, required runs."""

    minutes: tuple[float | None, ...]
    batch_size: int | None
    score: float | None
    required: int


@dataclass(frozen=True)
class Plan:
    """How one result, or an implementation without results, is run again; or why it cannot be (`refused`).

    `exports` is what the config exports, `environment` what we set after it; `lacks` what this machine has not;
    `commands` are lines for a shell, in order.
    """

    submitter: str
    system: str
    benchmark: str
    refused: str
    implementation: str
    code: str
    style: str
    ways: tuple[str, ...]
    chosen: tuple[str, ...]
    config: str
    exports: Mapping[str, str]
    environment: Mapping[str, str]
    image: Image
    wants: Hardware
    mine: Hardware | None
    lacks: tuple[str, ...]
    data: tuple[Need, ...]
    runs: int
    required: int
    published: int
    score: float | None
    batch_size: int | None
    limit_minutes: int
    expected: Expected
    differences: tuple[Difference, ...]
    start: tuple[str, ...]
    commands: tuple[str, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"state": "refused" if self.refused else "planned", **asdict(self)}


def plans(tree: discover.Tree, known: Mapping[str, Known], me: Mine) -> list[Plan]:
    """One plan for each result, and one for each implementation that no result was made with."""
    wanted: list[Callable[[], Plan]] = []
    used: set[str] = set()
    for published in tree.results:
        facts = known[published.result.name]
        choice = match.choose(published, tree.implementations, facts.batch_size)
        if choice is None:
            wanted.append(partial(_without, published, facts, me))
        else:
            used.add(choice.implementation.path)
            wanted.append(partial(of, choice.implementation, choice.config, me, published, facts, choice.reasons))
    for item in tree.implementations:
        if item.path not in used:
            config = item.style.config or (_most_like(item) if item.configs else "")
            wanted.append(partial(of, item, config, me))
    sandbox.way()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda make: make(), wanted))


def of(
    item: Implementation,
    config: str,
    me: Mine,
    published: Published | None = None,
    facts: Known | None = None,
    chosen: Sequence[str] = (),
) -> Plan:
    """The plan of an implementation with one of its configs, of a result or of none."""
    item = replace(item, image=Image("pull", me.image)) if me.image and item.image.kind != "none" else item
    refused = item.refused
    sourced = Sourced({}, ())
    if not refused and config:
        sourced = source_config.read(item.code, config)
    elif not refused and item.style.name in CONFIGURED:
        refused = "no config: the folder has no config_*.sh that could be sourced"
    wants = hardware.wanted(published, sourced)
    style = _way(item, wants)
    data = () if refused else needs.needs(item, me.config)
    limit = sourced.minutes or source_config.minutes(sourced.exports.get("WALLTIME_RUNANDTIME", ""))
    time = _expected(published, facts, wants, me)
    limit = limit or (max(30, round(4 * (time.longest + (time.initial or 0)))) if time.longest else LIMIT)
    environment = _environment(item, config, data, wants, sourced, me)
    start = tuple(styles.command(style, Start(wants.nodes, wants.gpus, limit))) if not refused else ()
    theirs = published.description if published else {}
    return Plan(
        submitter=item.submitter,
        system=published.result.system if published else "",
        benchmark=published.result.benchmark if published else item.benchmark,
        refused=refused,
        implementation=item.path,
        code=item.code.path.as_posix(),
        style=item.style.name,
        ways=tuple(dict.fromkeys(way.name for way in item.ways)),
        chosen=tuple(chosen),
        config=config,
        exports=sourced.exports,
        environment=environment,
        image=item.image,
        wants=wants,
        mine=hardware.of_mine(me),
        lacks=hardware.lacks(wants, style, me),
        data=data,
        runs=me.runs,
        required=facts.required if facts else 0,
        published=len(facts.minutes) if facts else 0,
        score=facts.score if facts else None,
        batch_size=facts.batch_size if facts else None,
        limit_minutes=limit,
        expected=time,
        differences=tuple(differences.systems(theirs, me.description)) if me.system and theirs else (),
        start=start,
        commands=() if refused else _commands(item, config, data, environment, start),
        notes=(*style.notes, *sourced.notes, *(published.trouble if published else ()), *_replaced(item.image),
               *_disagree(published, sourced), *_links(item.code), *_small(data, me)),
    )  # fmt: skip


def _without(published: Published, facts: Known, me: Mine) -> Plan:
    """The plan of a result for which the submitter gives no code."""
    why = f"no code: {published.result.submitter} has none for {published.result.benchmark}"
    nothing = Implementation(published.result.submitter, published.result.benchmark, "", (Style("none", refused=why),),
                             Folder(Path(), PurePosixPath()), (), Image("missing", why="no code"))  # fmt: skip
    return of(nothing, "", me, published, facts)


def _most_like(item: Implementation) -> str:
    """The config whose name is most like the folder's, the first among equals."""
    return max(item.configs, key=lambda name: match.likeness(item.name, name))


def _way(item: Implementation, wants: Hardware) -> Style:
    """Of several ways the one for the size: one node by docker, several by Slurm."""
    if wants.nodes > 1:
        return next((way for way in item.ways if way.launcher == "slurm"), item.style)
    return item.style


def _environment(
    item: Implementation, config: str, data: Sequence[Need], wants: Hardware, sourced: Sourced, me: Mine
) -> dict[str, str]:
    """What is set after the config is sourced; paths of their site are replaced, DATESTAMP and SEED come with a run."""
    found = dict(FIXED)
    stem = config.rpartition("/")[2].removeprefix("config_").removesuffix(".sh")
    stem = stem.removesuffix(".env")
    if stem:
        found["DGXSYSTEM"] = stem
    if item.image.reference:
        found["CONT"] = item.image.reference
    found |= {need.variable: need.place or f"/path/to/{need.variable}" for need in data}
    found |= {"LOGDIR": "/path/to/results", "DATESTAMP": "run", "SEED": "1"}
    if me.config is not None and me.system is not None:
        submission = me.config.submission
        found |= {"MLPERF_SUBMISSION_ORG": submission.org, "MLPERF_SUBMISSION_PLATFORM": me.system.name}
        found |= {"MLPERF_DIVISION": submission.division, "MLPERF_STATUS": submission.status}
    sizes = {"DGXNNODES": str(wants.nodes), "DGXNGPU": str(wants.gpus)}
    found |= {name: value for name, value in sizes.items() if name not in sourced.exports}
    return found


def _commands(
    item: Implementation, config: str, data: Sequence[Need], environment: Mapping[str, str], start: Sequence[str]
) -> tuple[str, ...]:
    """Lines that a person can paste into a shell at the root of the tree."""
    lines = [shlex.join(words) for words in item.image.commands()]
    if item.style.engine == "enroot" and item.image.reference:
        lines.append(f"enroot import --output image.sqsh dockerd://{item.image.reference}  # where pyxis cannot pull")
    if item.style.engine == "apptainer" and item.image.reference:
        lines.append(f"apptainer build image.sif docker-daemon://{item.image.reference}")
    lines += [need.command for need in data if not need.prepared]
    lines += [f"cd {shlex.quote(item.code.path.as_posix())}", "export NEXP=1"]
    lines += [f"source {shlex.quote('./' + config)}"] if config else []
    lines += ["export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())]
    return tuple(dict.fromkeys([*lines, shlex.join(start)]))


def _expected(published: Published | None, facts: Known | None, wants: Hardware, me: Mine) -> Expected:
    price = me.config.reproduce.price_per_accelerator_hour if me.config else None
    first = published.result.logs[0] if published and published.result.logs else None
    devices = wants.nodes * max(1, wants.gpus)
    return expected.expected(facts.minutes if facts else (), first, me.runs, devices, price)


def _replaced(image: Image) -> list[str]:
    return [f"base {old} is private; {new} takes its place" for old, new in (image.replaced or {}).items()]


def _small(data: Sequence[Need], me: Mine) -> list[str]:
    """Data sets that stand in for whole ones here: what was published on the whole does not converge on them."""
    sources = {name: item.source for name, item in me.config.datasets.items()} if me.config else {}
    found = {need.set: sources[need.set] for need in data if need.set in sources}
    made = {name: source for name, source in found.items() if source.startswith(("demo", "samples:"))}
    return [f"data set {name} is made small here (source {source}), theirs is whole" for name, source in made.items()]


def _links(code: Folder) -> list[str]:
    """Links of the code that lead out of the tree: they are not followed, and not copied for a run."""
    found = leaving(code)
    shown = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
    return [f"links that leave the tree are left out: {shown}"] if found else []


def _disagree(published: Published | None, sourced: Sourced) -> list[str]:
    """Where the config that was chosen asks for another size than the published system has."""
    if published is None:
        return []
    pairs = (("DGXNNODES", published.nodes), ("DGXNGPU", published.gpus))
    return [
        f"the config says {name}={sourced.number(name)}, the published system has {number}"
        for name, number in pairs
        if number and sourced.number(name) not in (None, number)
    ]


def write(plan: Plan, folder: Path) -> Path:
    """Write a plan as JSON into `folder`; returns its path."""
    path = folder / "plan.json"
    files.write_json(path, plan.as_json())
    return path
