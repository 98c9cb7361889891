"""Made-up result trees that the official checker passes, to be spoilt by tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium.package.system import FIELDS

ROUND = "3.0.0"
EPOCHS = 36  # a little more than the reference's mean at this batch size, 35 epochs

DESCRIPTION = dict.fromkeys(FIELDS, "") | {
    "submitter": "tests",
    "division": "closed",
    "status": "Available on-premise",
    "system_name": "one",
}


def record(key: str, value: Any = None, time_ms: Any = 0, **metadata: Any) -> str:
    """One MLLOG line."""
    place = {"file": "train.py", "lineno": 7, **metadata}
    return ":::MLLOG " + json.dumps({"time_ms": time_ms, "key": key, "value": value, "metadata": place})


def log(seed: int = 1, quality: Any = 0.76, **changes: Any) -> list[str]:
    """The lines of a closed resnet run of round 3.0.0 that complies; `changes` replace values by key."""
    values = {
        "submission_org": "tests",
        "submission_platform": "one",
        "submission_division": "closed",
        "submission_status": "onprem",
        "submission_benchmark": "resnet",
        "global_batch_size": 3264,
        "gradient_accumulation_steps": 1,
        "opt_name": "sgd",
        "sgd_opt_base_learning_rate": 1.0,
        "sgd_opt_end_learning_rate": 0.0001,
        "sgd_opt_learning_rate_decay_poly_power": 2,
        "sgd_opt_learning_rate_decay_steps": 100,
        "sgd_opt_weight_decay": 0.0001,
        "sgd_opt_momentum": 0.9,
        "model_bn_span": 1,
        "opt_learning_rate_warmup_epochs": 2,
        "train_samples": 1281167,
        "eval_samples": 50000,
        "seed": seed,
    } | changes
    return [
        record("cache_clear", True),
        record("init_start", None, 1_000),
        *(record(key, value, 1_500) for key, value in values.items()),
        record("init_stop", None, 2_000),
        record("run_start", None, 3_000),
        record("block_start", None, 3_100, first_epoch_num=1, epoch_count=EPOCHS),
        "0: step 1 of many",
        record("eval_accuracy", quality, 60_000 + seed, epoch_num=EPOCHS),
        record("block_stop", None, 60_000 + seed, first_epoch_num=1),
        record("run_stop", None, 63_000 + seed, status="success"),
    ]


def write_log(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return path


def tree(root: Path, system: str = "one", benchmark: str = "resnet", **description: Any) -> Path:
    """A submitter's tree with one result of five runs; `description` replaces fields of the system's."""
    submitter = root / "tests"
    write_description(submitter, system, description)
    for seed in range(5):
        write_log(submitter / "results" / system / benchmark / f"result_{seed}.txt", log(seed))
    return submitter


def write_description(submitter: Path, system: str, changes: Mapping[str, Any]) -> None:
    path = submitter / "systems" / f"{system}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(DESCRIPTION | {"system_name": system} | dict(changes)), encoding="utf-8")
