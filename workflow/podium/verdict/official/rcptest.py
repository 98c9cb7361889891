"""The RCP test of a result: from what is known of its logs to the official answer (rcp_checker.check_directory)."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podium.verdict.findings import ERROR, WARNING, Finding, of_fall
from podium.verdict.official import rcp
from podium.verdict.official.compliance import Fall
from podium.verdict.official.hearing import Hearing
from podium.verdict.official.rcp import Answer
from podium.verdict.reading.digest import Digest, Point

EPOCHS, SAMPLES = "epoch_num", "train_samples"
FEW = 1000  # bert logs either epochs (a few) or samples (millions) as epoch_num


@dataclass(frozen=True)
class Outcome:
    """The test and what it was about. `way` is the log key that places the convergence points, `why` the reason where
    there was a choice; `answer` is None where the official checker falls over."""

    answer: Answer | None
    benchmark: Any
    batch_size: Any
    way: str
    why: str = ""


def way(digests: Sequence[Digest], asked: bool) -> tuple[str, str]:
    """How to read the convergence points of a result, and why: only bert has a choice.

    Rounds 1.0 to 2.0 know two kinds of bert logs: samples as epoch_num, or epochs there and samples as train_samples
    (training rules, RCP; the checker's flag --rcp-bert-train-samples). `asked` is that flag.
    """
    if not digests or any(digest.epochs.benchmark != "bert" for digest in digests):
        return EPOCHS, ""
    readable = all(digest.samples.fall is None for digest in digests)
    points = [digest.epochs.point for digest in digests if digest.epochs.converged and digest.epochs.fall is None]
    epochs = [point for point in points if isinstance(point, (int, float))]
    if readable and epochs and max(epochs) < FEW:
        return SAMPLES, f"epoch_num is {max(epochs):g} at most: it counts epochs, train_samples counts samples"
    if readable and asked:
        return SAMPLES, "package_checker_params asks for it"
    return EPOCHS, "epoch_num counts samples" if epochs else "no run converged"


def test(
    hearing: Hearing, round: str, digests: Sequence[tuple[str, Digest]], way: str, bypass: bool, folder: str
) -> Outcome:
    """Make the test over the logs of a result, given by path; what is wrong goes to `hearing`."""
    points = [(path, digest.samples if way == SAMPLES else digest.epochs) for path, digest in digests]
    for path, point in points:
        if point.fall is not None:
            hearing.fall(of_fall(point.fall, path))
            return Outcome(None, point.benchmark, point.batch_size, way)
        if not point.converged:
            hearing.warn("Run incomplete or did not converge. Marking as infinite.")
    same = _same(hearing, points, folder)
    if same is None:
        return Outcome(None, None, None, way)
    benchmark, batch_size = same
    lost = sum(not point.converged for _, point in points)
    epochs = None if lost > (4 if benchmark == "unet3d" else 1) else [point.point for _, point in points]
    try:
        answer = rcp.judge(round, benchmark, batch_size, epochs, bypass)
    except (KeyError, FileNotFoundError) as error:
        fall = Fall("rcp-unknown", f"{type(error).__name__}: {error}", 0, "a benchmark with RCPs", str(benchmark))
    except (TypeError, ValueError, OverflowError) as error:
        found = f"batch size {_json(batch_size)}, convergence points {_json(epochs)}"
        fall = Fall("rcp-unreadable", f"{type(error).__name__}: {error}", 0, "numbers", found)
    else:
        _say(hearing, answer, folder, lost)
        return Outcome(answer, benchmark, batch_size, way)
    hearing.fall(of_fall(fall, folder))
    return Outcome(None, benchmark, batch_size, way)


def _same(hearing: Hearing, points: Sequence[tuple[str, Point]], folder: str) -> tuple[Any, Any] | None:
    """The benchmark and batch size that all logs share; None where the checker falls over for want of them.

    As in the checker, -1 and None (a log without) give way to what a later log says.
    """
    benchmark, batch_size = None, -1
    for path, point in points:
        for what, known, this, unset in (
            ("Batch sizes", batch_size, point.batch_size, -1),
            ("Benchmark names", benchmark, point.benchmark, None),
        ):
            if known != unset and this != known:
                hearing.warn(f"{what} in files do not match.")
                rule = "rcp-batch-sizes" if what == "Batch sizes" else "rcp-benchmarks"
                hearing.fall(Finding(rule, ERROR, path, 0, _json(known), _json(this), "KeyError: None", "falls over"))
                return None
        batch_size = point.batch_size if batch_size == -1 else batch_size
        benchmark = point.benchmark if benchmark is None else benchmark
    if benchmark is None:
        found = "no submission_benchmark in any log" if points else "no logs"
        hearing.fall(
            Finding("rcp-no-logs", ERROR, folder, 0, "the logs of a benchmark", found, "KeyError: None", "falls over")
        )
        return None
    return benchmark, batch_size


def _say(hearing: Hearing, answer: Answer, folder: str, lost: int) -> None:
    if answer.bypassed:
        hearing.warn("RCP test failed but allowed to proceed with RCP bypass.")
        passed = Finding("rcp-bypassed", WARNING, folder, 0, "a passed RCP test", answer.message, answer.message)
        hearing.warn("Please be ready to have this reviewed by the submission committee.", passed)
    if answer.passed:
        return
    text = f"RCP Test Failed: {answer.message}"
    if answer.message.startswith("Missing RCP") or answer.message == "Cannot find any RCPs":
        rule, expected, found = "rcp-missing", "a reference at this batch size", answer.message
    elif answer.message == "Insufficient convergence":
        rule, expected, found = (
            "rcp-convergence",
            "status success in all runs but the one or four allowed",
            f"{lost} others",
        )
    elif answer.message.startswith("Could not detect"):
        rule, expected, found = "rcp-batch-size", "global_batch_size in every log", "none"
    else:
        rule, expected = "rcp-too-fast", f"an olympic mean of at least {answer.fastest:.6g} ({answer.message})"
        found = "too few runs" if math.isnan(answer.mean) else f"{answer.mean:.6g}"
    hearing.fail(text, Finding(rule, ERROR, folder, 0, expected, found, text))


def _json(value: Any) -> str:
    return json.dumps(value)[:200]
