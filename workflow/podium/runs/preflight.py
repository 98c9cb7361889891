"""`podium preflight`: whether a node is fit for a run, asked on that node, before each attempt or once a day.

A node that is not fit runs nothing: its attempt ends before the training begins and says why, and the node is passed
over from then on (`<root>/preflight/<system>/<node>.json`), until it passes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config, System
from podium.data import verify
from podium.errors import BadEnvironment, BadInput, Findings
from podium.images import lock
from podium.images.engines import choose
from podium.runs import nodes

DAY = 86_400  # seconds
PATIENCE = 120  # seconds for one tool: one that hangs is a finding of its own


@dataclass(frozen=True)
class Wanted:
    """`systems.<name>.preflight` of the config (config/README.md); None: not looked at."""

    when: str = "daily"
    gpu: str | None = None
    nvlinks: int | None = None
    infiniband_ports: int | None = None
    infiniband_gbps: float | None = None
    allreduce_gbps: float | None = None
    clock_offset_ms: float = 100
    free_disk_gb: float = 1
    free_memory_gb: float = 1
    dcgm: bool = False


@dataclass(frozen=True)
class Facts:
    """What a node said of itself; `missing` are tools that it has not, `silent` those that did not answer in time."""

    gpus: tuple[nodes.Gpu, ...] = ()
    links: Mapping[int, Sequence[bool]] | None = None
    ports: tuple[nodes.Port, ...] = ()
    synchronised: bool | None = None
    offset: float | None = None
    diagnosis: tuple[str, ...] = ()
    users: tuple[tuple[int, str], ...] = ()
    memory: int | None = None
    disk: Mapping[str, int] | None = None
    kernel: str = ""
    missing: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def wanted(system: System) -> Wanted:
    """What the config asks of the nodes of a system."""
    return Wanted(**system.preflight)


def collect(config: Config, system: System) -> Facts:
    """Ask this node's tools; those that it lacks are named, not missed."""
    missing, silent = [], []

    def ask(*words: str) -> str:
        if shutil.which(words[0]) is None:
            missing.append(words[0])
            return ""
        try:
            return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
        except subprocess.TimeoutExpired:
            silent.append(words[0])
            return ""

    gpu = bool(system.gpus_per_node)
    synchronised, offset = nodes.clock(ask("chronyc", "-c", "tracking"), ask("timedatectl", "show"))
    query = ["nvidia-smi", "--format=csv,noheader,nounits"]
    asked = wanted(system)
    diagnosis = ask("dcgmi", "diag", "-r", "1", "-j") if asked.dcgm else ""
    return Facts(
        gpus=tuple(nodes.gpus(ask(*query, f"--query-gpu={','.join(nodes.GPU_FIELDS)}"))) if gpu else (),
        links=nodes.nvlinks(ask("nvidia-smi", "nvlink", "--status")) if gpu else None,
        ports=tuple(nodes.ports(ask("ibstat"))) if asked.infiniband_ports else (),
        synchronised=synchronised,
        offset=offset,
        diagnosis=tuple(nodes.diagnosis(_parsed(diagnosis))),
        users=tuple(nodes.users(ask(*query, "--query-compute-apps=pid,process_name"))) if gpu else (),
        memory=nodes.memory_available(Path("/proc/meminfo").read_text()),
        disk={str(path): shutil.disk_usage(path).free for path in (config.root, config.data_root) if path.exists()},
        kernel=os.uname().release,
        missing=tuple(dict.fromkeys(missing)),
        silent=tuple(dict.fromkeys(silent)),
    )


def judge(facts: Facts, system: System) -> list[str]:
    """What makes a node unfit, a sentence each; what no tool could tell is none."""
    asked = wanted(system)
    found = [f"{tool} does not answer within {PATIENCE} s" for tool in facts.silent]
    if system.gpus_per_node:
        found += _judge_gpus(facts, asked, system.gpus_per_node)
    if asked.infiniband_ports:
        up = [port for port in facts.ports if port.up and port.rate >= (asked.infiniband_gbps or 0)]
        if len(up) < asked.infiniband_ports:
            down = (
                ", ".join(f"{item.adapter}/{item.number}" for item in facts.ports if item not in up) or "none is seen"
            )
            found.append(f"{len(up)} InfiniBand ports are up, {asked.infiniband_ports} are wanted; not: {down}")
    if facts.synchronised is False:
        found.append("the clock is not synchronised")
    if facts.offset is not None and facts.offset * 1000 > asked.clock_offset_ms:
        found.append(f"the clock is off by {facts.offset * 1000:.0f} ms, {asked.clock_offset_ms:g} may it be")
    if facts.memory is not None and facts.memory < asked.free_memory_gb * 1e9:
        found.append(f"{facts.memory / 1e9:.1f} GB of memory are available, {asked.free_memory_gb:g} are wanted")
    for path, free in (facts.disk or {}).items():
        if free < asked.free_disk_gb * 1e9:
            found.append(f"{free / 1e9:.1f} GB are free in {path}, {asked.free_disk_gb:g} are wanted")
    return found


