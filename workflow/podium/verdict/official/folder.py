"""What the package checker does to a result folder, step by step, in its order and its words
(package_checker.check_training_result_files)."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podium.verdict import findings
from podium.verdict.findings import ERROR, WARNING, Finding
from podium.verdict.official import params, power, rcptest, seeds
from podium.verdict.official.compliance import Message
from podium.verdict.official.hearing import Hearing
from podium.verdict.official.rcptest import Outcome
from podium.verdict.reading.digest import Digest
from podium.verdict.tree import Result


@dataclass(frozen=True)
class Options:
    """What the submission asks the checker for: in its root as flags, in the folders below as params files."""

    rcp_bypass: bool = False
    seeds_bypass: bool = False
    train_samples: bool = False


@dataclass(frozen=True)
class Case:
    """A result before the checker: the logs that it sees with what is known of them, and how things are written."""

    result: Result
    logs: tuple[Path, ...]
    known: Mapping[Path, Digest]
    round: str
    required: int

    @property
    def digests(self) -> list[tuple[str, Digest]]:
        return [(self.result.shown(path), self.known[path]) for path in self.logs]

    @property
    def listed(self) -> list[tuple[str, Digest]]:
        """In the order in which the file system lists the logs: that is how the RCP checker takes them, and where one
        has no batch size its answer depends on it."""
        order = {name: place for place, name in enumerate(path.name for path in self.result.folder.iterdir())}
        return [
            (self.result.shown(path), self.known[path]) for path in sorted(self.logs, key=lambda path: order[path.name])
        ]


def hear(hearing: Hearing, case: Case, closed: bool, options: Options, way: str) -> tuple[Hearing, Hearing, Outcome]:
    """Everything that the checker does to a folder; the hearings of seeds and RCP also where they do not count."""
    _count(hearing, case)
    wrong = comply(hearing, case)
    if power_folder := case.result.other("power"):
        shown = case.result.shown(power_folder)
        wrong |= power.check(hearing, power_folder, case.logs, case.round, shown)
    _tolerate(hearing, case, wrong)
    seeded, compared = Hearing(), Hearing()
    _seed(seeded, case, options.seeds_bypass)
    outcome = rcptest.test(compared, case.round, case.listed, way, options.rcp_bypass, case.result.shown())
    if closed:
        hearing.join(seeded)
        if case.result.benchmark != "minigo":
            hearing.join(compared)
    return seeded, compared, outcome


def seen(result: Result, hearing: Hearing) -> tuple[Path, ...]:
    """The logs that the checker sees: it takes the name of the folder for a pattern, so [, ] and * hide them."""
    shown = result.shown()
    if not glob.has_magic(shown):
        return result.logs
    base = glob.escape(str(result.folder).removesuffix(shown))
    found = tuple(Path(path) for path in sorted(glob.glob(f"{base}{shown}/result_*.txt")))  # noqa: PTH207 - its answer is asked
    seen = tuple(path for path in result.logs if path in found)
    if seen != result.logs:
        told = f"{len(result.logs)} logs, of which the checker finds {len(seen)}"
        hearing.found.append(findings.silent("name-pattern", ERROR, shown, "no [ ] * ? in names", told))
    return seen


def _count(hearing: Hearing, case: Case) -> None:
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


def comply(hearing: Hearing, case: Case) -> set[str]:
    """Each log by the rules of the round; the names of those that do not comply, for the caller to weigh."""
    wrong = set()
    for path in case.logs:
        digest = case.known[path]
        hearing.said += [f"WARNING: {text.strip()}" for text in digest.messages()]
        if digest.fall is not None:
            hearing.fall(findings.of_fall(digest.fall, case.result.shown(path)))
        elif not digest.compliant:
            wrong.add(path.stem)
    return wrong


def _tolerate(hearing: Hearing, case: Case, wrong: set[str]) -> None:
    """Some logs may fail (olympic scoring drops them); then their errors weigh no more than warnings."""
    unet3d = case.result.benchmark == "unet3d"
    accepted = 0 < len(wrong) <= (4 if unet3d else 1)
    explain(hearing, case, WARNING if accepted else ERROR)
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


def explain(hearing: Hearing, case: Case, level: str) -> None:
    """A finding for everything that is said of a log; errors weigh as `level` says."""
    for path in case.logs:
        digest, shown = case.known[path], case.result.shown(path)
        hearing.found += [findings.of_message(message, shown, level) for message in _explained(digest)]
        hearing.found += [findings.of_message(message, shown, WARNING) for message in digest.warnings]


def _seed(hearing: Hearing, case: Case, bypass: bool) -> None:
    if bypass:
        return
    runs = [(path, digest.seeds) for path, digest in case.digests]
    try:
        errors = seeds.check(runs)
    except TypeError as error:
        text = f"TypeError: {error}"
        found = "an object or a list"
        shown = case.result.shown()
        hearing.fall(
            Finding("seed-unreadable", ERROR, shown, 0, "file and lineno as text and number", found, text, "falls over")
        )
        return
    for path, found in runs:
        if len(found.found) > 1:
            numbers = ", ".join(str(seed.value) for seed in found.found[:8])
            hearing.found.append(findings.silent("seed-several", WARNING, path, "one seed for each run", numbers))
    if errors:
        texts = "\n".join(message.text for _, message in errors)
        hearing.fail(
            f"Seed checker failed and found the following errors: {texts}",
            # Where a log cannot be read at all, that is told already.
            *(
                findings.of_message(message, runs[index][0])
                for index, message in errors
                if case.digests[index][1].fall is None or message.kind != "seed-unreadable"
            ),
        )
        hearing.fail("Seed checker failed")


def _explained(digest: Digest) -> list[Message]:
    """The errors of a log, each broken line as one of its own."""
    lines = [
        Message(f"{item.text[:500]}\n  ^^  {item.why}", "log-json", "", item.line, "JSON after the token", item.why)
        for item in digest.broken
        if digest.compliant is not None
    ]
    return [*lines, *(message for message in digest.errors if message.kind != "log-json")]
