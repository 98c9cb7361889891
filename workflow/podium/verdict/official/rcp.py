"""Reference convergence points (RCP): did the runs of a result converge no faster than the reference can?

The data is that of the pinned package (mlperf_logging/rcp_checker/training_<round>/rcps_<benchmark>.json) and the
method that of its rcp_checker, number for number: olympic mean, one-sided t-test at 5 %, pruning, interpolation between
batch sizes. The official module needs SciPy and NumPy, which take longer to import than the work takes; the few
functions needed of them are written out here, and a test holds every reference of every round against the official one.

Epochs stand for the unit of the round: epochs, or samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlperf_logging.benchmark_meta import get_result_file_counts

from podium.verdict.official.rulefiles import PACKAGE, numbers

ALPHA = 0.05
TOLERANCE = 0.0001  # epochs; where the search for the fastest acceptable mean stops
# Benchmarks with a run count, of which the RCP checker knows nothing: it falls over at them (mlperf_logging 4.1.68).
UNKNOWN = frozenset(("dlrm", "minigo", "gnmt", "transformer", "ncf"))


@dataclass(frozen=True)
class Reference:
    """A reference at one batch size: olympic mean and deviation of its epochs, and how many runs the mean is of.

    `label` is the benchmark as the record itself names it (stable_diffusion's say "sd").
    """

    benchmark: str
    label: str
    batch_size: float
    mean: float
    deviation: float
    runs: int

    def fastest(self) -> float:
        """The lowest mean of a submission that the t-test accepts, in epochs."""
        return _fastest(self.mean, self.deviation, self.runs, submitted_runs(self.benchmark) - 2)


@dataclass(frozen=True)
class Answer:
    """What the RCP test says of a result. `scaling` (>= 1) is the factor that its score is to be multiplied by.

    `mean` is the olympic mean of its epochs, None where the test did not come so far; `reference` is what it was held
    against, and `fastest` the lowest mean that would have passed.
    """

    passed: bool
    message: str
    scaling: float = 1.0
    mean: float | None = None
    reference: Reference | None = None
    fastest: float | None = None
    bypassed: bool = False


def submitted_runs(benchmark: str) -> int:
    """The number of runs of a submission; raises KeyError for a benchmark that the RCP checker does not know."""
    if benchmark in UNKNOWN:
        raise KeyError(benchmark)
    return get_result_file_counts("training")[benchmark]


def dropped(benchmark: str) -> int:
    """How many convergence points the olympic mean drops at either end."""
    return 4 if benchmark == "unet3d" else 1


@cache
def references(round: str, benchmark: str) -> tuple[Reference, ...]:
    """All references of a benchmark in a round by batch size.

    Raises KeyError or FileNotFoundError where the official checker has none and falls over.
    """
    submitted_runs(benchmark)
    path = PACKAGE / "rcp_checker" / f"training_{round}" / f"rcps_{benchmark}.json"
    found = [_reference(benchmark, record) for record in json.loads(path.read_text(encoding="utf-8")).values()]
    return tuple(sorted(found, key=lambda reference: reference.batch_size))


@cache
def pruned(round: str, benchmark: str) -> tuple[Reference, ...]:
    """The references that are compared with: none with a smaller batch size than the fastest one, and none that is
    slower than its neighbours let expect."""
    every = references(round, benchmark)
    fastest = min(every, key=lambda reference: reference.mean)
    kept = [reference for reference in every if reference.batch_size >= fastest.batch_size]
    place = 1
    while place < len(kept) - 1:
        low, this, high = kept[place - 1 : place + 2]
        if this.mean > _between(this.batch_size, low, high).mean:
            del kept[place]
        else:
            place += 1
    named = {(reference.label, reference.batch_size) for reference in kept}
    return tuple(reference for reference in every if (reference.label, reference.batch_size) in named)


def at(round: str, benchmark: str, batch_size: float) -> Reference | None:
    """The reference at a batch size, interpolated where it lies between two; None outside of all."""
    every = pruned(round, benchmark)
    for reference in every:
        if reference.batch_size == batch_size:
            return reference
    lower = [reference for reference in every if 0 < reference.batch_size < batch_size]
    upper = [reference for reference in every if batch_size < reference.batch_size < 1e9]
    if not lower or not upper:
        return None
    low = max(lower, key=lambda reference: reference.batch_size)
    high = min(upper, key=lambda reference: reference.batch_size)
    return _between(batch_size, low, high)


def judge(round: str, benchmark: Any, batch_size: Any, epochs: Sequence[Any] | None, bypass: bool = False) -> Answer:
    """The RCP test of a result: `epochs` are the convergence points of its runs, None where too many did not converge,
    `batch_size` -1 where the logs have none. Answers and messages are those of rcp_checker.check_directory.

    Raises KeyError, FileNotFoundError or TypeError where the official checker falls over.
    """
    every = pruned(round, benchmark)
    if batch_size == -1:
        return Answer(False, "Could not detect global_batch_size")
    if epochs is None:
        return Answer(False, "Insufficient convergence")
    missing = f"Missing RCP, please submit RCP with BS = {batch_size}"
    exact = next((reference for reference in every if reference.batch_size == batch_size), None)
    reference = exact or at(round, benchmark, batch_size)
    if reference is not None:
        answer = _compare(round, reference, epochs, "RCP found" if exact else "RCP Interpolation")
    elif any(0 < known.batch_size < batch_size for known in every):
        answer = Answer(False, missing)
    elif any(batch_size < known.batch_size < 1e9 for known in every):
        slower = "RCP not found but slower convergence on smaller batch size"
        answer = _compare(round, every[0], epochs, slower)
        answer = answer if answer.passed else _renamed(answer, missing)
    else:
        answer = Answer(False, "Cannot find any RCPs")
    if bypass and not answer.passed and answer.message in ("RCP found", "RCP Interpolation", missing):
        return _renamed(answer, f"{answer.message} passed using rcp_bypass", passed=True)
    return answer


def olympic(points: Sequence[float], benchmark: str) -> float:
    """The mean without the fastest and slowest points; not a number where none is left, as NumPy has it."""
    drop = dropped(benchmark)
    kept = sorted(points)[drop : len(points) - drop]
    return _sum(kept) / len(kept) if kept else math.nan


def _compare(round: str, reference: Reference, epochs: Sequence[Any], message: str) -> Answer:
    fastest = reference.fastest()
    if reference.benchmark == "llama31_405b" and numbers(round) >= (5, 0, 0):
        fastest -= 46080  # samples: one evaluation interval of grace
    mean = olympic(epochs, reference.label)
    ratio = _ratio(reference.mean, mean)
    # The limit goes through the highest speed-up, as in the official checker: the last digit can depend on it.
    passed = mean >= reference.mean / (reference.mean / fastest)
    return Answer(passed, message, 1.0 if ratio < 1 else ratio, mean, reference, fastest)


def _renamed(answer: Answer, message: str, passed: bool = False) -> Answer:
    return Answer(passed, message, answer.scaling, answer.mean, answer.reference, answer.fastest, bypassed=passed)


def _reference(benchmark: str, record: dict[str, Any]) -> Reference:
    label = record["Benchmark"]
    epochs = sorted(record["samples to converge" if label in ("llama2_70b_lora", "flux1") else "Epochs to converge"])
    runs = len(epochs) - 2 * dropped(label)
    return Reference(benchmark, label, record["BS"], olympic(epochs, label), _deviation(epochs), runs)


def _between(batch_size: float, low: Reference, high: Reference) -> Reference:
    """A reference interpolated linearly between two, as one of twice the runs of a submission."""
    mean = _interpolated(batch_size, low.batch_size, high.batch_size, low.mean, high.mean)
    deviation = _interpolated(batch_size, low.batch_size, high.batch_size, low.deviation, high.deviation)
    return Reference(low.benchmark, low.benchmark, batch_size, mean, deviation, 2 * submitted_runs(low.benchmark))


@cache
def _fastest(mean: float, deviation: float, reference_runs: int, submitted: int) -> float:
    """Bisection between 0 and the reference's mean, both sides assumed to have the same deviation."""
    if deviation == 0:
        return mean
    freedom = reference_runs + submitted - 2
    variance = ((reference_runs - 1) * deviation**2 + (submitted - 1) * deviation**2) / freedom
    error = math.sqrt(variance * (1.0 / reference_runs + 1.0 / submitted))
    low, high = 0.0, mean
    middle = (low + high) / 2
    while high - low > TOLERANCE:
        if _one_sided(-(middle - mean) / error, freedom) > ALPHA:
            high = middle
        else:
            low = middle
        middle = (low + high) / 2
    return middle


def _one_sided(t: float, freedom: float) -> float:
    """P(T > t) of Student's t for t >= 0: half the regularised incomplete beta function I_x(freedom / 2, 1 / 2)."""
    return 0.5 * _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction (Lentz's method), from the side on which that converges fast."""
    if x in (0.0, 1.0):
        return x
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 500):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            step = c * d
            value *= step
        if abs(step - 1) < 1e-16:
            break
    return value


def _deviation(values: Sequence[float]) -> float:
    """Population standard deviation over all values, as numpy.std."""
    mean = _sum(values) / len(values)
    return math.sqrt(_sum([(value - mean) ** 2 for value in values]) / len(values))


def _sum(values: Sequence[float]) -> float:
    """The sum in NumPy's order of additions, which the last digit depends on: eight at once, up to 128 values."""
    values = [float(value) for value in values]
    if len(values) < 8:
        return sum(values)
    if len(values) > 128:
        half = len(values) // 2
        half -= half % 8
        return _sum(values[:half]) + _sum(values[half:])
    whole = len(values) - len(values) % 8
    lanes = values[:8]
    for start in range(8, whole, 8):
        lanes = [lane + value for lane, value in zip(lanes, values[start : start + 8], strict=True)]
    pairs = [one + other for one, other in zip(lanes[::2], lanes[1::2], strict=True)]
    total = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
    for value in values[whole:]:
        total += value
    return total


def _interpolated(x: float, low: float, high: float, at_low: float, at_high: float) -> float:
    """numpy.interp between two points."""
    return at_high if x == high else (at_high - at_low) / (high - low) * (x - low) + at_low


def _ratio(one: float, other: float) -> float:
    """Division as NumPy does it: by zero it gives infinity."""
    return one / other if other else math.copysign(math.inf, one)
