"""Where every result stands, from the files of the work root alone; nothing is written and no scheduler is asked.

One row a result and one word: `short` (runs are missing or not checked), `invalid` (the runs are there, and the rules
say no), `paperwork` (the runs stand; something else is open), `ready`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium import files, plan
from podium.config import Config
from podium.package import sources, system
from podium.package.archive import receipt_file
from podium.package.inspect import inspection_file
from podium.package.layout import manifest_file
from podium.package.sources import Source
from podium.report import clock
from podium.runs import launchers, ledger
from podium.runs.ledger import Attempt
from podium.verdict import kept

WORDS = ("short", "invalid", "paperwork", "ready")


@dataclass(frozen=True)
class Row:
    """Where one result stands.

    `done` attempts ended as runs, `counted` of them count, `needed` must; `running` and `queued` are the ids of jobs.
    `minutes` is the score, None while there is none; `forecast` says what it will be, and how likely the RCP test
    passes.
    `why` are the sentences behind `word`, `next` the command; `hours` is what the missing runs will take.
    """

    system: str
    benchmark: str
    root: str
    word: str
    done: int
    counted: int
    needed: int
    running: tuple[str, ...]
    queued: tuple[str, ...]
    failed: int
    not_converged: int
    rcp: str
    minutes: float | None
    forecast: Mapping[str, Any] | None
    data: bool
    image: bool
    open: tuple[str, ...]
    lint: int
    hours: float
    why: tuple[str, ...]
    next: str


@dataclass(frozen=True)
class Board:
    """All rows, what was made of them, and the clock: hours that the missing runs take and that are left."""

    rows: tuple[Row, ...]
    made: Mapping[str, str]
    inspection: str
    hours_needed: float | None
    hours_left: float | None
    next: tuple[str, ...]

    @property
    def fits(self) -> bool | None:
        """Whether the missing runs end before the deadline; None where that cannot be known."""
        return None if None in (self.hours_needed, self.hours_left) else self.hours_needed <= self.hours_left


def board(config: Config, now: datetime.datetime | None = None) -> Board:
    """The board of a config, and of those that it merges."""
    found = sources.sources(config)
    every = {source.name: ledger.attempts(source.folder) for source in found}
    attempts = {name: ledger.current(made) for name, made in every.items()}
    lint = _lint(config)
    rows = tuple(_row(source, every[source.name], lint) for source in found)
    now = now or datetime.datetime.now(datetime.UTC)
    left = None if config.package.deadline is None else (config.package.deadline - now).total_seconds() / 3600
    made = {
        "tree": plan.tree_folder(config),
        "receipt": receipt_file(config),
        "report": config.root / "reports" / "index.html",
    }
    return Board(
        rows=rows,
        made={name: str(path) for name, path in made.items() if path.exists()},
        inspection=_inspection(config),
        hours_needed=clock.needed(_by_system(rows, attempts)),
        hours_left=left,
        next=tuple(dict.fromkeys(row.next for row in rows if row.next)) or (_after(config),),
    )


def _by_system(
    rows: Sequence[Row], attempts: Mapping[str, Sequence[Attempt]]
) -> Iterator[tuple[float, Sequence[Attempt]]]:
    """For each system of each work root: the hours of its missing runs, and all its attempts."""
    for root, system_name in dict.fromkeys((row.root, row.system) for row in rows):
        mine = [row for row in rows if (row.root, row.system) == (root, system_name)]
        made = [attempt for row in mine for attempt in attempts[f"{row.system}/{row.benchmark}"]]
        yield sum(row.hours for row in mine), made


def _row(source: Source, every: Sequence[Attempt], lint: Sequence[str]) -> Row:
    config, item, attempts = source.config, source.item, ledger.current(every)
    outcomes = [attempt.outcome for attempt in attempts]
    done = sum(attempt.countable for attempt in attempts)
    running, queued = _jobs(source, attempts)
    verdict = kept.read(config, item)
    if verdict is not None and len(verdict["runs"]) != len(attempts):
        verdict = None  # it is of fewer or other attempts
    data = (plan.layout_folder(config, item.dataset) / "manifest.json").exists()
    image = source.image_file.exists()
    missing = _open(source)
    mine = [line for line in lint if f"/{source.name}/" in line or f"/{item.benchmark}/implementations/" in line]
    forecast = None if done >= item.attempts or done == 0 else _forecast(source, attempts)
    papers = [
        f"{name} is not there"
        for name, there in (("the data's manifest", data), ("the image's lock", image))
        if not there
    ]
    papers += [f"open description fields: {', '.join(missing)}"] if missing else []
    papers += [f"lint: {line}" for line in mine]
    word, why, following = _word(source, done, running, queued, verdict, papers, _broken(every))
    return Row(
        system=item.system.name,
        benchmark=item.benchmark,
        root=str(config.root),
        word=word,
        done=done,
        counted=len(verdict["counted"]) if verdict else 0,
        needed=item.attempts,
        running=running,
        queued=queued,
        failed=outcomes.count("failed") + outcomes.count("cancelled"),
        not_converged=outcomes.count("not_converged"),
        rcp=_rcp(config, verdict),
        minutes=verdict["score"]["minutes"] if verdict else None,
        forecast=forecast,
        data=data,
        image=image,
        open=missing,
        lint=len(mine),
        hours=clock.hours(source, attempts, item.attempts - done),
        why=tuple(why),
        next=following,
    )


def _word(
    source: Source,
    done: int,
    running: Sequence[str],
    queued: Sequence[str],
    verdict: Mapping[str, Any] | None,
    papers: Sequence[str],
    broken: Sequence[str],
) -> tuple[str, list[str], str]:
    """The word for a result, the sentences behind it, and the next command."""
    config, item = source.config, source.item
    check = kept.command(config, item)
    if broken:
        return "invalid", list(broken), check
    if done < item.attempts:
        going = f", {len(running)} running" if running else ""
        going += f", {len(queued)} queued" if queued else ""
        why = [f"{done} of {item.attempts} runs{going}"]
        following = "" if running or queued else f"snakemake --profile profiles/local --configfile {config.path}"
        return "short", [*why, *papers], following
    if verdict is None:
        return "short", ["not checked", *papers], check
    if verdict["verdict"] != "compliant":
        return "invalid", [*verdict["findings"], *verdict["official"]["messages"]], check
    if papers:
        describe = f"set them under systems.{item.system.name}.description in {config.path}"
        lint = f"podium lint {plan.tree_folder(config)} --round {config.submission.round}"
        workflow = f"snakemake --profile profiles/local --configfile {config.path}"
        paper = papers[0]
        return (
            "paperwork",
            list(papers),
            describe if paper.startswith("open") else lint if paper.startswith("lint") else workflow,
        )
    return "ready", [], ""


def _jobs(source: Source, attempts: Sequence[Attempt]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The ids of the jobs of attempts without a record: those that run, and those that wait."""
    running, queued = [], []
    for attempt in attempts:
        home = source.folder / str(attempt.number)
        if attempt.outcome != "open" or not (home / launchers.JOB).exists():
            continue
        job = files.read_json(home / launchers.JOB)
        states = source.config.root / "runs" / f".states-{job['launcher']}.json"
        phase = _states(states).get(job["id"], {}).get("phase", launchers.PENDING)
        begun = job["launcher"] == "local" or phase == launchers.RUNNING or launchers.nodes(home)
        (running if begun else queued).append(str(job["id"]))
    return tuple(running), tuple(queued)


