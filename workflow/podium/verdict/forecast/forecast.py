"""`podium forecast`: what a result will be, from its first runs and the RCPs of its batch size.

`forecast_model` has the statistics, `forecast_history` the check of how good they are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import plan, progress
from podium.config import Config
from podium.errors import BadInput
from podium.runs import ledger
from podium.verdict import rounds, tree
from podium.verdict.forecast import calibration, model
from podium.verdict.forecast.calibration import Trial
from podium.verdict.forecast.model import Forecast, Interval, Seen
from podium.verdict.official import description, rcp, rcptest
from podium.verdict.official.rcp import Reference
from podium.verdict.reading import cache, logs
from podium.verdict.reading.digest import Digest
from podium.verdict.score.olympic import dropped_each_side


@dataclass(frozen=True)
class Case:
    """A result in the making: its runs so far, in their order, and what they are held against.

    A run is its minutes and its convergence point, None where it missed its target. `step` lies between two
    evaluations, in the unit of the points. `how` is the RCP checker's word for the batch size; `reference` and
    `fastest` (the lowest mean that it accepts) are None where nothing is compared. `notes` are what was left out.
    """

    name: str
    benchmark: str
    round: str
    required: int
    runs: tuple[tuple[float, float] | None, ...]
    step: float
    batch_size: Any
    how: str
    reference: Reference | None
    fastest: float | None
    notes: tuple[str, ...]

    @property
    def dropped(self) -> int:
        return dropped_each_side(self.benchmark)

    @property
    def seen(self) -> Seen:
        good = [run for run in self.runs if run is not None]
        return Seen(
            tuple(minutes for minutes, _ in good),
            tuple(point for _, point in good),
            len(self.runs) - len(good),
            self.step,
        )

    def first(self, count: int) -> Case:
        """The case as it was after `count` runs."""
        return replace(self, runs=self.runs[:count])

    def forecast(self) -> Forecast:
        own = self.reference is not None and self.reference.batch_size == self.batch_size
        return model.forecast(self.seen, self.required, self.dropped, self.reference, self.fastest, own)


def case(name: str, benchmark: str, division: str, round: str, known: Mapping[Path, Digest]) -> Case:
    """What is known of a result from the logs of its runs, given in the order of the runs.

    Raises BadInput where the round does not know the benchmark.
    """
    required = plan.required_runs(benchmark, round)
    paths, digests = list(known), list(known.values())
    way, why = rcptest.way(digests, asked=False)
    points = [digest.samples if way == rcptest.SAMPLES else digest.epochs for digest in digests]
    notes = [why] if way == rcptest.SAMPLES else []
    runs: list[tuple[float, float] | None] = []
    for path, digest, point in zip(paths, digests, points, strict=True):
        if not point.converged:
            runs.append(None)
        elif _positive(digest.minutes) and _positive(point.point):
            runs.append((digest.minutes, float(point.point)))
        else:
            notes.append(f"{path.name} says success, but not after how many minutes or epochs: left out")
    sizes = {json.dumps(point.batch_size) for point in points if point.batch_size != -1}
    batch_size = next((point.batch_size for point in points if point.batch_size != -1), None)
    if len(sizes) > 1:
        notes.append(f"the runs have several batch sizes ({', '.join(sorted(sizes))}): no RCP is for all of them")
        how, reference, fastest = "none", None, None
    else:
        how, reference, fastest = _reference(benchmark, division, round, batch_size, required)
    step = _step(paths) if way == rcptest.EPOCHS else 0.0
    return Case(name, benchmark, round, required, tuple(runs), step, batch_size, how, reference, fastest, tuple(notes))


def _reference(
    benchmark: str, division: str, round: str, batch_size: Any, required: int
) -> tuple[str, Reference | None, float | None]:
    """What the RCP test will hold a result against, and the lowest mean that it accepts: asked with a good one."""
    if division == "open":
        return "none: open division", None, None
    if not _positive(batch_size):
        return "none: no batch size is known yet", None, None
    try:
        answer = rcp.judge(round, benchmark, batch_size, [1e12] * required)
    except (KeyError, FileNotFoundError):
        return f"none: the checker has no RCPs for {benchmark} in {round}", None, None
    return answer.message, answer.reference, answer.fastest


def sizes(benchmark: str, round: str) -> dict[str, Any]:
    """For which batch sizes there are RCPs: exactly, by interpolation, or by comparison with the smallest."""
    try:
        exact = [reference.batch_size for reference in rcp.pruned(round, benchmark)]
    except (KeyError, FileNotFoundError):
        return {"exact": [], "interpolated": None, "compared_below": None}
    return {
        "exact": exact,
        "interpolated": [exact[0], exact[-1]] if len(exact) > 1 else None,
        "compared_below": exact[0] if exact else None,
    }


def of_config(config: Config) -> Iterator[Case]:
    """The cases of a work root: the countable attempts of each result in launch order, no more than are required."""
    round, division = config.submission.round, config.submission.division
    for wanted in plan.plans(config):
        folder = plan.result_folder(config, wanted)
        attempts = [item for item in ledger.current(ledger.attempts(folder)) if item.countable]
        paths = [folder / str(item.number) / "result.txt" for item in attempts]
        known = cache.digests(paths[: wanted.required], round, cache.place(config.root))
        found = case(f"{wanted.system.name}/{wanted.benchmark}", wanted.benchmark, division, round, known)
        more = f"{len(paths)} runs are there; the window of {wanted.required} that counts is chosen when all have ended"
        yield replace(found, notes=(*found.notes, more)) if len(paths) > wanted.required else found


def of_tree(found: tree.Tree, round: str) -> Iterator[Case]:
    """The cases of a results tree, logs in the order of the numbers in their names.

    Raises BadInput for a result whose name is no benchmark of the round where nothing else was asked about; in a larger
    tree such folders are passed over.
    """
    known = cache.digests((path for result in found.results for path in result.logs), round, cache.place())
    for submitter in found.submitters:
        for system in submitter.systems:
            division = description.check(system.description, system.name, round).division or ""
            for result in system.results:
                logs = {path: known[path] for path in sorted(result.logs, key=_natural)}
                try:
                    yield case(result.name, result.benchmark, division, round, logs)
                except BadInput:
                    if found.kind in ("result", "log"):
                        raise


def history(all: Iterable[Case]) -> Iterator[Trial]:
    """Forecasts of finished results from their first runs; one without a score teaches nothing."""
    for item in all:
        whole = item.forecast() if item.seen.runs == item.required else None
        if whole is None or whole.score is None or whole.converges < 1:
            continue
        passed = None if whole.accepted is None else whole.accepted == 1.0
        scaled = whole.scaled.middle if whole.scaled else None
        for known in calibration.KNOWN:
            if known < item.required:
                early = item.first(known).forecast()
                yield from calibration.trials(item.name, known, early, whole.score.middle, scaled, passed)


def as_json(item: Case, past: Sequence[Trial]) -> dict[str, Any]:
    """A case and its forecast for machines; intervals are stretched by what `past` results teach."""
    found = item.forecast()
    both = None if found.accepted is None else found.converges * found.accepted
    return {
        "result": item.name,
        "round": item.round,
        "runs": item.seen.runs,
        "required": item.required,
        "failed": item.seen.failed,
        "may_still_fail": model.may_fail(item.seen, item.required, item.dropped),
        "batch_size": item.batch_size if _positive(item.batch_size) else None,
        "mean_so_far": statistics.fmean(item.seen.points) if item.seen.points else None,
        "rcp": {
            "test": item.how,
            "mean": item.reference.mean if item.reference else None,
            "fastest_accepted": item.fastest,
            "batch_sizes": sizes(item.benchmark, item.round),
        },
        "probability": {"converges": found.converges, "rcp_passes": found.accepted, "both": both},
        "score_minutes": _json(_stretched(found.score, past, "score", item)),
        "scaled_minutes": _json(_stretched(found.scaled, past, "scaled", item)),
        "notes": list(item.notes),
    }


def _stretched(interval: Interval | None, past: Sequence[Trial], what: str, item: Case) -> Interval | None:
    if interval is None or item.seen.runs >= item.required:
        return interval
    others = [trial for trial in calibration.alike(past, what, item.seen.runs) if trial.name != item.name]
    return interval.stretched(calibration.factor(others))


def _json(interval: Interval | None) -> dict[str, float] | None:
    return asdict(interval) if interval else None


def as_text(answer: dict[str, Any]) -> str:
    """A forecast for a terminal."""
    chance, about = answer["probability"], answer["rcp"]
    missed = f", {answer['failed']} missed the target" if answer["failed"] else ""
    lines = [f"{answer['result']}: {answer['runs']} of {answer['required']} runs{missed}"]
    lines.append(
        f"  converges {chance['converges']:.1%}; {answer['may_still_fail']} of the remaining runs may miss the target"
    )
    if chance["rcp_passes"] is None:
        lines.append(f"  RCP: {about['test']}")
    else:
        held = f"at least {about['fastest_accepted']:.6g} (reference {about['mean']:.6g})"
        mean = f"mean so far {answer['mean_so_far']:.6g}, {held}, batch size {answer['batch_size']}"
        lines.append(f"  RCP passes {chance['rcp_passes']:.1%}: {about['test']}, {mean}")
    for name, key in (("score", "score_minutes"), ("scaled", "scaled_minutes")):
        if interval := answer[key]:
            ends = f"{interval['low']:.4f} to {interval['high']:.4f}"
            lines.append(f"  {name} {interval['middle']:.4f} min ({ends} with 90 %)")
    if not answer["score_minutes"]:
        lines.append("  score: nothing can be said before a run has reached its target")
    if exact := about["batch_sizes"]["exact"]:
        between = (
            f"interpolated between, below compared with {exact[0]}, above none" if len(exact) > 1 else "others none"
        )
        lines.append(f"  batch sizes with an RCP: {', '.join(f'{size:g}' for size in exact)} ({between})")
    return "\n".join([*lines, *(f"  note: {note}" for note in answer["notes"])])


def _step(paths: Sequence[Path]) -> float:
    """What lies between two evaluations, as most often seen; 0 where no log tells."""
    steps: list[float] = []
    for path in paths:
        with contextlib.suppress(OSError):
            steps += [late.epoch - early.epoch for early, late in pairwise(logs.read(path).evaluations)]
    steps = [step for step in steps if step > 0]
    return statistics.median(steps) if steps else 0.0


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e300


def _natural(path: Path) -> list[tuple[int, str]]:
    """result_2 before result_10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path.name)]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("tree", nargs="?", type=Path, help="a results tree or a part of one (default: the work root)")
    rounds.argument(parser)
    parser.add_argument("--first", type=int, metavar="K", help="forecast from the first K runs only")
    parser.add_argument("--history", type=Path, metavar="TREE", help="finished results of the round to learn from")
    parser.add_argument("--calibrate", type=Path, metavar="TREE", help="check the forecasts over finished results")


