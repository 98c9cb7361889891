"""The verdict on one result: what the official package checker says of its folder, and what it does not say.

All that the checker does to a result is done here in its order and its words (package_checker.
check_training_result_files), on what is known of each log. Where it would stop with a traceback the result has no
official answer, and a finding names the cause.
"""

from __future__ import annotations

import difflib
import glob
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlperf_logging.benchmark_meta import get_allowed_benchmarks, get_result_file_counts

from podium.verdict import findings, params, power, rcptest, seeds
from podium.verdict.compliance import Message
from podium.verdict.digest import Digest
from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.hearing import FAIL, NONE, PASS, SKIPPED, Hearing
from podium.verdict.params import Parameter
from podium.verdict.rcptest import Outcome
from podium.verdict.tree import Result


@dataclass(frozen=True)
class Options:
    """What the submission asks the checker for: in its root as flags, in the folders below as params files."""

    rcp_bypass: bool = False
    seeds_bypass: bool = False
    train_samples: bool = False


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


@dataclass(frozen=True)
class _Case:
    """A result before the checker: the logs that it sees with what is known of them, and how things are written."""

    result: Result
    logs: tuple[Path, ...]
    known: Mapping[Path, Digest]
    round: str
    required: int

    @property
    def digests(self) -> list[tuple[str, Digest]]:
        return [(self.result.shown(path), self.known[path]) for path in self.logs]


def judge(
    result: Result, known: Mapping[Path, Digest], round: str, division: str | None, options: Options
) -> Verdict:
    """The verdict on a result whose logs are `known`.

    `division` is the word in the description of its system, None where the checker cannot read one and falls over.
    """
    required = get_result_file_counts("training").get(result.benchmark, 0)
    inner, before = _parameters(result)
    logged = next((str(known[path].division) for path in result.logs if known[path].division), "")
    if result.benchmark not in get_allowed_benchmarks("training", round):
        return _skipped(result, known, round, division or logged)
    case = _Case(result, _seen(result, before), known, round, required)
    way, why = rcptest.way([digest for _, digest in case.digests], options.train_samples)
    if division is None:
        before.fall()
    word = division or logged
    full = _with(options, inner)
    hearing = Hearing()
    hearing.join(before)
    seeded, compared, outcome = _hear(hearing, case, word == "closed", full, way)
    otherwise = None
    if outcome.benchmark == "bert":
        other = rcptest.EPOCHS if way == rcptest.SAMPLES else rcptest.SAMPLES
        otherwise = rcptest.test(Hearing(), round, case.digests, other, full.rcp_bypass, result.shown())
    plain = hearing.answer
    if way == rcptest.SAMPLES or options != Options():
        again = Hearing()
        again.join(before)
        _hear(again, case, word == "closed", _with(Options(), inner), rcptest.EPOCHS)
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
    case = _Case(result, result.logs, known, "", len(result.logs))
    wrong = _comply(hearing, case)
    _explain(hearing, case, ERROR)
    if wrong:
        hearing.fail(f"{len(wrong)} files do not comply")
    runs = tuple(_run(result, path, known[path]) for path in result.logs)
    division = next((str(known[path].division) for path in result.logs if known[path].division), "")
    answer, said = hearing.answer, tuple(hearing.said)
    return Verdict(result, division, 1, answer, answer, said, runs, SKIPPED, None, None, (), tuple(hearing.found))


def _hear(hearing: Hearing, case: _Case, closed: bool, options: Options, way: str) -> tuple[Hearing, Hearing, Outcome]:
    """Everything that the checker does to a folder; the hearings of seeds and RCP also where they do not count."""
    _count(hearing, case)
    wrong = _comply(hearing, case)
    if power_folder := case.result.other("power"):
        shown = case.result.shown(power_folder)
        wrong |= power.check(hearing, power_folder, case.logs, case.round, shown)
    _tolerate(hearing, case, wrong)
    seeded, compared = Hearing(), Hearing()
    _seed(seeded, case, options.seeds_bypass)
    outcome = rcptest.test(compared, case.round, case.digests, way, options.rcp_bypass, case.result.shown())
    if closed:
        hearing.join(seeded)
        if case.result.benchmark != "minigo":
            hearing.join(compared)
    return seeded, compared, outcome


def _seen(result: Result, hearing: Hearing) -> tuple[Path, ...]:
    """The logs that the checker sees: it takes the name of the folder for a pattern, so [, ] and * hide them."""
    shown = result.shown()
    if not glob.has_magic(shown):
        return result.logs
    base = glob.escape(str(result.folder).removesuffix(shown))
    found = tuple(Path(path) for path in sorted(glob.glob(f"{base}{shown}/result_*.txt")))
    seen = tuple(path for path in result.logs if path in found)
    if seen != result.logs:
        told = f"{len(result.logs)} logs, of which the checker finds {len(seen)}"
        hearing.found.append(findings.silent("name-pattern", ERROR, shown, "no [ ] * ? in names", told))
    return seen


