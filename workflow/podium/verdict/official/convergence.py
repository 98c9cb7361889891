"""Where a run converged, as the official RCP checker reads it from a log (rcp_checker.read_submission_file).

It looks for names anywhere in a line, file names in the metadata too, and takes the last line that has one; what it
reads is what is compared, so the same is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

NEVER = 1e9  # stands for the convergence point of a run that did not converge

# Benchmarks whose evaluations are placed by samples_count; others by epoch_num (mlperf_logging 4.1.68).
_BY_SAMPLES = frozenset(
    (
        "llama2_70b_lora",
        "flux1",
        "llama31_405b",
        "llama31_8b",
        "gpt_oss_20b",
        "deepseekv3_671b",
        "qwen35_397b_grpo",
        "dlrmv4",
    )
)


def concerns(text: str) -> bool:
    """Whether the reader looks at a line at all."""
    return (
        "eval_accuracy" in text
        or "global_batch_size" in text
        or "train_samples" in text
        or "run_stop" in text
        or "submission_benchmark" in text
        or "eval_error" in text
    )


@dataclass
class Convergence:
    """What the reader has found so far: `feed` it every line that concerns it.

    With `train_samples`, of bert, the value of train_samples is the convergence point instead of the epoch_num of
    eval_accuracy. Both stay as they were logged, numbers or not.
    """

    round: str
    train_samples: bool = False
    batch_size: Any = -1
    benchmark: Any = None
    converged: bool = False
    point: Any = NEVER
    _last: Any = None
    _scores: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def feed(self, text: str, record: Callable[[], Mapping[str, Any]]) -> None:
        """One line; `record` gives its JSON. Raises LookupError, TypeError, ValueError where the reader falls over."""
        if "global_batch_size" in text:
            self.batch_size = record()["value"]
        if "submission_benchmark" in text:
            self.benchmark = record()["value"]
            self.train_samples = self.train_samples and self.benchmark == "bert"
        evaluated = "eval_error" in text or "eval_accuracy" in text
        if self.benchmark == "stable_diffusion" and evaluated:
            unit = "step_num" if self.round == "3.1.0" else "samples_count"
            place, metric = record()["metadata"][unit], record()["metadata"]["metric"]
            self._scores.setdefault(place, {})[metric] = record()["value"]
        elif self.benchmark in _BY_SAMPLES and evaluated:
            place, _ = record()["metadata"]["samples_count"], record()["value"]  # the reader asks for both
            self._last = (place,)
        elif evaluated and not self.train_samples:
            self._last = (round(record()["metadata"]["epoch_num"], 3),)
        elif "train_samples" in text and self.train_samples:
            self._last = (record()["value"],)
        if "run_stop" in text and record()["key"] == "run_stop":
            self.converged = record()["metadata"]["status"] == "success"
            self.point = self._point() if self.converged else NEVER

    def _point(self) -> Any:
        if self.benchmark == "stable_diffusion":
            # Its two metrics are logged apart; the first place at which both are good counts.
            good = [place for place, score in self._scores.items() if score["FID"] <= 90.0 and score["CLIP"] >= 0.15]
            if not good:
                raise LookupError("status success, and no evaluation with FID <= 90 and CLIP >= 0.15")
            self._last = (min(good),)
        if self._last is None:
            raise LookupError("status success before any evaluation")
        return self._last[0]
