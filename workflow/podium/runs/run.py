"""`podium run`: one wanted run of a result, launched, watched, recorded.

Run again, it does nothing where the run is recorded, waits again for one that is still going on, and launches a new
attempt only where the last one failed or was made with another image, other data or another config.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import platform
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.data.verify import problems, refuse_subset
from podium.errors import BadEnvironment, BadInput, Findings, PodiumError
from podium.images import engines, lock
from podium.images.engines import choose
from podium.images.lock import Image
from podium.plan import Plan
from podium.runs import contract, cores, ledger
from podium.runs.launchers import local
from podium.runs.ledger import Attempt
from podium.verdict import attempts, logs

POLL = 0.1  # seconds between two looks at a running attempt
STAMP = "stamp.json"  # Snakemake's output: it deletes its outputs before a job, which must never befall a record


def run(config: Config, wanted: Plan, number: int) -> Attempt:
    """Make sure that run `number` (from 0) of a result is recorded; returns its countable attempt.

    Raises BadInput for data or an image that is not what it must be, BadEnvironment for an attempt that failed for
    another cause than its training.
    """
    folder = plan.result_folder(config, wanted)
    engine, image = choose.runner(wanted.system.engine, lock.read(plan.image_file(config, wanted)))
    data = plan.layout_folder(config, wanted.dataset)
    content = _checked_data(config, wanted, data)
    # What a log carries or was made with: change any of it, and the run is another run.
    who = (*asdict(config.submission).values(), wanted.system.name)
    fingerprint = files.hash_json((image.reference, content.sha256, wanted.result.config, *who))
    with files.locked(folder / f".run-{number}.lock"):
        known = [item for item in ledger.attempts(folder) if (item.wanted, item.fingerprint) == (number, fingerprint)]
        for attempt in known:
            if attempt.countable:
                return attempt
            if attempt.outcome == "open" and (folder / str(attempt.number) / "job.json").exists():
                return _finish(config, wanted, image, content, attempt)
        if wanted.result.stop_when_lost and (why := attempts.lost(config, wanted, fingerprint)):
            raise _lost(config, wanted, number, why)
        files.need_space(folder, 50_000_000, "the log of a run")
        attempt = ledger.launch(folder, number, fingerprint, first_free=wanted.attempts)
        for failed in known:
            print(
                f"run {wanted.benchmark} {number}: attempt {failed.number} was {failed.outcome}, now {attempt.number}"
            )
        _launch(config, wanted, engine, image, data, folder / str(attempt.number), attempt)
        return _finish(config, wanted, image, content, attempt)


def _checked_data(config: Config, wanted: Plan, data: Path) -> manifest.Manifest:
    """The data's manifest, after a quick look at names and sizes: training on half a data set costs more."""
    if not (data / manifest.NAME).exists():
        raise BadInput(
            f"{wanted.dataset.name} is not prepared",
            f"layout {wanted.dataset.layout} in {data}",
            "nothing",
            f"podium prepare {wanted.dataset.name} --config {config.path}",
        )
    if found := problems(wanted.dataset.name, data, wanted.dataset.layout, "quick"):
        raise BadInput(
            f"{data} is not what was prepared",
            "the files of its manifest",
            "; ".join(found[:5]),
            f"podium verify {wanted.dataset.name} --config {config.path}",
        )
    content = manifest.read(data)
    refuse_subset(config, wanted.dataset, content)
    return content