def _count(hearing: Hearing, case: _Case) -> None:
    shown, found = case.result.shown(), len(case.logs)
    if found != case.required:
        text = (
            f"Incorrect number of files in dir, or wrong file names in directory {shown}, "
            f"found {found}, expected {case.required}"
        )
        rule = Finding("run-count", ERROR, shown, 0, f"{case.required} logs result_*.txt", str(found), text)
        hearing.fail(text, rule)
    listed = [path.name for path in case.result.others] if found or not case.result.logs else []
    unknown = [name for name in listed if name != params.PARAMS]
    if unknown:
        hearing.warn(
            f"Detected {found + len(listed)} total files in directory {shown}, but some do not conform to naming "
            "convention, should you rename them to result_*.txt ?"
        )
    if listed:
        text = f"Unknown files in result directory: {shown}"
        names = ", ".join(unknown[:8]) + (" …" if len(unknown) > 8 else "")
        rule = Finding("unknown-files", WARNING, shown, 0, "nothing but result_*.txt", names, text)
        hearing.warn(text, *([rule] if unknown else []))


def _comply(hearing: Hearing, case: _Case) -> set[str]:
    """Each log by the rules of the round; the names of those that do not comply, for the caller to weigh."""
    wrong = set()
    for path in case.logs:
        digest = case.known[path]
        hearing.said += [f"WARNING: {text.strip()}" for text in messages(digest)]
        if digest.fall is not None:
            hearing.fall(findings.of_fall(digest.fall, case.result.shown(path)))
        elif not digest.compliant:
            wrong.add(path.stem)
    return wrong


def _tolerate(hearing: Hearing, case: _Case, wrong: set[str]) -> None:
    """Some logs may fail (olympic scoring drops them); then their errors weigh no more than warnings."""
    unet3d = case.result.benchmark == "unet3d"
    accepted = 0 < len(wrong) <= (4 if unet3d else 1)
    _explain(hearing, case, WARNING if accepted else ERROR)
    shown = case.result.shown()
    if accepted:
        few = f"{len(wrong)} files do not comply" if unet3d else "1 file does not comply"
        text = f"{few}, accepting this under olympic scoring"
        named = ", ".join(sorted(wrong))
        hearing.warn(text, Finding("runs-tolerated", WARNING, shown, 0, "logs that all comply", named, text))
    elif wrong:
        text = f"{len(wrong)} files do not comply, directory cannot be accepted"
        allowed = f"at most {4 if unet3d else 1} that do not comply"
        hearing.fail(text, Finding("runs-not-compliant", ERROR, shown, 0, allowed, ", ".join(sorted(wrong)), text))


def _explain(hearing: Hearing, case: _Case, level: str) -> None:
    """A finding for everything that is said of a log; errors weigh as `level` says."""
    for path in case.logs:
        digest, shown = case.known[path], case.result.shown(path)
        hearing.found += [findings.of_message(message, shown, level) for message in _explained(digest)]
        hearing.found += [findings.of_message(message, shown, WARNING) for message in digest.warnings]


def _seed(hearing: Hearing, case: _Case, bypass: bool) -> None:
    if bypass:
        return
    runs = [(path, digest.seeds) for path, digest in case.digests]
    try:
        errors = seeds.check(runs)
    except TypeError as error:
        text = f"TypeError: {error}"
        found = "an object or a list"
        shown = case.result.shown()
        hearing.fall(Finding("seed-unreadable", ERROR, shown, 0, "file and lineno as text and number", found, text, "falls over"))
        return
    for path, found in runs:
        if len(found.found) > 1:
            numbers = ", ".join(str(seed.value) for seed in found.found[:8])
            hearing.found.append(findings.silent("seed-several", WARNING, path, "one seed for each run", numbers))
    if errors:
        texts = "\n".join(message.text for _, message in errors)
        hearing.fail(
            f"Seed checker failed and found the following errors: {texts}",
            *(findings.of_message(message, runs[index][0]) for index, message in errors),
        )
        hearing.fail("Seed checker failed")


def messages(digest: Digest) -> list[str]:
    """What the official compliance checker logs about one log, in its order."""
    said = []
    if digest.broken and digest.compliant is not None:
        said.append(" Found parsing errors:")
        for item in digest.broken:
            said += [f"  {item.text}", f"   ^^  {item.why}"]
    if digest.warnings or digest.errors:
        said.append(" " + ("\n" + "-" * 30 + "\n").join(item.text for item in (*digest.warnings, *digest.errors)))
    return said


def _explained(digest: Digest) -> list[Message]:
    """The errors of a log, each broken line as one of its own."""
    lines = [
        Message(f"{item.text[:500]}\n  ^^  {item.why}", "log-json", "", item.line, "JSON after the token", item.why)
        for item in digest.broken
        if digest.compliant is not None
    ]
    return [*lines, *(message for message in digest.errors if message.kind != "log-json")]


def _run(result: Result, path: Path, digest: Digest) -> Run:
    return Run(result.shown(path), digest.compliant, tuple(messages(digest)))


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
    return found


def _skipped(result: Result, known: Mapping[Path, Digest], round: str, division: str) -> Verdict:
    """A folder whose name is no benchmark of the round: the checker says so in a warning and goes on."""
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
    return Verdict(result, division, 0, SKIPPED, SKIPPED, said, runs, SKIPPED, None, None, (), (rule,))


def _parameters(result: Result) -> tuple[list[Parameter], Hearing]:
    """The params files of the system and the result, and a hearing that knows of one that cannot be read."""
    hearing = Hearing()
    found: list[Parameter] = []
    for folder, place in ((result.folder.parent, "system"), (result.folder, "result")):
        try:
            found += params.read(folder, place)
        except (OSError, UnicodeDecodeError) as error:
            shown = f"{result.shown(folder)}/{params.PARAMS}"
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
