"""What a published result wants of machines, what mine are, and what they lack."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podium import files
from podium import plan as ours
from podium.config import Config, System
from podium.reproduce.discover import Published
from podium.reproduce.source_config import Sourced
from podium.reproduce.styles.style import Style


@dataclass(frozen=True)
class Hardware:
    """Nodes, accelerators of each (0: none), their model, the processors' architecture (empty: not known)."""

    nodes: int
    gpus: int
    accelerator: str
    architecture: str


@dataclass(frozen=True)
class Mine:
    """Our side of every plan: the system to run on, its description, how many runs, an image in place of theirs."""

    config: Config | None
    system: System | None
    description: Mapping[str, Any]
    runs: int
    image: str = ""


def mine(config: Config | None, system: str | None, runs: int | None, image: str = "") -> Mine:
    """From the config; what the command line says wins. Raises BadInput for an unknown system."""
    if config is None:
        return Mine(None, None, {}, runs or 1)
    name = system or config.reproduce.system or next(iter(config.systems))
    found = config.system(name)
    path = ours.system_file(config, name)
    described = files.read_json(path) if path.exists() else {}
    sizes = {"number_of_nodes": str(found.nodes), "accelerators_per_node": str(found.gpus_per_node)}
    return Mine(config, found, {**described, **found.description, **sizes}, runs or config.reproduce.runs, image)


def wanted(published: Published | None, sourced: Sourced) -> Hardware:
    """The published system where there is one, else what the config says."""
    if published is None:
        return Hardware(sourced.number("DGXNNODES") or 1, sourced.number("DGXNGPU") or 0, "", "")
    description = published.description
    processor = str(description.get("host_processor_model_name", ""))
    arm = any(word in processor.lower() for word in ("grace", "neoverse", "arm", "kunpeng", "ampere altra"))
    gpus = published.gpus or sourced.number("DGXNGPU") or 0
    architecture = "aarch64" if arm else "x86_64" if processor else ""
    return Hardware(published.nodes, gpus, str(description.get("accelerator_model_name", "")), architecture)


def of_mine(me: Mine) -> Hardware | None:
    if me.system is None:
        return None
    model = str(me.description.get("accelerator_model_name", ""))
    return Hardware(me.system.nodes, me.system.gpus_per_node, model, platform.machine())


def lacks(wants: Hardware, style: Style, me: Mine) -> tuple[str, ...]:
    """What our system has not; none where there is no system to compare with."""
    have = of_mine(me)
    if have is None or me.system is None:
        return ()
    found = []
    if have.nodes < wants.nodes:
        found.append(f"{wants.nodes} nodes, {have.nodes} here")
    if have.gpus < wants.gpus:
        found.append(f"{wants.gpus} accelerators a node ({wants.accelerator or 'any'}), {have.gpus} here")
    if wants.architecture and have.architecture != wants.architecture:
        found.append(f"processors of {wants.architecture}, {have.architecture} here")
    if style.launcher == "slurm" and me.system.launcher != "slurm":
        found.append(f"Slurm; the launcher here is {me.system.launcher}")
    if wants.nodes > 1 and style.launcher == "local":
        found.append("a way to start on several nodes: its scripts have none for Slurm")
    return tuple(found)
