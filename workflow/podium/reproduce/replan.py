"""Fewer or other accelerators: which batch sizes, accumulations and divisions of the model still have reference points.

A result is only comparable where its global batch size converges as a reference says. With another number of devices
either the global batch stays, and each device takes more of it in more steps, or each device keeps its batch and the
global one changes: then the round must have a reference point there (training rules, RCP; the pinned checker's data).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from podium.reproduce.plan import Plan
from podium.verdict.official import rcp

PARALLEL = (  # what a model is divided over, by the names that configs give it
    ("TP", "TENSOR_MODEL_PARALLEL"),
    ("PP", "PIPELINE_MODEL_PARALLEL"),
    ("CP", "CONTEXT_PARALLEL"),
)
MOST = 1024  # steps of accumulation that are still tried


@dataclass(frozen=True)
class Option:
    """One way to use other hardware. `device_batch` samples on each replica in each of `accumulation` steps.

    `rcp` says how the reference knows the batch size; `mean` are its epochs (samples) to the target. `set` are the
    variables to set after the config, where the config has them.
    """

    batch_size: int
    device_batch: int
    accumulation: int
    replicas: int
    rcp: str
    mean: float
    set: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class Replan:
    """What can be done with `nodes` times `gpus`; `refused` says why nothing can."""

    nodes: int
    gpus: int
    divided: int
    options: tuple[Option, ...]
    refused: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def replan(plan: Plan, round: str, nodes: int, gpus: int) -> Replan:
    """The options for other hardware, those with a reference point of their own first."""
    divided = _divided(plan.exports)
    devices = nodes * max(1, gpus)
    if plan.batch_size is None:
        return Replan(nodes, gpus, divided, (), "the published logs tell no global batch size")
    if devices % divided:
        why = f"the model is divided over {divided} devices, {devices} are no multiple of that"
        return Replan(nodes, gpus, divided, (), why)
    replicas = devices // divided
    theirs = max(1, plan.wants.nodes * max(1, plan.wants.gpus) // divided)
    each = max(1, plan.batch_size // theirs)
    sizes = dict.fromkeys((plan.batch_size, *(each * replicas * steps for steps in (1, 2, 4, 8))))
    options = [
        option
        for size in sizes
        if (known := _known(round, plan.benchmark, size)) and (option := _option(plan, size, each, replicas, known))
    ]
    order = ("found", "interpolated")
    options.sort(key=lambda option: order.index(option.rcp) if option.rcp in order else len(order))
    options = [_sized(option, plan, nodes, gpus) for option in options]
    if not options:
        tried = ", ".join(map(str, sizes))
        why = f"no batch size that {replicas} replicas can make has a reference point in {round}: {tried} were tried"
        return Replan(nodes, gpus, divided, (), why)
    return Replan(nodes, gpus, divided, tuple(options), "")


def _divided(exports: Mapping[str, str]) -> int:
    """Over how many devices one copy of the model is divided."""
    found = 1
    for names in PARALLEL:
        value = next((exports[name] for name in names if exports.get(name, "").isdigit()), "1")
        found *= max(1, int(value))
    return found


def _known(round: str, benchmark: str, size: int) -> tuple[str, float] | None:
    """How the reference knows a batch size, and its mean; None where it does not."""
    try:
        references = rcp.pruned(round, benchmark)
    except (KeyError, FileNotFoundError):
        return None
    if found := rcp.at(round, benchmark, size):
        exact = any(reference.batch_size == size for reference in references)
        return ("found" if exact else "interpolated"), found.mean
    smallest = references[0]
    if size < smallest.batch_size:
        return f"smaller than all: held against {smallest.batch_size:g}, which converges slower", smallest.mean
    return None


def _option(plan: Plan, size: int, each: int, replicas: int, known: tuple[str, float]) -> Option | None:
    """Divide a global batch: no device takes more at once than theirs did; None where it does not come out even."""
    if size % replicas:
        return None
    share = size // replicas
    steps = next((n for n in range(1, MOST + 1) if share % n == 0 and share // n <= each), None)
    if steps is None:
        return None
    return Option(size, share // steps, steps, replicas, known[0], known[1], {})


def _sized(option: Option, plan: Plan, nodes: int, gpus: int) -> Option:
    """With the variables that its config has: BATCHSIZE is a replica's share, GRADIENT_STEPS its accumulation."""
    wanted = {
        "DGXNNODES": nodes,
        "DGXNGPU": gpus,
        "BATCHSIZE": option.device_batch * option.accumulation,
        "GRADIENT_STEPS": option.accumulation,
        "MINIBS": option.device_batch * option.accumulation,
    }
    set_ = {name: str(value) for name, value in wanted.items() if name in plan.exports or name.startswith("DGX")}
    steps = any(word in name for name in plan.exports for word in ("GRADIENT", "ACCUM", "MINIBS"))
    note = "" if option.accumulation == 1 or steps else "its config has no variable for accumulation: see its code"
    return replace(option, set=set_, note=note)
