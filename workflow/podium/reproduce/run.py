"""k runs of a published result on my system: one job each, by the launcher of the config, with a seed of its own."""

from __future__ import annotations

import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, progress
from podium.config import Config, System
from podium.errors import BadEnvironment, BadInput
from podium.reproduce import discover, drive, prepare, sandbox
from podium.reproduce.drive import Drive
from podium.reproduce.folder import Folder
from podium.reproduce.plan import Plan
from podium.reproduce.shims.policy import Policy
from podium.reproduce.styles import plain
from podium.runs import launchers
from podium.runs.launchers import ENDED, JOB, OUTPUT, Job
from podium.verdict.reading import logs

RECORD, RESULT = "run.json", "result.txt"
POLL = 0.2  # seconds
CONTAINERS = {  # styles: the engines that can stand for the program they call
    "docker": ("docker", "podman", "process"),
    "amd": ("docker", "podman", "process"),
    "enroot": ("enroot", "process"),
    "apptainer": ("apptainer", "process"),
    "process": ("process",),
}


def home(config: Config, made: Plan) -> Path:
    """Where everything of a reproduced result lies."""
    return (config.root / "reproduce" / made.submitter / made.system / made.benchmark).absolute()


def check(made: Plan, item: discover.Implementation, system: System) -> None:
    """Raise BadInput for a plan that cannot be run here, with every reason."""
    reasons = [made.refused] if made.refused else list(made.lacks)
    started = made.start[-1].removeprefix("./") if made.start else ""
    style = next((way for way in item.ways if way.entry == started), item.style)
    engines = CONTAINERS[style.engine]
    if not made.refused and made.image.kind == "none" and system.engine != "process":
        reasons.append(f"it has no image: engine process is needed, not {system.engine}")
    elif not made.refused and system.engine not in engines:
        reasons.append(f"engine {system.engine} cannot run style {made.style}: one of {', '.join(engines)} is needed")
    reasons += [f"{need.variable}: {need.files or 'data'} not at {need.place or 'any place'} ({need.command})"
                for need in made.data if not need.prepared]  # fmt: skip
    if reasons:
        raise BadInput(
            f"{made.submitter}/{made.system}/{made.benchmark} cannot be run on {system.name}",
            "a plan that lacks nothing",
            "\n            ".join(reasons),
            "podium reproduce … --plan shows it; --nodes and --gpus look for another size",
        )


def runs(config: Config, system: System, made: Plan, item: discover.Implementation, tree: Path) -> list[Path]:
    """Make sure that each wanted run has ended and left its log; the logs. Interrupted, it goes on where it was."""
    area = home(config, made)
    check(made, item, system)
    folder = prepare.code(tree, made, area / "code")
    programs = prepare.programs(config, system, made, folder)
    image = prepare.image(system.engine, made, tree, area)
    found = []
    for number in progress.bar(range(made.runs), f"runs of {made.benchmark}", made.runs, "run"):
        place = area / str(number)
        _run(config, system, made, folder, programs, image, place)
        found.append(place / RESULT)
    return found


def _run(
    config: Config, system: System, made: Plan, folder: Folder, programs: tuple[str, ...], image: str, place: Path
) -> None:
    """One run, from wherever an earlier call left it; raises BadEnvironment where it ends without a log."""
    launcher = launchers.of(config, system)
    wanted = prepare.fingerprint(made, folder)
    if (place / drive.SETTINGS).exists() and drive.load(place).fingerprint != wanted:
        _aside(place, "old")
    if (place / RECORD).exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    if not (place / JOB).exists():
        seed = secrets.randbelow(1 << 31)
        drive.save(_drive(config, system, made, folder, programs, image, place, seed), place)
    settings = drive.load(place)
    job = Job(
        name=f"podium-reproduce-{files.hash_json(str(place))[:12]}",
        folder=place,
        command=lambda cores, gpus: [*_python(), "-m", "podium.reproduce.drive", str(place)],
        nodes=made.wants.nodes,
        gpus=made.wants.gpus,
        threads=system.threads,
        minutes=settings.minutes + 5,
    )
    stored = files.read_json(place / JOB)["id"] if (place / JOB).exists() else None
    id = stored or launcher.submit(job)
    started = files.now()
    _wait(launcher, id, place)
    record = _collect(made, place, settings, started)
    files.write_json(place / RECORD, record)
    if record["minutes"] is None:
        raise _failed(made, _aside(place), record)


def _aside(place: Path, why: str = "failed") -> Path:
    """A run that was none, or is of another plan, is kept under another name: the same command makes a new one."""
    number = 1
    while (kept := place.with_name(f"{place.name}.{why}{number}")).exists():
        number += 1
    return place.rename(kept)


def _python() -> list[str]:
    workflow = str(configuration.WORKFLOW)
    return ["env", f"PYTHONPATH={workflow}", sys.executable]


