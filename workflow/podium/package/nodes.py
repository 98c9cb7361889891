"""The facts of the nodes: what each tells of itself, and where they differ."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium.errors import BadInput
from podium.package.probes import accelerators, host, network, software
from podium.package.probes.accelerators import Accelerators

TOOLS = {
    "lscpu": ("-J",),
    "lsblk": ("-J", "-b", "-d", "-o", "NAME,TYPE,ROTA,SIZE,TRAN"),
    "dmidecode": ("--type", "17"),
    "ibstat": (),
    "ip": ("-j", "link"),
    "nvidia-smi": ("-q", "-x"),
    "rocm-smi": ("--json", "--showproductname", "--showmeminfo", "vram", "--showdriverversion"),
    "hl-smi": ("-Q", "index,name,driver_version,memory.total", "-f", "csv"),
    "sinfo": ("--version",),
}
FILES = ("/proc/cpuinfo", "/proc/meminfo", "/etc/os-release")
# Where vendors put their tools; jobs often start with a short PATH.
PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin:/usr/lib/wsl/lib"
PATIENCE = 30  # seconds: a driver that hangs must not hold up the description


@dataclass(frozen=True)
class Node:
    """One node: its host name, official fields, software versions, accelerators, and the tools that told nothing."""

    host: str
    fields: dict[str, str]
    software: dict[str, str]
    accelerators: int
    silent: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(value: Any, where: str) -> Node:
    """The node that `as_json` wrote; raises BadInput for anything else."""
    try:
        return Node(**{**value, "silent": tuple(value["silent"])})
    except (TypeError, KeyError) as error:
        command = "podium describe --node > FILE, on the node"
        raise BadInput(f"{where} is no description of a node", "what that prints", repr(error), command) from error


def collect() -> Node:
    """What this node tells of itself; a missing tool leaves its fields out and is named."""
    said = {name: output(name, *words) for name, words in TOOLS.items()}
    said["nvlink"] = output("nvidia-smi", "nvlink", "--status") if said["nvidia-smi"] else ""
    speeds = {path.parent.name: read(path) for path in Path("/sys/class/net").glob("*/speed")}
    said |= {path: read(Path(path)) for path in FILES}
    name = os.environ.get("SLURMD_NODENAME") or platform.node()  # Slurm's name for it, where a job of Slurm asks
    return parse(name, platform.release(), said, speeds)


def parse(name: str, kernel: str, said: Mapping[str, str], speeds: Mapping[str, str]) -> Node:
    """The node from what is `said`, by tool (TOOLS) and by file (FILES), and from the Mbit/s of its interfaces."""
    cards = [
        accelerators.nvidia(said["nvidia-smi"], said["nvlink"]),
        accelerators.rocm(said["rocm-smi"]),
        accelerators.habana(said["hl-smi"]),
    ]
    here: Accelerators = max(cards, key=lambda item: item.count)
    fields = {
        **host.cpuinfo(said["/proc/cpuinfo"]),
        **host.lscpu(said["lscpu"]),
        **host.meminfo(said["/proc/meminfo"]),
        **host.dmidecode(said["dmidecode"]),
        **host.lsblk(said["lsblk"]),
        **host.os_release(said["/etc/os-release"], kernel),
        **network.networking(said["ibstat"], said["ip"], speeds),
        **here.fields,
    }
    versions = {**here.software, **software.scheduler(said["sinfo"])}
    silent = tuple(sorted(tool for tool in TOOLS if not said[tool]))
    return Node(name, fields, versions, here.count, silent)


def differences(nodes: Sequence[Node]) -> dict[str, dict[str, list[str]]]:
    """What is not the same on all nodes: by field or program, each value with the hosts that have it."""
    found: dict[str, dict[str, list[str]]] = {}
    names = sorted({name for node in nodes for name in (*node.fields, *node.software)})
    for name in [*names, "accelerators"]:
        values: dict[str, list[str]] = {}
        for node in nodes:
            facts = {**node.fields, **node.software, "accelerators": str(node.accelerators)}
            values.setdefault(facts.get(name, "unknown"), []).append(node.host)
        if len(values) > 1:
            found[name] = values
    return found


def output(*command: str) -> str:
    """What a tool prints; "" where it is missing, fails or does not answer."""
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:{PLACES}")
    if program is None:
        return ""
    environment = {
        "LC_ALL": "C",
        "PATH": PLACES,
        **{key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ},
    }
    try:
        answer = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def read(path: Path) -> str:
    """A file of the kernel; "" where there is none, or it has no answer (a link that is down has no speed)."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
