"""`podium describe`: the system description JSON, collected on this node and completed from the config.

Fields and their types: mlperf_logging system_desc_checker, and MLPerf submission rules, section on system descriptions.
Every field is a string; what no tool tells and the config does not say stays blank and is named as open.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config, System
from podium.images import lock
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

# The log's submission_status is a short word; the description wants these from round 4.0 on, older rounds take any.
STATUS = {
    "onprem": "Available on-premise",
    "cloud": "Available cloud",
    "preview": "Preview",
    "research": "Research, Development, or Internal (RDI)",
}


def describe(config: Config, system: System) -> dict[str, Any]:
    """The description of one system: collected facts, then what the config says, then who submits what."""
    facts = collect()
    identity = {
        "submitter": config.submission.org,
        "division": config.submission.division,
        "status": STATUS[config.submission.status],
        "system_name": system.name,
        "number_of_nodes": str(system.nodes),
        "accelerators_per_node": str(system.gpus_per_node),
        "framework": _framework(config, system),
    }
    notes = {"hw_notes": DEMO_LABEL} if config.submission.demo else {}
    without = {} if system.gpus_per_node else {"accelerator_model_name": "N/A"}
    merged = {**facts, **without, **notes, **system.description, **identity}
    return {field: merged.get(field, "") for field in FIELDS}


def open_fields(description: Mapping[str, Any]) -> list[str]:
    """Fields that are still blank; those of accelerators are not asked of a system that has none."""
    bare = description["accelerators_per_node"] == "0"
    return [
        field for field, value in description.items() if value == "" and not (bare and field.startswith("accelerator_"))
    ]


def collect() -> dict[str, str]:
    """What this node tells of itself; a missing tool leaves its fields out."""
    return {
        **parse_lscpu(_output("lscpu", "-J")),
        **parse_meminfo(_text("/proc/meminfo")),
        **parse_lsblk(_output("lsblk", "-J", "-b", "-d", "-o", "NAME,TYPE,ROTA,SIZE,TRAN")),
        **parse_os_release(_text("/etc/os-release")),
    }


def parse_lscpu(text: str) -> dict[str, str]:
    """`lscpu -J`: model, sockets, cores, threads, frequency, caches."""
    if not text:
        return {}
    facts: dict[str, str] = {}
    queue = list(json.loads(text)["lscpu"])
    while queue:
        item = queue.pop()
        facts[item["field"].rstrip(":")] = item["data"] or ""
        queue += item.get("children", [])
    sockets, cores = facts.get("Socket(s)", ""), facts.get("Core(s) per socket", "")
    caches = [f"{name} {facts[name]}" for name in ("L1d", "L1i", "L2", "L3") if facts.get(name)]
    caches = caches or [
        f"{name[:3].strip()} {facts[name]}" for name in sorted(facts) if re.match(r"L\d\w? cache", name)
    ]
    frequency = facts.get("CPU max MHz", "")
    return {
        "host_processors_per_node": sockets,
        "host_processor_model_name": facts.get("Model name", ""),
        "host_processor_core_count": cores,
        "host_processor_vcpu_count": facts.get("CPU(s)", ""),
        "host_processor_frequency": f"{float(frequency):.0f} MHz" if frequency else "",
        "host_processor_caches": ", ".join(caches),
    }


def parse_meminfo(text: str) -> dict[str, str]:
    """`/proc/meminfo`: the memory that the kernel sees, in whole GiB."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return {"host_memory_capacity": f"{round(int(found[1]) / 2**20)} GiB"} if found else {}


def parse_lsblk(text: str) -> dict[str, str]:
    """`lsblk -J -b -d`: kind and size of the disks, equal ones counted together."""
    if not text:
        return {}
    disks = [disk for disk in json.loads(text)["blockdevices"] if disk["type"] == "disk" and int(disk["size"] or 0)]
    kinds = sorted({_disk_kind(disk) for disk in disks})
    sizes = [f"{int(disk['size']) / 1e9:.0f} GB" for disk in disks]
    counted = [f"{sizes.count(size)}x {size}" for size in dict.fromkeys(sizes)]
    return {"host_storage_type": ", ".join(kinds), "host_storage_capacity": ", ".join(counted)} if disks else {}


def parse_os_release(text: str) -> dict[str, str]:
    """`/etc/os-release` (os-release(5)), with the kernel's release."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return {"operating_system": f"{found[1]}, Linux {platform.release()}"} if found else {}


def _disk_kind(disk: Mapping[str, Any]) -> str:
    if (disk.get("tran") or "") == "nvme" or disk["name"].startswith("nvme"):
        return "NVMe SSD"
    if disk["name"].startswith("vd"):
        return "virtual disk"
    return "HDD" if disk["rota"] in (True, "1") else "SSD"


def _framework(config: Config, system: System) -> str:
    """The framework of the images that run on the system, from their locks."""
    versions = set()
    for item in plan.plans(config):
        if item.system == system:
            packages = lock.read(plan.image_file(config, item)).packages
            versions |= {f"PyTorch {packages['torch']}"} if "torch" in packages else set()
    return ", ".join(sorted(versions))


def _output(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    return answer.stdout if answer.returncode == 0 else ""


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium describe --system S`: writes systems/<S>.json and names what is still open."""
    config = configuration.load(args.config)
    description = describe(config, config.system(args.system))
    files.write_json(plan.system_file(config, args.system), description)
    missing = open_fields(description)
    if args.json:
        print(json.dumps({"description": description, "open": missing}, indent=1))
    else:
        where = (
            f"open (set them under systems.{args.system}.description): {', '.join(missing)}" if missing else "none open"
        )
        print(f"describe {args.system}: {len(FIELDS) - len(missing)} of {len(FIELDS)} fields known; {where}")
    return 0
