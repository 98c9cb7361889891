"""The network ports of a node: InfiniBand by `ibstat`, Ethernet by `ip` and the kernel's link speeds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from podium.package.probes import printed

# What the kernel makes up itself is no port of the machine.
VIRTUAL = re.compile(r"^(lo|docker|veth|br-|virbr|tun|tap|cni|flannel|cali|bond|dummy|ib|vxlan|kube|podman)")


def networking(ibstat: str, ip: str, speeds: Mapping[str, str]) -> dict[str, str]:
    """`host_networking` from `ibstat`, `ip -j link` and the Mbit/s of each interface (/sys/class/net/<name>/speed)."""
    ports = Counter(infiniband(ibstat))
    ports.update(ethernet(ip, speeds))
    named = [f"{count}x {port}" for port, count in sorted(ports.items(), key=lambda item: _order(item[0]))]
    return {"host_networking": ", ".join(named)} if named else {}


def infiniband(text: str) -> list[str]:
    """The active ports of `ibstat`, each as "InfiniBand 400 Gb/s" or, by its link layer, "RoCE 200 Gb/s"."""
    found = []
    for port in re.split(r"^\s*Port \d+:", text, flags=re.MULTILINE)[1:]:
        state = re.search(r"State: (\w+)", port)
        rate = re.search(r"Rate: (\d+)", port)
        layer = re.search(r"Link layer: (\w+)", port)
        if state and state[1] == "Active" and rate:
            kind = "RoCE" if layer and layer[1] == "Ethernet" else "InfiniBand"
            found.append(f"{kind} {rate[1]} Gb/s")
    return found


def ethernet(text: str, speeds: Mapping[str, str]) -> list[str]:
    """The interfaces of `ip -j link` that are up, each with its speed where the kernel knows it."""
    found = []
    for link in printed.mappings(printed.value(text)):
        name = str(link.get("ifname", ""))
        if link.get("link_type") != "ether" or link.get("operstate") != "UP" or VIRTUAL.match(name):
            continue
        speed = speeds.get(name, "").strip()
        known = speed.isdigit() and int(speed) > 0
        found.append(f"Ethernet {int(speed) / 1000:g} Gb/s" if known else "Ethernet")
    return found


def _order(port: str) -> tuple[float, str]:
    """The fastest first."""
    rate = re.search(r"([\d.]+) Gb/s", port)
    return (-float(rate[1]) if rate else 0.0, port)
