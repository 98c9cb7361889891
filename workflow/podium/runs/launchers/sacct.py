"""What Slurm's words for the state of a job mean; the answers of squeue and sacct, read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podium.runs.launchers import ENDED, PENDING, RUNNING, State

# squeue(1), JOB STATE CODES. A job that is COMPLETING still holds its nodes.
_PENDING = {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
_RUNNING = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
_ENDED = {
    "COMPLETED": "",
    "FAILED": "",
    "CANCELLED": "cancelled",
    "TIMEOUT": "time limit",
    "DEADLINE": "time limit",
    "NODE_FAIL": "node failed",
    "BOOT_FAIL": "node failed",
    "PREEMPTED": "preempted",
    "OUT_OF_MEMORY": "out of memory",
    "REVOKED": "lost",
}


@dataclass(frozen=True)
class Row:
    """One job of an answer: its number, its name and its state."""

    number: str
    name: str
    state: State


def state(word: str, reason: str) -> State:
    """The state that squeue or sacct names, like `CANCELLED by 1000`; one that no version here knows is taken as
    running.
    """
    name = word.split()[0].rstrip("+") if word.strip() else ""
    why = "" if reason in ("", "None") else f" ({reason})"
    if name in _ENDED:
        return State(ENDED, _ENDED[name], f"{word}{why}")
    return State(PENDING if name in _PENDING else RUNNING, told=f"{word}{why}")


def rows(answer: str) -> list[Row]:
    """The jobs of an answer of four fields between bars: number, state, reason, name. Other lines are passed over."""
    found = []
    for line in answer.splitlines():
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and fields[0].isdecimal():
            found.append(Row(fields[0], fields[3], state(fields[1], fields[2])))
    return found


def of(answer: str) -> Mapping[tuple[str, str], State]:
    """The states of an answer by number and name: a number alone may be another job's by now."""
    return {(row.number, row.name): row.state for row in rows(answer)}
