"""The run contract: what a run is told, whatever starts it (design section 5)."""

from __future__ import annotations

from pathlib import Path

from podium.config import Config
from podium.plan import Plan


def environment(config: Config, plan: Plan, seed: int, data: Path, logs: Path) -> dict[str, str]:
    """The environment of one run. Identity comes from the config, so that no log can carry a placeholder.

    `data` is the prepared layout, `logs` the folder for the MLLOG file; both become absolute.
    """
    threads = str(plan.system.threads)
    return {
        "DATADIR": str(data.absolute()),
        "LOGDIR": str(logs.absolute()),
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
        "PYTHONDONTWRITEBYTECODE": "1",  # the snapshot of the implementation stays as it was locked
        **plan.result.environment,
    }