def _launch(
    config: Config, wanted: Plan, engine: str, image: Image, data: Path, folder: Path, attempt: Attempt
) -> None:
    logs_folder = folder / "logs"
    logs_folder.mkdir(exist_ok=True)
    files.write_json(folder / "environment.json", {**_environment(image), "engine": engine})
    taken = cores.take(wanted.system.threads)
    command = engines.of(engine).command(
        engines.Run(
            image=image,
            config=wanted.result.config,
            environment=contract.environment(config, wanted, attempt.seed),
            mounts=contract.mounts(data, logs_folder),
            name=engines.name(folder),
            gpus=tuple(range(wanted.system.gpus_per_node)),
            devices=wanted.system.devices,
            cores=taken.numbers,
        )
    )

    def stored(id: local.Id) -> None:
        facts = {"launcher": "local", "id": id.as_json(), "started": _now(), "cores": taken.numbers, "engine": engine}
        files.write_json(folder / "job.json", facts)

    local.submit(folder, command, taken, stored)


def _finish(config: Config, wanted: Plan, image: Image, content: manifest.Manifest, attempt: Attempt) -> Attempt:
    """Wait for a launched attempt, from whichever process launched it, and record how it ended."""
    folder = plan.result_folder(config, wanted)
    home = folder / str(attempt.number)
    job = files.read_json(home / "job.json")
    id = local.Id(**job["id"])
    cause = _wait(wanted, attempt, id, home, wanted.result.time_limit_minutes)
    _collect(home)
    log = logs.read(home / "result.txt")
    status = local.exit_status(home)
    if cause or status is None:  # a container does not end with the client that started it
        engines.end(job["engine"], engines.name(home), local.GRACE)
    outcome = cause or ("failed" if log.minutes is None else "converged" if log.converged else "not_converged")
    facts = {
        "attempt": attempt.number,
        "wanted": attempt.wanted,
        "system": wanted.system.name,
        "benchmark": wanted.benchmark,
        "implementation": wanted.implementation,
        "config": wanted.result.config,
        "round": config.submission.round,
        "seed": attempt.seed,
        "fingerprint": attempt.fingerprint,
        "image": image.reference,
        "data": content.sha256,
        "nodes": [id.host],
        "job": job["id"],
        "started": job["started"],
        "stopped": _now(),
        "exit_status": status,
        "outcome": outcome,
        "quality": log.evaluations[-1].value if log.evaluations else None,
        "minutes": log.minutes,
        "log": {"bytes": (home / "result.txt").stat().st_size, "sha256": files.hash_file(home / "result.txt")},
    }
    closed = ledger.close(folder, attempt, facts)
    _tell(wanted, attempts.landed(config, wanted, closed))
    if not closed.countable:
        raise _failure(config, wanted, closed, home)
    return closed


