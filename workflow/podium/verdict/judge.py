"""The verdict on one result: what the official package checker says of its folder, and what it does not say.

Where the checker would stop with a traceback the result has no official answer, and a finding names the cause.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_logging.benchmark_meta import get_allowed_benchmarks, get_result_file_counts

from podium.verdict import findings
from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.official import folder, params, rcptest
from podium.verdict.official.folder import Case, Options
from podium.verdict.official.hearing import FAIL, NONE, PASS, SKIPPED, Hearing
from podium.verdict.official.params import Parameter
from podium.verdict.official.rcptest import Outcome
from podium.verdict.reading.digest import Digest
from podium.verdict.tree import Result


@dataclass(frozen=True)
class Run:
    """One log of a result. `compliant` is None where the official checker has no answer."""

    path: str
    compliant: bool | None
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What is to be said of a result.

    `official` is the package checker's answer on the folder: pass, fail, skipped (it does not look at it), or none (it
    falls over). `plain` is the same without flags from the submission's root and without a choice for bert. `messages`
    are the checker's warnings and errors in its order. `seeds` and `rcp` are the answers of these two checks, which
    count only where `closed`.
    """

    result: Result
    division: str
    required: int
    official: str
    plain: str
    messages: tuple[str, ...]
    runs: tuple[Run, ...]
    seeds: str
    rcp: Outcome | None
    rcp_otherwise: Outcome | None
    parameters: tuple[Parameter, ...]
    findings: tuple[Finding, ...]

    @property
    def word(self) -> str:
        return findings.worst(self.findings)

    @property
    def closed(self) -> bool:
        return self.division == "closed"

    @property
    def compliance(self) -> str:
        """Whether enough logs comply: pass, fail, or none where the checker falls over one."""
        answers = [run.compliant for run in self.runs]
        allowed = 4 if self.result.benchmark == "unet3d" else 1
        return NONE if None in answers else PASS if answers.count(False) <= allowed and answers else FAIL


def judge(result: Result, known: Mapping[Path, Digest], round: str, division: str | None, options: Options) -> Verdict:
    """The verdict on a result whose logs are `known`.

    `division` is the word in the description of its system, None where the checker cannot read one and falls over.
    """
    required = get_result_file_counts("training").get(result.benchmark, 0)
    inner, before = _parameters(result)
    logged = next((str(known[path].division) for path in result.logs if known[path].division), "")
    if result.benchmark not in get_allowed_benchmarks("training", round):
        return _skipped(result, known, round, division or logged)
    case = Case(result, folder.seen(result, before), known, round, required)
    way, why = rcptest.way([digest for _, digest in case.digests], options.train_samples)
    if division is None:
        before.fall()
    word = division or logged
    full = _with(options, inner)
    hearing = Hearing()
    hearing.join(before)
    seeded, compared, outcome = folder.hear(hearing, case, word == "closed", full, way)
    otherwise = None
    if outcome.benchmark == "bert":
        other = rcptest.EPOCHS if way == rcptest.SAMPLES else rcptest.SAMPLES
        otherwise = rcptest.test(Hearing(), round, case.listed, other, full.rcp_bypass, result.shown())
    plain = hearing.answer
    if way == rcptest.SAMPLES or options != Options():
        again = Hearing()
        again.join(before)
        folder.hear(again, case, word == "closed", _with(Options(), inner), rcptest.EPOCHS)
        plain = again.answer
    return Verdict(
        result=result,
        division=word,
        required=required,
        official=hearing.answer,
        plain=plain,
        messages=tuple(hearing.said),
        runs=tuple(_run(result, path, known[path]) for path in result.logs),
        seeds=seeded.answer,
        rcp=replace(outcome, why=why),
        rcp_otherwise=otherwise,
        parameters=tuple(inner),
        findings=(*hearing.found, *_silent(result, known, division, (*seeded.found, *compared.found))),
    )