def _wait(launcher: launchers.Launcher, id: str, place: Path) -> None:
    try:
        while launchers.exit_status(place) is None:
            if launcher.states([id])[id].phase == ENDED and launchers.exit_status(place) is None:
                time.sleep(1)
                return
            time.sleep(max(POLL, launcher.interval))
    except KeyboardInterrupt:
        launcher.cancel(id)
        raise


def _drive(
    config: Config,
    system: System,
    made: Plan,
    folder: Folder,
    programs: tuple[str, ...],
    image: str,
    place: Path,
    seed: int,
) -> Drive:
    data = tuple(need.place for need in made.data if need.place)
    logs_ = str(place / drive.LOGS)
    engine = system.engine
    identity = {name: value for name, value in made.environment.items() if name.startswith("MLPERF_")}
    always = {**identity, "SEED": str(seed), "SEED_BASE": str(seed)}
    given = {**made.environment, **always, "LOGDIR": logs_, "DATESTAMP": "run", "USER": "podium"}
    given |= {"CONT": image} if image else {}
    given |= {"LOGNAME": "podium", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(made.wants.gpus)))}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        given.setdefault(name, str(system.threads))
    policy = Policy(
        engine=engine,
        image=image,
        code=str(folder.place),
        workdir=prepare.workdir(folder),
        read=(*data, str(folder.root)),
        write=(logs_,),
        always=always,
        prefix=f"podium-{files.hash_json(str(place))[:10]}-",
        network=config.reproduce.network,
        gpus=made.wants.gpus,
        memory_gigabytes=config.reproduce.memory_gigabytes,
        programs=programs,
        slurm=system.launcher == "slurm",
        shims=(str(place / drive.SHIMS), *drive.python()),
        path=f"{programs[0]}/bin:{sandbox.PATH}" if programs else "",
    )
    bare = made.start[-1].removeprefix("./") in plain.NAMES and "docker" not in folder.code(made.start[-1])
    script = _script(made, given, policy, bare and engine in ("docker", "podman") and bool(image))
    minutes = config.reproduce.time_limit_minutes or made.limit_minutes
    return Drive(
        script,
        str(folder.place),
        (*data, str(folder.root), *programs),
        (),
        {},
        minutes,
        policy,
        prepare.fingerprint(made, folder),
    )


def _script(made: Plan, given: Mapping[str, str], policy: Policy, contained: bool) -> str:
    """What a person would type: the config first, then what must win over it, then the start script."""
    lines = ["export NEXP=1"]
    if made.config:
        every = "set -a; " if made.config.endswith(".env") else ""
        lines += [f"{every}source {shlex.quote('./' + made.config)}; set +a"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    if contained:
        # Nobody starts a container for the bare contract: the broker is asked for one that sees what the script names.
        words = ["docker", "run", "--rm", *(f"--env={name}" for name in {**made.exports, **given})]
        words += [f"--volume={path}:{path}" for path in (*policy.read, *policy.write)]
        return "\n".join([*lines, shlex.join(["exec", *words, policy.image, "bash", made.start[-1]])]) + "\n"
    lines += [f"export PATH={shlex.quote(policy.programs[0])}/bin:$PATH"] if policy.programs else []
    # Inside of our own job their batch script is no job script any more: its #SBATCH lines are comments.
    lines += [f"exec bash {shlex.quote(made.start[-1])}"]
    return "\n".join(lines) + "\n"


def _collect(made: Plan, place: Path, settings: Drive, started: str) -> dict[str, Any]:
    """The run's log: the newest file in LOGDIR with MLLOG lines, else what the scripts printed."""
    candidates = sorted((place / drive.LOGS).rglob("*"), key=lambda path: path.stat().st_mtime, reverse=True)
    token = logs.TOKEN.encode()
    places = (path for path in (*candidates, place / OUTPUT) if path.is_file())
    chosen = next((path for path in places if token in path.read_bytes()), None)
    with files.writing(place / RESULT) as writer:
        if chosen is not None:
            with chosen.open("rb") as reader:
                shutil.copyfileobj(reader, writer)
    run = logs.read(place / RESULT)
    return {
        "seed": int(settings.policy.always["SEED"]),
        "started": started,
        "stopped": files.now(),
        "exit_status": launchers.exit_status(place),
        "minutes": run.minutes,
        "converged": run.converged,
        "log": str(chosen.relative_to(place)) if chosen else None,
        "sha256": files.hash_file(place / RESULT),
    }


def _failed(made: Plan, place: Path, record: Mapping[str, Any]) -> BadEnvironment:
    output = place / OUTPUT
    last = output.read_text(encoding="utf-8", errors="replace").splitlines()[-8:] if output.exists() else []
    return BadEnvironment(
        f"run {place.name} of {made.submitter}/{made.system}/{made.benchmark} left no log of a run",
        "MLLOG lines with run_start and run_stop",
        "\n    ".join([f"exit status {record['exit_status']}; the last lines of {output}:", *last]),
        f"mend the cause and run the same command again; {place / drive.CALLS} tells what its scripts asked for",
    )
