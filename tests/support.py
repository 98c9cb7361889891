"""What tests build their configs with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from podium import plan
from podium.config import Config

REPOSITORY = Path(__file__).parents[1]
SCRIPTED = REPOSITORY / "tests" / "scripted"
SHARED = REPOSITORY.parent / "shared"  # real inputs and oracle outputs; not ours, so absent from the repository


def config_text(root: Path, name: str = "good", **changes: Any) -> dict[str, Any]:
    """A valid config as a mapping: one result of resnet on one system, run by the scripted implementation."""
    value = {
        "root": str(root),
        "submission": {"org": "tests", "division": "open", "round": "3.1.0", "status": "research", "demo": True},
        "systems": {"host": {"nodes": 1, "gpus_per_node": 0}},
        "results": [
            {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": name},
        ],
        "data": {"sets": {"imagenet": {"source": "demo", "layout": "recordio"}}},
    }
    return value | changes


def in_a_process(code: str, *words: str | Path) -> tuple[str, int]:
    """What Python code prints in a process of its own, and the most memory that it had, in bytes."""
    # VmHWM (proc(5)) is of the program; getrusage also counts what the parent had when it forked.
    peak = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\n{peak}", *words], capture_output=True, text=True, check=True
    )
    output, _, kilobytes = answer.stdout.strip().rpartition("\n")
    return output, int(kilobytes) * 1024


def first_plan(config: Config) -> plan.Plan:
    return plan.plans(config)[0]


def snakemake(config: Path, *words: str, code: int = 0) -> str:
    """Run snakemake on the repository's Snakefile; returns what it said, standard output and error together."""
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", "--nolock"]
    answer = subprocess.run(
        [*command, "--configfile", str(config), *words],
        cwd=REPOSITORY,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert answer.returncode == code, answer.stdout
    return answer.stdout


def planned(text: str) -> dict[str, int]:
    """Jobs by rule, from the table that snakemake prints."""
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
