"""Mine against theirs: speed, convergence, time to train, rules, environment; and one verdict.

Time to train is convergence times speed, and convergence is drawn anew by every seed. So both are compared apart: the
time of an epoch (or sample) tells two machines apart with few runs, and convergence is held against theirs and against
the reference points of the round. Where convergence differs, the verdict is on time to train itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from podium.reproduce import differences, expected, statistics
from podium.reproduce.differences import Difference
from podium.reproduce.statistics import Ratio
from podium.verdict.official import rcptest
from podium.verdict.official.hearing import Hearing
from podium.verdict.official.rcptest import Outcome
from podium.verdict.reading.digest import Digest
from podium.verdict.score.olympic import dropped_each_side, olympic

REPRODUCED, FASTER, SLOWER, NOT = "reproduced", "faster", "slower", "not comparable"
THROUGHPUT_LOGS = 3  # logs of each side that are read for their throughput


@dataclass(frozen=True)
class Side:
    """Runs of one system: their logs, what is known of each, and the description of the system."""

    name: str
    logs: Mapping[Path, Digest]
    description: Mapping[str, Any]

    @property
    def converged(self) -> list[Digest]:
        return [log for log in self.logs.values() if log.minutes and log.epochs.converged]

    @property
    def minutes(self) -> list[float]:
        return [log.minutes for log in self.converged if log.minutes]

    def points(self, way: str) -> list[float]:
        """Epochs (or samples) to the target of the runs that reached it."""
        found = [log.samples.point if way == rcptest.SAMPLES else log.epochs.point for log in self.converged]
        return [float(value) for value in found]

    @property
    def batch_size(self) -> int | None:
        sizes = {log.epochs.batch_size for log in self.logs.values()}
        return sizes.pop() if len(sizes) == 1 else None


@dataclass(frozen=True)
class Comparison:
    """The verdict in a word, its sentence, and what it rests on. `percent` is how much slower (negative: faster)."""

    verdict: str
    percent: float | None
    sentence: str
    reasons: tuple[str, ...]
    benchmark: str
    round: str
    margin: float
    confidence: float
    theirs: Mapping[str, Any]
    mine: Mapping[str, Any]
    speed: Ratio | None
    convergence: Ratio | None
    time: Ratio | None
    throughput: Ratio | None
    rcp: Mapping[str, Any]
    differences: tuple[Difference, ...]
    fallbacks: tuple[Mapping[str, str], ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def compare(theirs: Side, mine: Side, benchmark: str, round: str, margin: float, confidence: float) -> Comparison:
    """Compare two sets of runs of a benchmark under the rules of a round."""
    way, _ = rcptest.way(list(theirs.logs.values()), asked=False)
    mine_way, _ = rcptest.way(list(mine.logs.values()), asked=False)
    ratio = partial(statistics.ratio, margin=margin, confidence=confidence)
    speed = ratio(_each(theirs, way), _each(mine, mine_way))
    # Chance alone makes few seeds converge early or late: only what it hardly does is called a difference.
    sure = 1 - (1 - confidence) / 10
    convergence = statistics.ratio(theirs.points(way), mine.points(mine_way), margin, sure, alike=True)
    time = ratio(theirs.minutes, mine.minutes)
    rates = [
        expected.of(expected.throughput(log) for log in list(side.logs)[:THROUGHPUT_LOGS]) for side in (theirs, mine)
    ]
    outcome = _rcp(mine, benchmark, round, mine_way)
    held = _passes(_rcp(theirs, benchmark, round, way))
    obstacles = _obstacles(theirs, mine, benchmark, outcome if held else None)
    verdict, decisive, reasons = _verdict(obstacles, speed, convergence, time)
    slipped, theirs_too = differences.fallbacks(mine.logs), differences.fallbacks(theirs.logs)
    return Comparison(
        verdict=verdict,
        percent=decisive.percent if decisive else None,
        sentence=_sentence(verdict, decisive, margin),
        reasons=tuple(reasons),
        benchmark=benchmark,
        round=round,
        margin=margin,
        confidence=confidence,
        theirs=_facts(theirs, benchmark, way, confidence, len(theirs.logs)),
        mine=_facts(mine, benchmark, mine_way, confidence, max(len(theirs.logs), len(mine.logs))),
        speed=speed,
        convergence=convergence,
        time=time,
        throughput=ratio(*rates) if all(rates) else None,
        rcp=_rcp_facts(outcome),
        differences=tuple(differences.systems(theirs.description, mine.description)),
        fallbacks=tuple(
            {
                "what": what,
                "where": where,
                "theirs too": str(what in theirs_too).lower(),
                "do": differences.advice(what),
            }
            for what, where in slipped.items()
        ),
    )


def _each(side: Side, way: str) -> list[float]:
    """Minutes of an epoch (or sample) in each run that reached the target."""
    return [minutes / point for minutes, point in zip(side.minutes, side.points(way), strict=True) if point > 0]


def _rcp(mine: Side, benchmark: str, round: str, way: str) -> Outcome:
    named = [(path.name, log) for path, log in mine.logs.items()]
    return rcptest.test(Hearing(), round, named, way, False, mine.name)


def _rcp_facts(outcome: Outcome) -> dict[str, Any]:
    answer = outcome.answer
    if answer is None:
        return {"answer": "none", "message": "the RCP test has no answer for this benchmark and round"}
    reference = answer.reference
    if answer.mean is not None and not math.isfinite(answer.mean):
        return {"answer": "none", "message": "too few runs: the fastest and the slowest are left out"}
    return {
        "answer": "pass" if answer.passed else "fail",
        "message": answer.message,
        "mean": answer.mean,
        "reference": reference.mean if reference else None,
        "fastest": answer.fastest,
    }


def _obstacles(theirs: Side, mine: Side, benchmark: str, outcome: Outcome | None) -> list[str]:
    """What makes any comparison of times void; `outcome` is the RCP test of mine, where theirs passes it."""
    found = []
    if len(theirs.converged) < 2:
        found.append(f"theirs: {len(theirs.converged)} of {len(theirs.logs)} logs tell a converged run, two are needed")
    missed = len(mine.logs) - len(mine.converged)
    if not mine.converged or missed > dropped_each_side(benchmark):
        found.append(f"mine: {missed} of {len(mine.logs)} runs did not reach the target")
    sizes = (theirs.batch_size, mine.batch_size)
    if None not in sizes and sizes[0] != sizes[1]:
        found.append(f"global batch size {sizes[1]}, theirs {sizes[0]}: another batch size converges otherwise")
    if outcome and (too_fast := _too_fast(outcome, len(mine.converged))):
        found.append(too_fast)
    return found


def _passes(outcome: Outcome) -> bool:
    return outcome.answer is not None and outcome.answer.passed


def _too_fast(outcome: Outcome, runs: int) -> str:
    """Why the reference points say that this is another training; empty where they do not."""
    answer = outcome.answer
    if answer is None or answer.passed or answer.mean is None or answer.fastest is None or runs < 2:
        return ""
    if not answer.mean < answer.fastest:
        return ""
    means = f"{answer.mean:.6g}, faster than the reference can ({answer.fastest:.6g})"
    return f"mine converges in {means}: not the same training"


def _verdict(
    obstacles: Sequence[str], speed: Ratio | None, convergence: Ratio | None, time: Ratio | None
) -> tuple[str, Ratio | None, list[str]]:
    """The word, the ratio that decides it, and the reasons."""
    if obstacles:
        return NOT, None, list(obstacles)
    reasons = []
    decisive = speed
    if speed is None:
        decisive = time
        reasons.append("no convergence points: the verdict is on time to train")
    elif convergence is not None and convergence.answer in (statistics.MORE, statistics.LESS):
        decisive = time
        word = "more" if convergence.answer == statistics.MORE else "fewer"
        reasons.append(
            f"mine needs {word} epochs to the target ({convergence.percent:+.1f} %): the verdict is on time to train"
        )
    else:
        reasons.append("convergence does not differ: the verdict is on the time of an epoch")
    if decisive is None:
        return NOT, None, ["too few runs: two of theirs and one of mine are the least"]
    if decisive.answer == statistics.OPEN:
        more = f"about {decisive.needed} runs of mine would" if decisive.needed else "more runs will hardly"
        low, high = 100 * (decisive.low - 1), 100 * (decisive.high - 1)
        reasons.append(f"the interval {low:+.1f} to {high:+.1f} % holds both answers; {more} tell")
        return NOT, decisive, reasons
    words = {statistics.SAME: REPRODUCED, statistics.MORE: SLOWER, statistics.LESS: FASTER}
    return words[decisive.answer], decisive, reasons


def _sentence(verdict: str, decisive: Ratio | None, margin: float) -> str:
    if verdict == REPRODUCED and decisive:
        return f"reproduced within {100 * margin:g} % ({decisive.percent:+.1f} %)"
    if verdict in (SLOWER, FASTER) and decisive:
        low, high = sorted((abs(100 * (decisive.low - 1)), abs(100 * (decisive.high - 1))))
        return f"{verdict} by {abs(decisive.percent):.1f} % ({low:.1f} to {high:.1f} %)"
    return NOT


def _facts(side: Side, benchmark: str, way: str, confidence: float, runs: int) -> dict[str, Any]:
    """What is shown of a side; `runs` are drawn for the interval of its score."""
    times = [log.minutes if log.epochs.converged else None for log in side.logs.values()]
    score = olympic(times, benchmark)
    interval = statistics.score_interval(
        side.minutes, runs, lambda drawn: olympic(drawn, benchmark).minutes, confidence
    )
    return {
        "name": side.name,
        "runs": len(side.logs),
        "converged": len(side.converged),
        "batch_size": side.batch_size,
        "minutes": side.minutes,
        "points": side.points(way),
        "score": score.minutes,
        "score_why": score.why,
        "score_interval": interval,
        "logs": [path.name for path in side.logs],
    }
