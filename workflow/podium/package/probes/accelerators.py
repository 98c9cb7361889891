"""Accelerators by their vendors' tools. Each parser gives official fields, and the versions that the tool names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from podium.package.probes import printed


@dataclass(frozen=True)
class Accelerators:
    """What a tool tells of a node's accelerators: how many, official fields, versions of driver and runtime."""

    count: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)


def nvidia(text: str, nvlink: str = "") -> Accelerators:
    """`nvidia-smi -q -x`, and `nvidia-smi nvlink --status` for the links between the accelerators."""
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return Accelerators()
    cards = root.findall("gpu")

    def all_of(path: str) -> list[str]:
        return [value.strip() for card in cards if (value := card.findtext(path, "")) not in ("", "N/A")]

    names = all_of("product_name")
    generations, widths = (
        all_of("pci/pci_gpu_link_info/pcie_gen/max_link_gen"),
        all_of("pci/pci_gpu_link_info/link_widths/max_link_width"),
    )
    links = [f"PCIe {gen}.0 x{width.rstrip('x')}" for gen, width in zip(generations, widths, strict=False)]
    found = {
        "accelerator_model_name": counted(names),
        "accelerator_memory_capacity": counted([_gib(value) for value in all_of("fb_memory_usage/total")]),
        "accelerator_memory_configuration": counted(_kinds_of_memory(names)),
        "accelerator_frequency": counted(all_of("max_clocks/sm_clock")),
        "accelerator_host_interconnect": counted(links),
        "accelerator_interconnect": _nvlink(nvlink),
    }
    software = {"driver": root.findtext("driver_version", ""), "cuda_driver": root.findtext("cuda_version", "")}
    return _known(len(cards), found, software)


def _nvlink(text: str) -> str:
    """The links of each accelerator that are up: "18x NVLink 26.562 GB/s"."""
    each = []
    for card in re.split(r"^GPU \d+:", text, flags=re.MULTILINE)[1:]:
        rates = Counter(re.findall(r"Link \d+: ([\d.]+) GB/s", card))
        each += [", ".join(f"{count}x NVLink {rate} GB/s" for rate, count in rates.items())] if rates else []
    return counted(each)


def rocm(text: str) -> Accelerators:
    """`rocm-smi --json --showproductname --showmeminfo vram --showdriverversion`; the keys' case differs by version."""
    value = printed.mapping(printed.value(text))
    cards = [
        {key.lower(): str(item) for key, item in facts.items()}
        for name, facts in sorted(value.items())
        if name.startswith("card") and isinstance(facts, dict)
    ]
    system = {key.lower(): str(item) for key, item in printed.mapping(value.get("system")).items()}
    names = [card.get("card series") or card.get("card model") or "" for card in cards]
    memory = [card["vram total memory (b)"] for card in cards if card.get("vram total memory (b)", "").isdigit()]
    found = {
        "accelerator_model_name": counted(names),
        "accelerator_memory_capacity": counted([f"{round(int(count) / 2**30)} GiB" for count in memory]),
        "accelerator_memory_configuration": counted(_kinds_of_memory(names)),
    }
    return _known(len(cards), found, {"driver": system.get("driver version", "")})


def habana(text: str) -> Accelerators:
    """`hl-smi -Q index,name,driver_version,memory.total -f csv`."""
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    if len(rows) < 2 or "name" not in rows[0]:
        return Accelerators()
    cards = [dict(zip(rows[0], row, strict=False)) for row in rows[1:] if len(row) == len(rows[0])]
    memory = next((name for name in rows[0] if name.startswith("memory.total")), "")
    found = {
        "accelerator_model_name": counted([card["name"] for card in cards]),
        "accelerator_memory_capacity": counted([_gib(card.get(memory, "")) for card in cards]),
    }
    return _known(len(cards), found, {"driver": cards[0].get("driver_version", "") if cards else ""})


def counted(values: Sequence[str]) -> str:
    """One value where all are equal; else each with how many have it, for unequal cards must not be averaged."""
    known = Counter(value for value in values if value)
    if len(known) < 2:
        return next(iter(known), "")
    return ", ".join(f"{count}x {value}" for value, count in known.items())


def _gib(text: str) -> str:
    """ "81559 MiB" as whole GiB."""
    found = re.match(r"(\d+) ?MiB", text)
    return f"{round(int(found[1]) / 1024)} GiB" if found else ""


def _kinds_of_memory(names: Sequence[str]) -> list[str]:
    """Some product names say what memory they have."""
    return [found[0] for name in names if (found := re.search(r"\b(?:HBM|GDDR)\d\w*", name))]


def _known(count: int, fields: dict[str, str], software: dict[str, str]) -> Accelerators:
    return Accelerators(
        count,
        {key: value for key, value in fields.items() if value},
        {key: value for key, value in software.items() if value and value != "N/A"},
    )
