"""The run contract: what a launcher tells an implementation through its environment.

`DATADIR LOGDIR SEED DGXNNODES DGXNGPU MLPERF_SUBMISSION_ORG MLPERF_SUBMISSION_PLATFORM MLPERF_DIVISION MLPERF_STATUS
MLPERF_RULESET` come from the launcher; hyperparameters come from the sourced `configs/<name>.env`, one upper-case
variable each.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar, get_type_hints

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True)
class Contract:
    """One run, as the launcher asked for it."""

    data_dir: Path
    log_dir: Path
    seed: int
    org: str
    platform: str
    division: str
    status: str
    ruleset: tuple[int, ...]  # (3, 1, 0), so that two compare
    nodes: int
    gpus: int  # on each node; 0: one process on the CPU


def read_contract() -> Contract:
    """Read the contract from the environment; ends the process with status 2 when a part is missing or wrong."""
    contract = Contract(
        data_dir=Path(_need("DATADIR", "the folder of the prepared data")),
        log_dir=Path(_need("LOGDIR", "the folder for the MLLOG file")),
        seed=_numbers("SEED", _need("SEED", "an integer, new for every run"))[0],
        org=_need("MLPERF_SUBMISSION_ORG", "the submitting organisation"),
        platform=_need("MLPERF_SUBMISSION_PLATFORM", "the system's name"),
        division=_need("MLPERF_DIVISION", "open or closed"),
        status=_need("MLPERF_STATUS", "onprem, cloud, preview or research"),
        ruleset=_numbers("MLPERF_RULESET", "4.0.0"),
        nodes=_numbers("DGXNNODES", "1")[0],
        gpus=_numbers("DGXNGPU", "0")[0],
    )
    if not contract.data_dir.is_dir():
        stop(f"DATADIR {contract.data_dir}: expected a folder, found nothing; prepare the data set first")
    contract.log_dir.mkdir(parents=True, exist_ok=True)
    return contract


def read_settings(kind: type[Settings]) -> Settings:
    """Fill the dataclass `kind` from upper-case environment variables; what is not set keeps its default.

    Tuples are written with commas (`BLOCKS=3,4,6,3`), booleans as 0 or 1.
    """
    hints = get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):
        text = os.environ.get(field.name.upper())
        if text is None or text == "":
            continue
        try:
            values[field.name] = _convert(text, hints[field.name])
        except ValueError:
            stop(f"{field.name.upper()}={text}: expected {field.type}, like {field.default!r}")
    return kind(**values)


def keep_reference(settings: object, names: Sequence[str]) -> None:
    """End the process where settings of the closed division differ in one of `names` from their defaults.

    For what makes the benchmark: network, data, target. The official checker finds some of it, GPU-weeks later.
    """
    for name in names:
        expected, found = getattr(type(settings)(), name), getattr(settings, name)
        if found != expected:
            stop(f"MLPERF_DIVISION=closed: expected {name.upper()}={_text(expected)}, found {_text(found)}")


def stop(message: str, status: int = 2) -> None:
    """End the process with one line that says why."""
    print(message, file=sys.stderr)
    raise SystemExit(status)


def _convert(text: str, kind: type) -> object:
    if kind is bool:
        return bool(int(text))
    if kind in (int, float, str):
        return kind(text)
    item = kind.__args__[0]  # tuple[int, ...] or tuple[float, ...]
    return tuple(item(part) for part in text.split(","))


def _text(value: object) -> str:
    """As in a config."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _numbers(name: str, default: str) -> tuple[int, ...]:
    """A variable's numbers, between dots: (3, 1, 0) of `3.1.0`."""
    text = os.environ.get(name) or default
    if not all(part.isdecimal() for part in text.split(".")):
        stop(f"{name}={text}: expected something like {default}")
    return tuple(int(part) for part in text.split("."))


def _need(name: str, what: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        stop(f"{name} is not set: expected {what}; start this through `podium run` or set it by hand (see README.md)")
    return value
