"""The run contract: what a run is told, whatever starts it (design section 5)."""

from __future__ import annotations

from pathlib import Path

from podium.config import Config
from podium.images.engines import Mount
from podium.plan import Plan
from podium.runs.launchers import RANKS

DATA, LOGS = "/data", "/logs"  # where a run finds the prepared layout, and leaves its MLLOG file


def mounts(data: Path, logs: Path) -> tuple[Mount, ...]:
    """What a run sees of the machine: `data`, the prepared layout, to read; `logs` to write to."""
    return Mount(data.absolute(), DATA), Mount(logs.absolute(), LOGS, read_only=False)


def environment(config: Config, plan: Plan, seed: int) -> dict[str, str]:
    """The environment of one run. Identity comes from the config, so that no log can carry a placeholder."""
    threads = str(plan.system.threads)
    return {
        "DATADIR": DATA,
        "LOGDIR": LOGS,
        "SEED": str(seed),
        "NEXP": "1",
        "DGXNNODES": str(plan.system.nodes),
        "DGXNGPU": str(plan.system.gpus_per_node),
        "DGXSYSTEM": plan.result.config,
        "MLPERF_SUBMISSION_ORG": config.submission.org,
        "MLPERF_SUBMISSION_PLATFORM": plan.system.name,
        "MLPERF_DIVISION": config.submission.division,
        "MLPERF_STATUS": config.submission.status,
        "MLPERF_RULESET": config.submission.round,
        # More threads than the run's share make runs side by side spin on each other's cores.
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a run that hangs and is ended by SIGABRT prints where each of its threads was
        "PYTHONDONTWRITEBYTECODE": "1",  # the snapshot of the implementation stays as it was locked
        **plan.result.environment,
    }


def ranks(tasks: int) -> dict[str, str]:
    """Who each of several tasks is among them, as the launcher fills it in where it starts them (launchers.Job)."""
    return {name: f"@{name}@" for name in RANKS} if tasks > 1 else {}
