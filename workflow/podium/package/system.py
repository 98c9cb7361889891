"""`podium describe`: the system description, from what its nodes tell and what the config adds.

Fields and their types: mlperf_logging system_desc_checker, and MLPerf submission rules, section on system descriptions.
Nodes that differ are shown as they are, never averaged; what no tool tells and the config does not say stays blank and
is named as open, though the official checker lets a blank field pass.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config, System
from podium.errors import BadInput
from podium.images import lock
from podium.images.lock import Image
from podium.package import gather, nodes
from podium.package.nodes import Node
from podium.package.probes import software
from podium.verdict.score.score import DEMO_LABEL

FIELDS = (
    "submitter",
    "division",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_memory_capacity",
    "host_storage_type",
    "host_storage_capacity",
    "host_networking",
    "host_networking_topology",
    "host_memory_configuration",
    "accelerators_per_node",
    "accelerator_model_name",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_memory_configuration",
    "accelerator_memory_capacity",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "framework",
    "other_software_stack",
    "operating_system",
    "sw_notes",
)
NOTES = ("hw_notes", "sw_notes")  # nothing to say is an answer here
COUNTS = ("host_processors_per_node",)  # the official summarizer takes them for whole numbers

# The log's submission_status is a short word; the description wants these from round 4.0 on, older rounds take any.
STATUS = {
    "onprem": "Available on-premise",
    "cloud": "Available cloud",
    "preview": "Preview",
    "research": "Research, Development, or Internal (RDI)",
}
UNSAID = re.compile(r"\s*(|tbd|todo|changeme|unknown|\?+|x+|fixme|placeholder.*|<.*>)\s*", re.I)


@dataclass(frozen=True)
class Description:
    """The official `fields`; which of them are `open`; what is not the same on all nodes, by field and value."""

    fields: dict[str, Any]
    open: tuple[str, ...]
    differences: Mapping[str, Mapping[str, Sequence[str]]]


def describe(config: Config, system: System, seen: Sequence[Node] = ()) -> Description:
    """The description of a system: what its nodes tell, then what the config says, then who submits what.

    Raises BadInput for a field of the config that is none, or for a value of a wrong type.
    """
    seen = seen or (nodes.collect(),)
    _check_overrides(config, system)
    images = _images(config, system)
    packages = [image.packages for image in images]
    differences = nodes.differences(seen)
    pythons = ", ".join(sorted({image.python for image in images}))
    stack = {**software.libraries(packages), "python": pythons, **_software(seen)}
    facts = {
        **{field: _together(field, seen) for field in FIELDS if any(field in node.fields for node in seen)},
        "framework": software.framework(packages),
        "other_software_stack": {name: version for name, version in stack.items() if version} or "",
    }
    identity = {
        "submitter": config.submission.org,
        "division": config.submission.division,
        "status": STATUS[config.submission.status],
        "system_name": system.name,
        "number_of_nodes": str(system.nodes),
        "accelerators_per_node": str(system.gpus_per_node),
    }
    notes = {"hw_notes": DEMO_LABEL} if config.submission.demo else {}
    without = {} if system.gpus_per_node else {"accelerator_model_name": "N/A"}
    merged = {**facts, **without, **notes, **system.description, **identity}
    fields = {field: merged.get(field, "") for field in FIELDS}
    return Description(fields, tuple(open_fields(fields)), {**differences, **_counts(system, seen)})


def open_fields(description: Mapping[str, Any]) -> list[str]:
    """Fields that nobody has filled: blank, or a placeholder; none about accelerators where there are none."""
    bare = description.get("accelerators_per_node") == "0"
    return [
        field
        for field in FIELDS
        if field not in NOTES
        and (isinstance(description.get(field, ""), str) and UNSAID.fullmatch(description.get(field, "")))
        and not (bare and field.startswith("accelerator_"))
    ]


def facts_file(config: Config, system: str) -> Path:
    """What each node told, beside the description: for the report, and for nobody outside."""
    return plan.system_file(config, system).with_suffix(".nodes.json")


def write(config: Config, system: System, seen: Sequence[Node]) -> Description:
    """Describe a system and write the description, and beside it what each node told."""
    found = describe(config, system, seen)
    facts = {"nodes": [node.as_json() for node in seen], "differences": found.differences, "open": list(found.open)}
    files.write_json(facts_file(config, system.name), facts)
    files.write_json(plan.system_file(config, system.name), found.fields)
    return found


def _together(field: str, seen: Sequence[Node]) -> str:
    """One value where all nodes have it; else each with how many nodes do. A count that differs is left open."""
    values = [node.fields.get(field, "unknown") for node in seen]
    known = list(dict.fromkeys(values))
    if len(known) == 1:
        return known[0]
    return "" if field in COUNTS else ", ".join(f"{value} ({values.count(value)} nodes)" for value in known)


def _software(seen: Sequence[Node]) -> dict[str, str]:
    names = sorted({name for node in seen for name in node.software})
    return {name: ", ".join(sorted({node.software[name] for node in seen if name in node.software})) for name in names}


def _counts(system: System, seen: Sequence[Node]) -> dict[str, dict[str, list[str]]]:
    """Where the nodes are other or fewer than the config says."""
    found: dict[str, dict[str, list[str]]] = {}
    wrong = [node for node in seen if node.accelerators != system.gpus_per_node]
    if wrong:
        found["accelerators, against the config"] = {f"{system.gpus_per_node}": ["config"]} | {
            f"{count}": [node.host for node in wrong if node.accelerators == count]
            for count in sorted({node.accelerators for node in wrong})
        }
    if len(seen) != system.nodes:
        told = {f"{system.nodes}": ["config"], f"{len(seen)}": [node.host for node in seen]}
        found["number_of_nodes, against the config"] = told
    return found


def _check_overrides(config: Config, system: System) -> None:
    for field, value in system.description.items():
        if field not in FIELDS:
            raise BadInput(
                f"systems.{system.name}.description has no field {field!r}",
                "one of the official fields: " + ", ".join(FIELDS),
                configuration.nearest(field, FIELDS),
                f"edit {config.path}",
            )
        if not isinstance(value, str) and field != "other_software_stack":
            raise BadInput(
                f"systems.{system.name}.description.{field} has the wrong type",
                "text (numbers in quotes); only other_software_stack may be a mapping",
                type(value).__name__,
                f"edit {config.path}",
            )


def _images(config: Config, system: System) -> list[Image]:
    """The locks of the images that run on the system."""
    paths = [plan.image_file(config, item) for item in plan.plans(config) if item.system == system]
    return [lock.read(path) for path in dict.fromkeys(paths)]


def arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--system", help="describe this system of the config")
    what.add_argument("--node", action="store_true", help="print what this node tells of itself, as JSON")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="with --node: write it there, named by the node")
    parser.add_argument(
        "--from",
        nargs="+",
        type=Path,
        metavar="FILE",
        dest="told",
        help="what --node printed on each node of the system",
    )
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium describe --system S` writes systems/<S>.json and names what is open; `podium describe --node` prints."""
    if args.node:
        here = nodes.collect()
        if args.into:
            files.write_json(args.into / f"{here.host}{gather.SUFFIX}", here.as_json())
        else:
            print(json.dumps(here.as_json(), indent=1))
        return 0
    config = configuration.load(args.config)
    system = config.system(args.system)
    found = write(config, system, _told(args.told) if args.told else gather.gather(config, system))
    if args.json:
        print(json.dumps({"description": found.fields, "open": found.open, "differences": found.differences}, indent=1))
        return 0
    known = len(FIELDS) - len(found.open)
    where = (
        f"open (set them under systems.{args.system}.description): {', '.join(found.open)}"
        if found.open
        else "none open"
    )
    print(f"describe {args.system}: {known} of {len(FIELDS)} fields known; {where}")
    for field, values in found.differences.items():
        print(f"  differs: {field}: " + "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in values.items()))
    return 0


def _told(told: Sequence[Path]) -> list[Node]:
    found = []
    for path in told:
        try:
            value = files.read_json(path)
        except (OSError, ValueError) as error:
            command = f"podium describe --node > {path}, on the node"
            raise BadInput(f"{path} cannot be read", "JSON", str(error), command) from error
        found.append(nodes.from_json(value, str(path)))
    return found