def _judge_gpus(facts: Facts, asked: Wanted, count: int) -> list[str]:
    found = [f"DCGM: {text}" for text in facts.diagnosis]
    if "nvidia-smi" in facts.missing:
        return [*found, "nvidia-smi is not there"]
    if len(facts.gpus) != count:
        found.append(f"{len(facts.gpus)} accelerators are seen, {count} are wanted")
    kinds = {(gpu.name, gpu.memory_mib, gpu.max_clock_mhz, gpu.ecc) for gpu in facts.gpus}
    if len(kinds) > 1:
        found.append(
            f"the accelerators are not equal (name, MiB, MHz, ECC): {', '.join(map(str, sorted(kinds, key=str)))}"
        )
    for gpu in facts.gpus:
        place = f"accelerator {gpu.index}"
        if asked.gpu and gpu.name != asked.gpu:
            found.append(f"{place} is a {gpu.name}, a {asked.gpu} is wanted")
        found += [f"{place} is throttled: {words}" for words in gpu.throttled]
        if gpu.uncorrected:
            found.append(f"{place} had {gpu.uncorrected} uncorrected memory errors since the driver was loaded")
        if gpu.pending:
            found.append(f"{place} has pages or rows to be taken out of use: it needs a reset")
        if gpu.broken:
            found.append(f"{place} has a row that could not be remapped: it needs to be replaced")
        if None not in gpu.pcie and gpu.pcie[0] < gpu.pcie[1]:
            found.append(f"{place} is connected by {gpu.pcie[0]} of {gpu.pcie[1]} PCIe lanes")
    for index, links in (facts.links or {}).items():
        if asked.nvlinks and sum(links) < asked.nvlinks:
            found.append(f"accelerator {index} has {sum(links)} NVLinks up, {asked.nvlinks} are wanted")
        elif not all(links):
            found.append(f"accelerator {index} has {len(links) - sum(links)} NVLinks down")
    found += [f"another process is on the accelerators: {pid} ({name})" for pid, name in facts.users]
    return found


def node(config: Config, system: System) -> list[str]:
    """Judge this node, unless it passed within the day and that is enough; writes its record. Returns what is wrong."""
    name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    path = record_file(config, system, name)
    if wanted(system).when == "daily" and fresh(path):
        return []
    facts = collect(config, system)
    found = judge(facts, system)
    if system.launcher != "local":  # here, whoever launches the run has just looked
        found += changed(config, system)
    files.write_json(path, {"node": name, "time": time.time(), "findings": found, "facts": asdict(facts)})
    return found


def changed(config: Config, system: System) -> list[str]:
    """What this node does not see as it was locked or prepared: images of its own store, files, data."""
    found = []
    for item in plan.plans(config):
        if item.system.name != system.name:
            continue
        path = plan.image_file(config, item)
        try:
            if path.exists():
                choose.runner(system.engine, lock.read(path))
        except (BadInput, BadEnvironment) as error:
            found.append(f"image of {item.benchmark}: {error.thing}: {error.found}")
        if (plan.layout_folder(config, item.dataset) / manifest.NAME).exists():
            wrong = verify.problems(config, item.dataset, "quick")
            found += [f"data set {item.dataset.name}: {text}" for text in wrong[:3]]
    return found


def record_file(config: Config, system: System, name: str) -> Path:
    return config.root / "preflight" / system.name / f"{name}.json"


def fresh(path: Path) -> bool:
    """Whether a node passed within the day."""
    if not path.exists():
        return False
    record = files.read_json(path)
    return not record["findings"] and 0 <= time.time() - record["time"] < DAY


def unfit(config: Config, system: System) -> dict[str, list[str]]:
    """The nodes of a system that did not pass when they were last looked at, and why: they are passed over."""
    records = (files.read_json(path) for path in sorted(record_file(config, system, "x").parent.glob("*.json")))
    return {record["node"]: record["findings"] for record in records if record["findings"]}


def _parsed(answer: str) -> dict[str, Any]:
    try:
        value = json.loads(answer[answer.find("{") :] or "{}")
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    parser.add_argument("--list", action="store_true", help="look at no node: say what is known of those that were")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium preflight --system S`: this node; status 1 where it is unfit. On Slurm: srun -N4 podium preflight …"""
    config = configuration.load(args.config)
    system = config.system(args.system)
    if args.list:
        return _list(config, system, args.json)
    found = node(config, system)
    if args.json:
        print(json.dumps({"node": socket.gethostname(), "findings": found}))
    if found:
        raise Findings(
            f"{os.environ.get('SLURMD_NODENAME') or socket.gethostname()} is not fit for runs of {system.name}",
            "what systems.<name>.preflight asks for",
            "; ".join(found),
            "mend it and run the same command there; until then its runs go to other nodes",
        )
    return 0


def _list(config: Config, system: System, as_json: bool) -> int:
    records = [files.read_json(path) for path in sorted(record_file(config, system, "x").parent.glob("*.json"))]
    if as_json:
        print(json.dumps(records))
    else:
        for record in records:
            print(f"{record['node']}: {'; '.join(record['findings']) or 'fit'}")
    kinds = {json.dumps([gpu["name"] for gpu in record["facts"]["gpus"]]) for record in records}
    drivers = {gpu["driver"] for record in records for gpu in record["facts"]["gpus"]}
    if len(kinds) > 1 or len(drivers) > 1:
        raise Findings(
            f"the nodes of {system.name} are not equal",
            "the same accelerators and driver on all",
            f"accelerators {', '.join(sorted(kinds))}; drivers {', '.join(sorted(drivers))}",
            "leave some out by slurm.exclude",
        )
    return int(any(record["findings"] for record in records))