def judge_log(result: Result, known: Mapping[Path, Digest]) -> Verdict:
    """The verdict on the logs of a result apart: by the rules of the round, and nothing of the result."""
    hearing = Hearing()
    case = Case(result, result.logs, known, "", len(result.logs))
    wrong = folder.comply(hearing, case)
    folder.explain(hearing, case, ERROR)
    if wrong:
        hearing.fail(f"{len(wrong)} files do not comply")
    runs = tuple(_run(result, path, known[path]) for path in result.logs)
    division = next((str(known[path].division) for path in result.logs if known[path].division), "")
    answer, said = hearing.answer, tuple(hearing.said)
    found = (*hearing.found, *_rehearsals(result, known))
    return Verdict(result, division, 1, answer, answer, said, runs, SKIPPED, None, None, (), found)


def _run(result: Result, path: Path, digest: Digest) -> Run:
    return Run(result.shown(path), digest.compliant, tuple(digest.messages()))


def _silent(
    result: Result, known: Mapping[Path, Digest], division: str | None, unmade: Sequence[Finding]
) -> list[Finding]:
    """What the checker passes over: a division that it does not know, logs of another benchmark or division.

    `unmade` are the findings of the checks that are made in the closed division only.
    """
    found = []
    if division not in (None, "closed", "open"):
        expected = "closed or open, in small letters"
        what = f'"{division}": seeds and RCP are not checked'
        found.append(findings.silent("division-word", WARNING, result.shown(), expected, what))
        found += [replace(finding, official="says nothing") for finding in unmade]
    for path in result.logs:
        digest, shown = known[path], result.shown(path)
        if digest.benchmark not in (None, result.benchmark):
            other = json.dumps(digest.benchmark)[:80]
            found.append(findings.silent("benchmark-other", ERROR, shown, f"logs of {result.benchmark}", other))
        if division == "closed" and digest.division == "open":
            found.append(findings.silent("division-other", ERROR, shown, "logs of the closed division", "open"))
    return found + _rehearsals(result, known)


def _rehearsals(result: Result, known: Mapping[Path, Digest]) -> list[Finding]:
    """Logs that say themselves that nothing was trained, which the checker has no key for."""
    expected, found = "the log of a training", "a rehearsal's (podium_rehearsal), which trains nothing"
    return [
        Finding("rehearsal-log", ERROR, result.shown(path), line, expected, found, "", "says nothing")
        for path in result.logs
        if (line := known[path].rehearsal)
    ]


def _skipped(result: Result, known: Mapping[Path, Digest], round: str, division: str) -> Verdict:
    """A folder whose name is no benchmark of the round: the checker says so in a warning and goes on."""
    import difflib  # which few trees need

    allowed = get_allowed_benchmarks("training", round)
    near = difflib.get_close_matches(result.benchmark, allowed, n=1)
    level = ERROR if result.logs else WARNING
    hint = f"{result.benchmark}, which is not checked at all" + (f"; did you mean {near[0]}?" if near else "")
    rule = Finding(
        "benchmark-unknown",
        level,
        result.shown(),
        0,
        f"a benchmark of {round}: {', '.join(sorted(allowed))}",
        hint,
        f"Skipping benchmark: {result.benchmark}",
    )
    said = (f"WARNING: Skipping benchmark: {result.benchmark}",)
    runs = tuple(_run(result, path, known[path]) for path in result.logs)
    return Verdict(
        result, division, 0, SKIPPED, SKIPPED, said, runs, SKIPPED, None, None, (), (rule, *_rehearsals(result, known))
    )


def _parameters(result: Result) -> tuple[list[Parameter], Hearing]:
    """The params files of the system and the result, and a hearing that knows of one that cannot be read."""
    hearing = Hearing()
    found: list[Parameter] = []
    for where, place in ((result.folder.parent, "system"), (result.folder, "result")):
        try:
            found += params.read(where, place)
        except (OSError, UnicodeDecodeError) as error:
            shown = f"{result.shown(where)}/{params.PARAMS}"
            text = f"{type(error).__name__}: {error}"
            hearing.fall(Finding("params-unreadable", ERROR, shown, 0, "a text file", str(error), text, "falls over"))
    hearing.found += [params.finding(item, f"{result.shown(item.path)}") for item in found if not item.counts]
    return found, hearing


def _with(options: Options, inner: Sequence[Parameter]) -> Options:
    counting = {item.name for item in inner if item.counts}
    return replace(
        options,
        rcp_bypass=options.rcp_bypass or params.RCP in counting,
        seeds_bypass=options.seeds_bypass or params.SEEDS in counting,
    )