def _states(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """What the last process that asked a scheduler was told."""
    try:
        return files.read_json(path)["states"]
    except (OSError, ValueError, KeyError):
        return {}


def _open(source: Source) -> tuple[str, ...]:
    if not source.description.exists():
        return ("all: the system is not described",)
    return tuple(_open_fields(source.description))


@functools.cache
def _open_fields(path: Path) -> list[str]:
    return system.open_fields(files.read_json(path))


def _broken(every: Sequence[Attempt]) -> list[str]:
    """What shows, without hashing a log, that attempts and ledger do not fit each other."""
    numbers = [attempt.number for attempt in every]
    return [f"attempt {number} was launched twice" for number in sorted(set(numbers)) if numbers.count(number) > 1]


def _rcp(config: Config, verdict: Mapping[str, Any] | None) -> str:
    """What the RCP test says of a checked result: pass or fail where it counts, else why it does not."""
    if verdict is None:
        return "-"
    if config.submission.division == "open":
        return "open"
    found = (verdict.get("result") or {}).get("rcp")
    return found["answer"] if found else "none"


def _forecast(source: Source, attempts: Sequence[Attempt]) -> dict[str, Any] | None:
    """What the first runs let expect; None before one has ended."""
    from podium.verdict.forecast import forecast
    from podium.verdict.reading import cache

    config, item = source.config, source.item
    logs = [source.folder / str(item_.number) / "result.txt" for item_ in attempts if item_.countable][: item.required]
    known = cache.digests(logs, config.submission.round, cache.place(config.root))
    case = forecast.case(source.name, item.benchmark, config.submission.division, config.submission.round, known)
    found = forecast.as_json(case, ())
    return {"score_minutes": found["score_minutes"], "probability": found["probability"]}


def _lint(config: Config) -> list[str]:
    """What lint said of the tree when it was last inspected."""
    path = inspection_file(config)
    return files.read_json(path).get("lint", []) if path.exists() else []


def _inspection(config: Config) -> str:
    """What the last inspection said, and whether it was of the tree that is there."""
    path, packed = inspection_file(config), manifest_file(config)
    if not path.exists() or not packed.exists():
        return "not packed" if not packed.exists() else "not inspected"
    known = files.read_json(path)
    if known["tree"] != files.read_json(packed)["sha256"]:
        return "packed anew since it was inspected"
    stopped = known["stopped_by"]
    return f"{known['verdict']} with {known['round']} ({known['checker']})" + (
        f": {', '.join(stopped)}" if stopped else ""
    )


def _after(config: Config) -> str:
    if config.submission.demo:
        return "copy config/examples/submission.yaml, describe your systems in it, and run it the same way (README.md)"
    if receipt_file(config).exists() and config.inhouse:
        return f"compare: {config.root / 'reports' / 'scores.json'} has the scores; they are no MLPerf results"
    if not receipt_file(config).exists():
        return f"snakemake --profile profiles/local --configfile {config.path}"
    to = f" --to {config.package.upload}" if config.package.upload else " --to s3://BUCKET/PREFIX"
    return f"podium upload{to} --config {config.path}"
