"""Processors, memory, disks and operating system of a node."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from podium.package.probes import printed

Fields = dict[str, str]


def lscpu(text: str) -> Fields:
    """`lscpu -J` (util-linux): model, sockets, cores of a socket, threads of the node, frequency, caches."""
    facts: dict[str, str] = {}
    queue = printed.mappings(printed.mapping(printed.value(text)).get("lscpu"))
    while queue:
        item = queue.pop()
        facts[str(item.get("field", "")).rstrip(":")] = str(item.get("data") or "")
        queue += printed.mappings(item.get("children"))
    caches = [f"{name} {facts[name]}" for name in ("L1d", "L1i", "L2", "L3") if facts.get(name)]
    caches = caches or [
        f"{name[:3].strip()} {facts[name]}" for name in sorted(facts) if re.match(r"L\d\w? cache", name)
    ]
    model = facts.get("Model name", "")
    found = {
        "host_processors_per_node": facts.get("Socket(s)", ""),
        "host_processor_model_name": model,
        "host_processor_core_count": facts.get("Core(s) per socket", ""),
        "host_processor_vcpu_count": facts.get("CPU(s)", ""),
        "host_processor_frequency": _frequency(facts.get("CPU max MHz", ""), model),
        "host_processor_caches": ", ".join(caches),
    }
    return {field: value for field, value in found.items() if value not in ("", "-")}


def _frequency(megahertz: str, model: str) -> str:
    """The highest frequency; where the kernel has none (virtual machines), the one in the model's name."""
    if re.fullmatch(r"[\d.]+", megahertz):
        return f"{float(megahertz):.0f} MHz"
    named = re.search(r"@ ([\d.]+) ?GHz", model)
    return f"{float(named[1]) * 1000:.0f} MHz" if named else ""


def cpuinfo(text: str) -> Fields:
    """`/proc/cpuinfo`: the frequency now, for machines whose highest one nothing tells."""
    found = re.search(r"^cpu MHz\s*: ([\d.]+)", text, re.MULTILINE)
    return {"host_processor_frequency": f"{float(found[1]):.0f} MHz"} if found else {}


def meminfo(text: str) -> Fields:
    """`/proc/meminfo` (proc(5)): the memory that the kernel sees, in whole GiB."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", text, re.MULTILINE)
    return {"host_memory_capacity": f"{round(int(found[1]) / 2**20)} GiB"} if found else {}


def dmidecode(text: str) -> Fields:
    """`dmidecode --type 17` (SMBIOS memory devices, root only): modules by number, size, kind and speed; the capacity
    is that of the modules, of which the kernel sees a little less."""
    modules: Counter[str] = Counter()
    gigabytes = 0
    for block in text.split("Memory Device")[1:]:
        size = re.search(r"^\s*Size: (\d+) (MB|GB|MiB|GiB)$", block, re.MULTILINE)
        if size is None:
            continue  # "No Module Installed"
        amount = int(size[1]) if size[2].startswith("G") else int(size[1]) // 1024
        kind = re.search(r"^\s*Type: (\S+)$", block, re.MULTILINE)
        speed = re.search(r"^\s*Configured (?:Memory|Clock) Speed: (\d+) (?:MT/s|MHz)$", block, re.MULTILINE)
        name = f"{kind[1]}" if kind and kind[1] not in ("Unknown", "Other", "RAM") else ""
        modules[
            " ".join(part for part in (f"{amount} GB", name + (f"-{speed[1]}" if name and speed else "")) if part)
        ] += 1
        gigabytes += amount
    if not modules:
        return {}
    return {
        "host_memory_configuration": ", ".join(f"{count}x {module}" for module, count in sorted(modules.items())),
        "host_memory_capacity": f"{gigabytes} GB",
    }


def lsblk(text: str) -> Fields:
    """`lsblk -J -b -d -o NAME,TYPE,ROTA,SIZE,TRAN`: kind and size of the disks, equal ones counted together."""
    listed = printed.mappings(printed.mapping(printed.value(text)).get("blockdevices"))
    disks = [
        disk for disk in listed if disk.get("type") == "disk" and re.fullmatch("[1-9][0-9]*", str(disk.get("size")))
    ]
    if not disks:
        return {}
    kinds = sorted({_disk_kind(disk) for disk in disks})
    sizes = [_size(int(disk["size"])) for disk in disks]
    counted = [f"{sizes.count(size)}x {size}" for size in dict.fromkeys(sizes)]
    return {"host_storage_type": ", ".join(kinds), "host_storage_capacity": ", ".join(counted)}


def _size(count: int) -> str:
    return f"{count / 1e12:.2f} TB" if count >= 1e12 else f"{count / 1e9:.0f} GB"


def _disk_kind(disk: Mapping[str, Any]) -> str:
    name = str(disk.get("name"))
    if disk.get("tran") == "nvme" or name.startswith("nvme"):
        return "NVMe SSD"
    if name.startswith(("vd", "xvd")):
        return "virtual disk"
    return "HDD" if disk.get("rota") in (True, "1") else "SSD"


def os_release(text: str, kernel: str) -> Fields:
    """`/etc/os-release` (os-release(5)), with the kernel's release."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return {"operating_system": f"{found[1]}, Linux {kernel}"} if found else {}