def main(args: argparse.Namespace) -> int:
    """`podium forecast [TREE]`, or `podium forecast --calibrate TREE` for how good the forecasts are."""
    if args.calibrate:
        return _calibrate(args)
    if args.first is not None and args.first < 1:
        raise BadInput(
            "no forecast from no run", "--first 1 or more", str(args.first), "podium forecast TREE --first 1"
        )
    past = _trials(args.history, args) if args.history else []
    if args.tree:
        found = list(of_tree(tree.read(args.tree), rounds.of(args, args.tree)))
    else:
        found = list(of_config(configuration.load(args.config)))
    answers = [as_json(item if args.first is None else item.first(args.first), past) for item in found]
    if args.json:
        print(json.dumps({"history": len({trial.name for trial in past}), "forecasts": answers}, indent=1))
    else:
        print("\n\n".join(map(as_text, answers)))
    return 0


def _calibrate(args: argparse.Namespace) -> int:
    rows = calibration.table(_trials(args.calibrate, args))
    if not rows:
        raise BadInput(f"nothing to learn from in {args.calibrate}", "finished results", "none", "podium score TREE")
    print(json.dumps(calibration.as_json(rows), indent=1) if args.json else calibration.as_text(rows))
    return 0


def _trials(place: Path, args: argparse.Namespace) -> list[Trial]:
    """Trials of a tree of one round, or of a folder with one tree for each round (v1.0, v3.0 ...)."""
    found = []
    for folder in _rounds(place):
        round = rounds.of(args, folder)
        found += history(progress.bar(of_tree(tree.read(folder), round), f"history {folder.name}"))
    return found


def _rounds(place: Path) -> list[Path]:
    inner = sorted(folder for folder in place.iterdir() if folder.is_dir() and rounds.FOLDER.search(folder.name))
    return inner or [place]