def _wait(wanted: Plan, attempt: Attempt, id: local.Id, home: Path, limit: float) -> str | None:
    """Wait until the run has ended; "cancelled" when this process was told to stop, "failed" past the time limit."""
    begun = time.monotonic()
    told = begun
    with _terminated_as_interrupt():
        try:
            while local.alive(id):
                time.sleep(POLL)
                now = time.monotonic()
                if now - told > 60:
                    told = now
                    minutes = (now - begun) / 60
                    print(f"run {wanted.benchmark} {attempt.wanted}: {_progress(home)}, {minutes:.0f} min", flush=True)
                if now - begun > limit * 60:
                    local.cancel(id)
                    return "failed"
        except KeyboardInterrupt:
            local.cancel(id)
            return "cancelled"
    return None


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """A workflow that is told to stop ends its jobs by SIGTERM: take it as Ctrl-C, so that the run is ended too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _progress(home: Path) -> str:
    """How far a run is, from its own log."""
    log = home / "logs" / "mllog.txt"
    if not log.exists():
        return "no log line yet"
    evaluations = logs.read(log).evaluations
    return f"quality {evaluations[-1].value:.4g} at {evaluations[-1].epoch:g}" if evaluations else "no evaluation yet"


def _collect(home: Path) -> None:
    """The result log: the file with MLLOG lines in LOGDIR, or what the run printed."""
    candidates = [*sorted((home / "logs").rglob("*")), home / local.OUTPUT]
    chosen = next((path for path in candidates if path.is_file() and logs.TOKEN.encode() in path.read_bytes()), None)
    with files.writing(home / "result.txt") as writer:
        if chosen is not None:
            with chosen.open("rb") as reader:
                shutil.copyfileobj(reader, writer)


def _tell(wanted: Plan, verdict: Mapping[str, Any]) -> None:
    """Say at once what the rules of the round say of an attempt that has ended."""
    words = "complies" if verdict["compliant"] else "does not comply"
    told = [f"\n  {line}" for message in verdict["messages"] for line in message.splitlines()[:1]]
    place = f"{wanted.system.name}/{wanted.benchmark} attempt {verdict['attempt']}"
    print(f"check {place}: {words}{''.join(told)}", file=sys.stderr)


def _lost(config: Config, wanted: Plan, number: int, why: str) -> PodiumError:
    return BadInput(
        f"run {number} of {wanted.benchmark} on {wanted.system.name} is not launched: the result is lost",
        "a result that its remaining runs can still make valid",
        why,
        f"mend the cause and make all runs anew; or unset stop_when_lost in {config.path}",
    )


def _failure(config: Config, wanted: Plan, attempt: Attempt, home: Path) -> PodiumError:
    """Why a run did not end as a training does: told apart by its log, not by its exit status alone."""
    again = (
        f"podium run --system {wanted.system.name} --benchmark {wanted.benchmark} --attempt {attempt.wanted} "
        f"--config {config.path} launches a new attempt; this one stays in the ledger"
    )
    output = home / local.OUTPUT
    last = output.read_text(encoding="utf-8", errors="replace").splitlines()[-8:] if output.exists() else []
    found = f"{attempt.outcome}, exit status {attempt.record['exit_status']}; the last lines of {output}:"
    return BadEnvironment(
        f"attempt {attempt.number} of {wanted.benchmark} on {wanted.system.name} is no run",
        "a log with run_start and run_stop",
        "\n    ".join([found, *last]),
        again,
    )


def _environment(image: Image) -> dict[str, Any]:
    """What the run ran on, beside the system description."""
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": image.python,
        "image": image.reference,
        "packages": dict(image.packages),
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _stamp(config: Config, wanted: Plan, number: int, attempt: Attempt) -> None:
    """Tell the workflow that run `number` is recorded, and where."""
    path = plan.result_folder(config, wanted) / str(number) / STAMP
    files.write_json(path, {"attempt": attempt.number, "outcome": attempt.outcome, "fingerprint": attempt.fingerprint})


def _line(wanted: Plan, number: int, record: Mapping[str, Any]) -> str:
    quality = "no evaluation" if record["quality"] is None else f"quality {record['quality']:.4g}"
    return (
        f"run {wanted.system.name}/{wanted.benchmark} {number + 1}/{wanted.attempts}: {record['outcome']}, "
        f"{quality}, {record['minutes'] * 60:.1f} s, seed {record['seed']}"
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--system", required=True)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--attempt", type=int, required=True, help="which of the wanted runs, from 0")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium run --system S --benchmark B --attempt I`: status 1 for a run that did not reach its target."""
    config = configuration.load(args.config)
    wanted = plan.of(config, args.system, args.benchmark)
    if not 0 <= args.attempt < wanted.attempts:
        expected = f"0 to {wanted.attempts - 1}"
        raise BadInput(f"no run {args.attempt} of {wanted.benchmark}", expected, str(args.attempt), "podium plan")
    attempt = run(config, wanted, args.attempt)
    _stamp(config, wanted, args.attempt, attempt)
    print(json.dumps(attempt.record) if args.json else _line(wanted, args.attempt, attempt.record))
    sys.stdout.flush()
    if attempt.outcome == "not_converged":
        raise Findings(
            f"run {args.attempt} of {wanted.benchmark} did not converge",
            "run_stop with status success",
            f"quality {attempt.record['quality']} when it stopped (attempt {attempt.number})",
            "nothing to redo: it counts as it is; `podium check` says whether the result still stands",
        )
    return 0
