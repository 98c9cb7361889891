"""What a node says of itself: the answers of its own tools, read. Pure functions; `preflight` asks the tools."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

# nvidia-smi --query-gpu=…; names that newer drivers call clocks_event_reasons are still understood by the old ones.
GPU_FIELDS = (
    "index",
    "name",
    "uuid",
    "memory.total",
    "driver_version",
    "clocks.max.sm",
    "clocks_throttle_reasons.active",
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "retired_pages.pending",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "pcie.link.width.current",
    "pcie.link.width.max",
)
# nvml.h, nvmlClocksEventReason*: those that slow a GPU for want of power or cooling. Idle, application clocks and the
# software power cap under load are no faults.
THROTTLED = {0x8: "hardware slowdown", 0x20: "too hot (software)", 0x40: "too hot (hardware)", 0x80: "power brake"}


@dataclass(frozen=True)
class Gpu:
    """One accelerator; None where the driver does not say (`[N/A]`)."""

    index: int
    name: str
    memory_mib: int | None
    driver: str
    max_clock_mhz: int | None
    throttled: tuple[str, ...]
    ecc: bool | None
    uncorrected: int | None
    pending: bool
    broken: bool
    pcie: tuple[int | None, int | None]


@dataclass(frozen=True)
class Port:
    """One InfiniBand or RoCE port of ibstat: Gb/s of its link; `up` where it is Active and its link LinkUp."""

    adapter: str
    number: int
    up: bool
    rate: float


def gpus(answer: str) -> list[Gpu]:
    """The lines of `nvidia-smi --query-gpu=<GPU_FIELDS> --format=csv,noheader,nounits`; others are passed over."""
    found = []
    for row in csv.reader(answer.splitlines(), skipinitialspace=True):
        if len(row) != len(GPU_FIELDS) or not row[0].strip().isdecimal():
            continue
        value = {name: text.strip() for name, text in zip(GPU_FIELDS, row, strict=True)}
        found.append(
            Gpu(
                index=int(value["index"]),
                name=value["name"],
                memory_mib=_whole(value["memory.total"]),
                driver=value["driver_version"],
                max_clock_mhz=_whole(value["clocks.max.sm"]),
                throttled=_throttled(value["clocks_throttle_reasons.active"]),
                ecc={"Enabled": True, "Disabled": False}.get(value["ecc.mode.current"]),
                uncorrected=_whole(value["ecc.errors.uncorrected.volatile.total"]),
                pending="Yes" in (value["retired_pages.pending"], value["remapped_rows.pending"]),
                broken=value["remapped_rows.failure"] == "Yes",
                pcie=(_whole(value["pcie.link.width.current"]), _whole(value["pcie.link.width.max"])),
            )
        )
    return found


def nvlinks(answer: str) -> dict[int, list[bool]]:
    """`nvidia-smi nvlink --status`: for each GPU, whether each of its links is up."""
    found: dict[int, list[bool]] = {}
    current = None
    for line in answer.splitlines():
        if start := re.match(r"GPU (\d+):", line):
            current = found.setdefault(int(start[1]), [])
        elif current is not None and (link := re.match(r"\s+Link \d+: (.+)", line)):
            current.append("GB/s" in link[1])
    return found


def ports(answer: str) -> list[Port]:
    """`ibstat`: every port of every adapter."""
    found = []
    for adapter, text in re.findall(r"^CA '([^']+)'\n(.*?)(?=^CA '|\Z)", answer, re.MULTILINE | re.DOTALL):
        for number, port in re.findall(r"^\s+Port (\d+):\n(.*?)(?=^\s+Port \d+:|\Z)", text, re.MULTILINE | re.DOTALL):
            value = dict(re.findall(r"^\s+([A-Za-z ]+): (.+)$", port, re.MULTILINE))
            up = value.get("State") == "Active" and value.get("Physical state") == "LinkUp"
            rate = re.match(r"[\d.]+", value.get("Rate", ""))
            found.append(Port(adapter, int(number), up, float(rate[0]) if rate else 0.0))
    return found


def clock(chrony: str, timedatectl: str) -> tuple[bool | None, float | None]:
    """Whether the clock is kept in time, and by how many seconds it is off; None where nobody says.

    `chronyc -c tracking` (comma-separated; field 5 is the offset of the system clock, the last the leap status), else
    `timedatectl show`.
    """
    fields = chrony.strip().split(",")
    if len(fields) >= 14:
        try:
            return fields[-1] != "Not synchronised", abs(float(fields[4]))
        except ValueError:
            pass
    said = re.search(r"^NTPSynchronized=(yes|no)$", timedatectl, re.MULTILINE)
    return (said[1] == "yes" if said else None), None


def diagnosis(answer: dict) -> list[str]:
    """`dcgmi diag -r 1 -j`: what failed, as `<test>: <words>`. The layout has had two names for its root."""
    root = answer.get("DCGM GPU Diagnostic") or answer.get("DCGM Diagnostic") or {}
    found = []
    for category in root.get("test_categories", []):
        for test in category.get("tests", []):
            for result in test.get("results", []):
                if result.get("status", "").upper() == "FAIL":
                    words = result.get("warnings") or result.get("info") or "failed"
                    words = words[0].get("warning", "") if isinstance(words, list) and words else words
                    found.append(f"{test.get('name', '?')}: {words}")
    return found


def users(answer: str) -> list[tuple[int, str]]:
    """`nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader`: who is on the accelerators now."""
    rows = (line.split(", ", 1) for line in answer.splitlines())
    return [(int(row[0]), row[1].strip()) for row in rows if len(row) == 2 and row[0].strip().isdecimal()]


def memory_available(meminfo: str) -> int | None:
    """Bytes that /proc/meminfo says are available (proc(5))."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _whole(text: str) -> int | None:
    return int(float(text)) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _throttled(text: str) -> tuple[str, ...]:
    mask = int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", text) else 0
    return tuple(words for bit, words in THROTTLED.items() if mask & bit)
