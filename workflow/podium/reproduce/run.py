"""k runs of a published result on my system: one job each, by the launcher of the config, with a seed of its own."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from podium import config as configuration
from podium import files, progress
from podium.config import Config, System
from podium.errors import BadEnvironment, BadInput
from podium.images import environment
from podium.reproduce import discover, drive, sandbox, source_config
from podium.reproduce.drive import Drive
from podium.reproduce.folder import Folder, leaving
from podium.reproduce.plan import Plan
from podium.reproduce.shims.policy import Policy
from podium.runs import launchers
from podium.runs.launchers import ENDED, JOB, OUTPUT, Job
from podium.verdict.reading import logs

RECORD, RESULT = "run.json", "result.txt"
LARGEST = 4 << 30  # bytes of code that are copied
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
    if not made.refused and system.engine not in engines:
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


def code(tree: Path, made: Plan, at: Path) -> Folder:
    """Copy the code of the benchmark, without links that leave it and with plain line ends; its folder."""
    parts = Path(made.code).parts
    top = Path(*parts[: min(3, len(parts) - 1) or 1])
    size = sum(path.stat().st_size for path in (tree / top).rglob("*") if path.is_file() and not path.is_symlink())
    if size > LARGEST:
        expected = f"at most {LARGEST >> 30} GB of code"
        raise BadInput(f"{top} is too large", expected, f"{size / 1e9:.1f} GB", f"du -sh {tree / top}")
    sums = at.with_name(f"{at.name}.json")
    contents = _sums(tree / top)
    folder = Folder(at, PurePosixPath(Path(made.code).relative_to(top).as_posix()))
    if at.is_dir() and sums.exists() and files.read_json(sums) == contents:
        return folder  # runs may be going on in it
    files.need_space(at.parent, size, "the copy of their code")
    with files.replacing(at) as fresh:
        shutil.copytree(tree / top, fresh, symlinks=True, ignore=_special, dirs_exist_ok=True)
        for name in leaving(fresh):
            (fresh / name).unlink()
    mended = Folder(tree, PurePosixPath(made.code))
    if made.config:
        source_config.copied(mended, made.config, folder.place)
    files.write_json(sums, contents)
    return folder


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes, sockets and devices: nothing that code is made of."""
    places = {name: Path(folder, name) for name in names}
    return [name for name, path in places.items() if not (path.is_symlink() or path.is_file() or path.is_dir())]


def _sums(folder: Path) -> dict[str, str]:
    """The sha256 of every regular file; links are told, never followed."""
    found = {}
    for name in files.walk(folder):
        path = folder / name
        if path.is_symlink():
            found[name.as_posix()] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name.as_posix()] = files.hash_file(path)
    return found


def runs(config: Config, system: System, made: Plan, item: discover.Implementation, tree: Path) -> list[Path]:
    """Make sure that each wanted run has ended and left its log; the logs. Interrupted, it goes on where it was."""
    area = home(config, made)
    check(made, item, system)
    folder = code(tree, made, area / "code")
    programs = _programs(config, system, made, folder)
    if made.image.reference and system.engine in ("docker", "podman"):
        _image(system.engine, made, tree)
    found = []
    for number in progress.bar(range(made.runs), f"runs of {made.benchmark}", made.runs, "run"):
        place = area / str(number)
        _run(config, system, made, folder, programs, place)
        found.append(place / RESULT)
    return found


def _run(config: Config, system: System, made: Plan, folder: Folder, programs: tuple[str, ...], place: Path) -> None:
    launcher = launchers.of(config, system)
    wanted = fingerprint(made, folder)
    if (place / drive.SETTINGS).exists() and drive.load(place).fingerprint != wanted:
        _aside(place, "old")
    if (place / RECORD).exists():
        return
    place.mkdir(parents=True, exist_ok=True)
    if not (place / JOB).exists():
        seed = secrets.randbelow(1 << 31)
        drive.save(_drive(config, system, made, folder, programs, place, seed), place)
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


def fingerprint(made: Plan, folder: Folder) -> str:
    """What a run is made with, as a hash: the code, the config's exports, what is set after it, the image."""
    sums = files.read_json(folder.root.with_name(f"{folder.root.name}.json"))
    return files.hash_json((sums, made.exports, made.environment, made.image.reference, made.start))


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
    config: Config, system: System, made: Plan, folder: Folder, programs: tuple[str, ...], place: Path, seed: int
) -> Drive:
    data = tuple(need.place for need in made.data if need.place)
    logs_ = str(place / drive.LOGS)
    engine = system.engine
    identity = {name: value for name, value in made.environment.items() if name.startswith("MLPERF_")}
    always = {**identity, "SEED": str(seed), "SEED_BASE": str(seed)}
    given = {**made.environment, **always, "LOGDIR": logs_, "DATESTAMP": "run", "USER": "podium"}
    given |= {"LOGNAME": "podium", "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(made.wants.gpus)))}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        given.setdefault(name, str(system.threads))
    policy = Policy(
        engine=engine,
        image=made.image.reference,
        code=str(folder.place),
        workdir=_workdir(folder),
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
    script = _script(made, given, policy.path)
    minutes = config.reproduce.time_limit_minutes or made.limit_minutes
    return Drive(
        script,
        str(folder.place),
        (*data, str(folder.root), *programs),
        (),
        {},
        minutes,
        policy,
        fingerprint(made, folder),
    )


def _script(made: Plan, given: Mapping[str, str], path: str) -> str:
    """What a person would type: the config first, then what must win over it, then the start script."""
    lines = ["export NEXP=1"]
    if made.config:
        every = "set -a; " if made.config.endswith(".env") else ""
        lines += [f"{every}source {shlex.quote('./' + made.config)}; set +a"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    lines += [f"export PATH={shlex.quote(path)}"] if path and made.image.kind == "none" else []
    # Inside of our own job their batch script is no job script any more: its #SBATCH lines are comments.
    lines += [f"exec bash {shlex.quote(made.start[-1])}"]
    return "\n".join(lines) + "\n"


def _workdir(folder: Folder) -> str:
    """Where the image has the code: the last WORKDIR of its Dockerfile."""
    found = re.findall(r"(?mi)^\s*WORKDIR\s+(/\S*)", folder.text("Dockerfile"))
    return found[-1].rstrip("/") if found else "/workspace/code"


def _programs(config: Config, system: System, made: Plan, folder: Folder) -> tuple[str, ...]:
    """A virtual environment for code that brings requirements but no container here, with the Python it is of."""
    if system.engine != "process" or "requirements.txt" not in folder.names():
        return ()
    requirements = environment.read_requirements(folder.place / "requirements.txt")
    if not requirements:
        return ()
    venv = environment.environment(config.root, requirements, cpu_only=system.gpus_per_node == 0)
    return (str(venv.absolute()), *drive.python())


def _image(engine: str, made: Plan, tree: Path) -> None:
    """Build or pull what is not there yet."""
    asked = [engine, "image", "inspect", made.image.reference]
    if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
        return
    for words in made.image.commands(str(tree)):
        print(f"+ {shlex.join(words)}", file=sys.stderr)
        if subprocess.run([engine, *words[1:]], check=False).returncode:
            thing = f"no image for {made.submitter}/{made.benchmark}"
            raise BadEnvironment(thing, made.image.reference, "the command failed", shlex.join(words))


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
