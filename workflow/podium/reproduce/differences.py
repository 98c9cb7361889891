"""How two machines differ, by their system descriptions, in the order in which it is likely to explain a gap in time.

Also what logs let slip: a fall-back that nobody asked for and that costs time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Fields of the official description, weightiest first: what a difference in each usually does to time to train.
WEIGHTS = (
    ("accelerator_model_name", "another accelerator changes everything"),
    ("accelerators_per_node", "the work is divided otherwise"),
    ("number_of_nodes", "the work is divided otherwise, and more goes over the network"),
    ("accelerator_frequency", "clocks bound the speed of computing"),
    ("accelerator_interconnect", "gradients are exchanged over it at every step"),
    ("host_networking", "between nodes gradients are exchanged over it at every step"),
    ("host_networking_topology", "fewer links between nodes make them wait"),
    ("accelerator_memory_capacity", "it bounds the batch of each accelerator"),
    ("framework", "another release has other kernels"),
    ("other_software_stack", "driver and libraries have other kernels and collectives"),
    ("host_processor_model_name", "it feeds the accelerators, and decodes data"),
    ("host_processors_per_node", "it feeds the accelerators, and decodes data"),
    ("host_processor_core_count", "it feeds the accelerators, and decodes data"),
    ("host_storage_type", "the first epoch reads from it"),
    ("host_memory_capacity", "data that fit in it are read from storage once"),
    ("cooling", "heat lowers clocks"),
    ("operating_system", "little"),
)

# What a log line says, what it means, what to do. Sources: messages of NCCL and PyTorch, nvidia-smi's reasons.
FALLBACKS = (
    (r"Using network Socket|via NET/Socket", "NCCL talks over sockets, not InfiniBand or RoCE",
     "NCCL_DEBUG=INFO; ibv_devinfo; the image needs the plugin and /dev/infiniband"),
    (r"GPU Direct RDMA Disabled|GDRDMA.*(?:disabled|not)", "data go through host memory: GPUDirect RDMA is off",
     "load nvidia-peermem (lsmod)"),
    (r"(?:P2P is disabled|NCCL_P2P_DISABLE set)", "accelerators of a node do not reach each other's memory",
     "unset NCCL_P2P_DISABLE; nvidia-smi topo -m"),
    (r"NVLS (?:is )?not (?:supported|available)|NVLS multicast support is not available",
     "NVLink SHARP is not used", "fabric manager, driver"),
    (r"(?:SW Power Cap|HW Slowdown|SW Thermal Slowdown|HW Thermal Slowdown) *: *Active|clocks?_?(?:event|throttle)\w*.*"
     r"(?:sw_power_cap|hw_slowdown|thermal)[^\n]*\bActive\b", "clocks are capped",
     "nvidia-smi -q -d PERFORMANCE,CLOCK"),
    (r"overlap\w*[^\n]{0,40}(?:disabled|not supported|turned off)", "exchange does not overlap with computing",
     "the framework's log says why"),
    (r"(?i)\bfall(?:ing|s)?[- ]?back\b[^\n]{0,60}\b(?:slow|cpu|eager|unfused|native|gloo|tcp)",
     "a slower way of computing was chosen", "read the line"),
    (r"(?i)CUDA (?:is )?not available|no CUDA-capable device", "it computed on the processors",
     "the engine must pass the accelerators (--gpus all)"),
)  # fmt: skip
SCANNED = 32 << 20  # bytes of a log that are searched


@dataclass(frozen=True)
class Difference:
    """`rank` 1 is the most likely explanation."""

    rank: int
    field: str
    theirs: str
    mine: str
    why: str


def systems(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> list[Difference]:
    """Fields in which two descriptions differ; those that either leaves blank are no difference but unknown."""
    found = []
    for field, why in WEIGHTS:
        one, other = _plain(theirs.get(field)), _plain(mine.get(field))
        if one and other and _key(one) != _key(other):
            found.append(Difference(len(found) + 1, field, one, other, why))
    return found


def fallbacks(logs: Iterable[Path]) -> dict[str, str]:
    """What the logs let slip: meaning, and the first line that says it with its place."""
    found: dict[str, str] = {}
    patterns = [(re.compile(pattern.encode()), meaning) for pattern, meaning, _ in FALLBACKS]
    for path in logs:
        with path.open("rb") as file:
            text = file.read(SCANNED)
        for pattern, meaning in patterns:
            if meaning not in found and (match := pattern.search(text)):
                line = text[text.rfind(b"\n", 0, match.start()) + 1 :].split(b"\n", 1)[0]
                number = text.count(b"\n", 0, match.start()) + 1
                found[meaning] = f"{path.name}:{number}: {line.decode('utf-8', 'replace').strip()[:160]}"
    return found


def advice(meaning: str) -> str:
    """What to do about a fall-back."""
    return next(todo for _, text, todo in FALLBACKS if text == meaning)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}".strip() for key, item in value.items() if item)
    return "" if value is None else str(value).strip()


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", text.lower())
