"""The verdict on a tree: every description, every result, the repository rules, and what each submitter comes to.

Logs are read by all cores, and what is known of a log is kept (podium.verdict.reading.cache). One broken result never
hides the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podium.verdict import findings
from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.judge import Verdict, judge, judge_log
from podium.verdict.official import description, params, repository
from podium.verdict.official.description import Description
from podium.verdict.official.folder import Options
from podium.verdict.official.hearing import FAIL, NONE, PASS
from podium.verdict.official.params import Parameter
from podium.verdict.official.repository import Repository
from podium.verdict.official.rulefiles import numbers
from podium.verdict.reading.digest import Digest
from podium.verdict.tree import Result, Submitter, Tree


@dataclass(frozen=True)
class Submission:
    """What is to be said of a submitter's tree, or of the part of one that was asked about.

    `official` is the package checker's answer on it as a whole: pass, fail, or none where it falls over; `plain` the
    same without the flags of the root's params file and with bert read by epoch_num. `findings` are of the tree itself.
    """

    name: str
    official: str
    plain: str
    descriptions: tuple[Description, ...]
    verdicts: tuple[Verdict, ...]
    repository: Repository | None
    parameters: tuple[Parameter, ...]
    findings: tuple[Finding, ...]

    @property
    def every(self) -> Iterable[Finding]:
        """All findings: of the tree, its descriptions, its results, the repository."""
        yield from self.findings
        for item in (*self.descriptions, *self.verdicts):
            yield from item.findings
        if self.repository is not None:
            yield from self.repository.findings

    @property
    def word(self) -> str:
        return findings.worst(self.every)


def check(tree: Tree, known: Mapping[Path, Digest], round: str) -> list[Submission]:
    """The verdict on each submitter in a tree whose logs are `known`."""
    return [_submission(submitter, tree.kind, known, round) for submitter in tree.submitters]


def _submission(submitter: Submitter, kind: str, known: Mapping[Path, Digest], round: str) -> Submission:
    whole = kind in ("round", "submitter")
    described = {path: description.check(path, _shown(submitter, path), round) for path in submitter.descriptions}
    asked, found = _parameters(submitter)
    counting = {item.name for item in asked if item.counts}
    options = Options(params.RCP in counting, params.SEEDS in counting, params.TRAIN_SAMPLES in counting)
    verdicts: list[Verdict] = []
    for system in submitter.systems:
        placed = [result for result in system.results if not result.loose]
        if kind == "log":
            verdicts += [judge_log(result, known) for result in system.results]
            continue
        if placed and system.description not in described:
            described[system.description] = description.missing(_shown(submitter, system.description))
        division = described[system.description].division if placed else None
        if placed and division is None and described[system.description].official == FAIL:
            found.append(_without_division(_shown(submitter, system.description)))
        verdicts += [judge(result, known, round, division, options) for result in placed]
        loose = [_named_by_logs(result, known) for result in system.results if result.loose]
        verdicts += [judge(result, known, round, division, options) for result, division in loose]
    if whole:
        found += _layout(submitter)
    answers = [item.official for item in described.values()]
    fallen = any(finding.official == "falls over" for finding in found)
    return Submission(
        name=submitter.name,
        official=_together([*answers, *(verdict.official for verdict in verdicts)], fallen),
        plain=_together([*answers, *(verdict.plain for verdict in verdicts)], fallen),
        descriptions=tuple(described.values()),
        verdicts=tuple(verdicts),
        repository=repository.check(submitter.folder) if whole and numbers(round) >= (2, 0, 0) else None,
        parameters=tuple(asked),
        findings=tuple(found),
    )


def _without_division(shown: str) -> Finding:
    """A description that the system checker can read and the package checker cannot."""
    expected = "a JSON object with a field division"
    return Finding("description-unreadable", ERROR, shown, 0, expected, "none", "KeyError: 'division'", "falls over")


def _named_by_logs(result: Result, known: Mapping[Path, Digest]) -> tuple[Result, str]:
    """A result that lies in no submission: its logs say of which benchmark and division it is."""
    logged = [known[path] for path in result.logs]
    benchmark = next((item.benchmark for item in logged if isinstance(item.benchmark, str)), result.benchmark)
    division = next((item.division for item in logged if isinstance(item.division, str)), "")
    return replace(result, benchmark=benchmark), division


def _together(answers: Sequence[str], fallen: bool) -> str:
    """The package checker's answer from those on the parts: the first fall ends it, any failure fails it."""
    return NONE if fallen or NONE in answers else FAIL if FAIL in answers else PASS


def _parameters(submitter: Submitter) -> tuple[list[Parameter], list[Finding]]:
    try:
        asked = params.read(submitter.folder, "root")
    except (OSError, UnicodeDecodeError) as error:
        shown = f"{submitter.name}/{params.PARAMS}"
        return [], [findings.silent("params-unreadable", WARNING, shown, "a text file", str(error))]
    return asked, [params.finding(item, _shown(submitter, item.path)) for item in asked if not item.counts]


def _layout(submitter: Submitter) -> list[Finding]:
    """What is wrong with the tree as a whole; the checker says nothing of most of it."""
    found = []
    results = submitter.folder / "results"
    shown = _shown(submitter, results)
    if not results.is_dir():
        text = f"FileNotFoundError: [Errno 2] No such file or directory: '{shown}'"
        found.append(Finding("results-missing", ERROR, shown, 0, "a folder results/", "none", text, "falls over"))
    elif not any(result.logs for result in submitter.results):
        found.append(findings.silent("results-empty", ERROR, shown, "result_*.txt of at least one result", "none"))
    for stray in submitter.strays:
        expected = "logs in results/<system>/<benchmark>, where the official tools look"
        found.append(findings.silent("logs-stray", WARNING, _shown(submitter, stray), expected, "result logs here"))
    return found


def _shown(submitter: Submitter, path: Path) -> str:
    return path.relative_to(submitter.folder.parent).as_posix()
