"""What a node is made of, and how well it is, before a run: for the comparison of two nights, and to doubt a number.

Facts are read from /sys, /proc and the vendors' tools where they are there; what cannot be read is left out. Those that
change from minute to minute (load, temperature, reasons for throttling) are health, not facts.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium import files
from podium.errors import BadEnvironment

GPU = ("driver_version", "vbios_version", "name", "clocks.max.sm", "clocks.max.mem", "power.limit", "ecc.mode.current")
GPU_HEALTH = ("clocks_throttle_reasons.active", "ecc.errors.uncorrected.volatile.total", "temperature.gpu")
GPU_PREFLIGHT = ("name", "driver", "max_clock_mhz", "ecc")
BENIGN = 0x1 | 0x2  # throttle reasons of nvml.h that are none: idle, application clocks setting
FILES = {  # fact: file whose first line it is
    "bios.version": "sys/class/dmi/id/bios_version",
    "bios.date": "sys/class/dmi/id/bios_date",
    "kernel.release": "proc/sys/kernel/osrelease",
    "kernel.version": "proc/sys/kernel/version",
    "kernel.arguments": "proc/cmdline",
    "driver.nvidia": "sys/module/nvidia/version",
    "driver.amdgpu": "sys/module/amdgpu/version",
    "driver.mlx5_core": "sys/module/mlx5_core/version",
    "cpu.governor": "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "cpu.clock_limit": "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    "cpu.turbo_clock_off": "sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu.smt": "sys/devices/system/cpu/smt/active",
    "memory.hugepages": "sys/kernel/mm/transparent_hugepage/enabled",
    "memory.numa_balancing": "proc/sys/kernel/numa_balancing",
}


def of_this_node(data: Path, base: Path = Path("/")) -> dict[str, Any]:
    """The facts of the node that runs this; `data` is where the data sets lie."""
    facts = {name: text for name, path in FILES.items() if (text := _line(base / path))}
    facts |= parse_cpuinfo(_text(base / "proc/cpuinfo"))
    facts |= infiniband(base / "sys/class/infiniband")
    facts |= parse_mounts(_text(base / "proc/mounts"), data)
    facts |= parse_gpus(_nvidia(GPU))
    return {"host": platform.node(), **facts}


def of_nodes(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """What other nodes said of themselves before the run, in the records of `podium preflight` in `folder`."""
    found: dict[str, set[str]] = {}
    for name in names:
        try:
            said = files.read_json(folder / f"{name}.json")["facts"]
            gpus = [(f"gpu.{fact}", gpu[fact]) for gpu in said["gpus"] for fact in GPU_PREFLIGHT]
            for fact, value in [("kernel.release", said["kernel"]), *gpus]:
                found.setdefault("driver.nvidia" if fact == "gpu.driver" else fact, set()).add(str(value))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it was not looked at, or by another version
    return {fact: ", ".join(sorted(values)) for fact, values in found.items()}


def health(root: Path, base: Path = Path("/")) -> list[str]:
    """What speaks against trusting a number that is measured here now, one sentence each."""
    found = parse_gpu_health(_nvidia(GPU_HEALTH))
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > cores:
        found.append(f"other work on the machine: load {load:.1f} on {cores} cores")
    usage = shutil.disk_usage(next(parent for parent in (root.absolute(), *root.absolute().parents) if parent.exists()))
    if usage.free < 0.02 * usage.total:
        found.append(f"the disk of {root} is full to {100 * (1 - usage.free / usage.total):.0f} %")
    down = [fact for fact, value in infiniband(base / "sys/class/infiniband").items() if "DOWN" in value]
    return found + [f"{fact} is down" for fact in down]


def parse_cpuinfo(text: str) -> dict[str, str]:
    """Model and microcode, from /proc/cpuinfo."""
    fields = dict(line.split(":", 1) for line in text.partition("\n\n")[0].splitlines() if ":" in line)
    named = {name.strip(): value.strip() for name, value in fields.items()}
    wanted = {"cpu.model": "model name", "cpu.microcode": "microcode"}
    return {fact: named[name] for fact, name in wanted.items() if name in named}


def parse_gpus(text: str) -> dict[str, str]:
    """The answer of `nvidia-smi --query-gpu=… --format=csv,noheader`; equal GPUs are told once."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]
    rows = [row for row in rows if len(row) == len(GPU)]
    facts = {f"gpu.{name}": ", ".join(sorted({row[place] for row in rows})) for place, name in enumerate(GPU) if rows}
    if rows:
        facts["driver.nvidia"] = facts.pop("gpu.driver_version")
        facts["gpu.count"] = str(len(rows))
    return facts


def parse_gpu_health(text: str) -> list[str]:
    """Throttling and memory errors, from nvidia-smi's answer; `[N/A]` is no finding."""
    found = []
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        reasons, errors, temperature = ([cell.strip() for cell in line.split(",")] + [""] * 3)[:3]
        if reasons.startswith("0x") and (active := int(reasons, 16) & ~BENIGN):
            found.append(f"GPU {number} is throttled (reasons {active:#x}, {temperature} degrees)")
        if errors.isdecimal() and int(errors):
            found.append(f"GPU {number} has {errors} uncorrected memory errors")
    return found


def infiniband(base: Path) -> dict[str, str]:
    """Firmware, state and rate of every port below /sys/class/infiniband."""
    facts = {}
    for device in sorted(base.iterdir()) if base.is_dir() else ():
        facts[f"network.{device.name}.firmware"] = _line(device / "fw_ver")
        for port in sorted((device / "ports").glob("*")):
            facts[f"network.{device.name}.{port.name}"] = f"{_line(port / 'state')} {_line(port / 'rate')}".strip()
    return {name: value for name, value in facts.items() if value}


def parse_mounts(text: str, path: Path) -> dict[str, str]:
    """Type and options of the file system that `path` is on, from /proc/mounts."""
    entries = [line.split() for line in text.splitlines() if len(line.split()) >= 4]
    holding = [entry for entry in entries if path.absolute().is_relative_to(entry[1].replace("\\040", " "))]
    if not holding:
        return {}
    _, _, kind, options = max(holding, key=lambda entry: len(entry[1]))[:4]
    return {"disk.type": kind, "disk.options": options}


def of_site(command: str) -> Mapping[str, Any]:
    """What a command of the site prints as a JSON object.

    Raises BadEnvironment where it fails: a fact that is missing on one of two nights is no help.
    """
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    try:
        value = json.loads(answer.stdout) if answer.returncode == 0 else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadEnvironment(
            "nightly.facts: the site's command gives no facts",
            "a JSON object on standard output, status 0",
            f"status {answer.returncode}: {(answer.stderr or answer.stdout).strip()[-300:]}",
            f"run it by hand: {command}",
        )
    return value


def _nvidia(fields: tuple[str, ...]) -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str:
    return _text(path).partition("\n")[0].strip()
