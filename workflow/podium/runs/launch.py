"""An attempt brought onto its machines: what is checked before, what is written down, what the launcher is told."""

from __future__ import annotations

import inspect
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from podium import files, manifest, plan
from podium.config import Config, System
from podium.data.verify import problems, refuse_unofficial
from podium.errors import BadEnvironment, BadInput
from podium.images import engines, lock
from podium.images.engines import choose, enroot
from podium.images.lock import Image
from podium.plan import Plan
from podium.runs import allreduce, contract, events, preflight
from podium.runs.launchers import Job, Launcher
from podium.runs.ledger import Attempt


@dataclass(frozen=True)
class Made:
    """What the runs of a result are made with; `fingerprint` names it: change any of it, and a run is another run's."""

    engine: str
    image: Image
    data: Path
    content: manifest.Manifest
    fingerprint: str


def made_with(config: Config, wanted: Plan) -> Made:
    """The image and the data of a result; raises BadInput where one is not what it must be."""
    engine, image = wanted.system.engine, lock.read(plan.image_file(config, wanted))
    # A store of the head node is none of the nodes', which preflight looks at; files and snapshots are the same for
    # all.
    if wanted.system.launcher == "local" or engine not in choose.BUILDERS:
        engine, image = choose.runner(engine, image)
    data = plan.data_folder(config, wanted.dataset)
    content = _checked_data(config, wanted)
    # What a log carries or was made with.
    who = (*asdict(config.submission).values(), wanted.system.name, *wanted.result.environment.items())
    fingerprint = files.hash_json((image.reference, content.sha256, wanted.result.config, *who))
    return Made(engine, image, data, content, fingerprint)


def start(config: Config, wanted: Plan, made: Made, attempt: Attempt, launcher: Launcher) -> str:
    """Hand an attempt of the ledger to the launcher, or find it where that was begun before; returns the id."""
    home = (plan.result_folder(config, wanted) / str(attempt.number)).absolute()
    files.write_json(home / "environment.json", _environment(made))
    id = launcher.submit(_job(config, wanted, made, attempt, home))
    facts = {"system": wanted.system.name, "benchmark": wanted.benchmark, "attempt": attempt.number}
    events.tell(config.root / "runs", "submitted", **facts, id=id, seed=attempt.seed)
    return id


def check_here(config: Config, wanted: Plan) -> None:
    """Raise BadEnvironment where this machine is to run an attempt itself and is not fit for it."""
    if wanted.system.launcher != "local" or preflight.wanted(wanted.system).when == "never":
        return
    if found := preflight.node(config, wanted.system):
        raise BadEnvironment(
            f"this machine is not fit for a run of {wanted.benchmark}",
            "what systems.<name>.preflight asks for",
            "; ".join(found),
            f"podium preflight --system {wanted.system.name} --config {config.path}",
        )


def _before(config: Config, system: System) -> tuple[str, ...]:
    """The look at each node of an allocation; it needs this Python and this config on a file system that they see."""
    if system.launcher != "slurm" or preflight.wanted(system).when == "never":
        return ()
    words = ("preflight", "--system", system.name, "--config", str(config.path.absolute()))
    return ("env", f"--chdir={Path.cwd()}", sys.executable, "-m", "podium", *words)


def _job(config: Config, wanted: Plan, made: Made, attempt: Attempt, home: Path) -> Job:
    system = wanted.system
    # On one node the implementation starts its processes itself; on several, the launcher starts one for each GPU.
    tasks = system.slurm.get("tasks_per_node") or (max(1, system.gpus_per_node) if system.nodes > 1 else 1)
    (home / "logs").mkdir(exist_ok=True)
    environment = contract.environment(config, wanted, attempt.seed) | contract.ranks(system.nodes * tasks)
    if system.launcher == "aws_batch":
        from podium.runs.launchers import aws_requests

        environment |= aws_requests.places(aws_requests.Options(**system.aws_batch))
    name = engines.name(home) + ("-@RANK@" if system.nodes * tasks > 1 else "")
    run = engines.Run(
        image=made.image,
        config=wanted.result.config,
        environment=environment,
        mounts=contract.mounts(made.data, home / "logs"),
        name=name,
        host_memory=tasks > 1,
        devices=system.devices,
    )
    engine = engines.of(made.engine)
    by_pyxis = system.launcher == "slurm" and made.engine == "enroot"
    inside = by_pyxis or system.launcher == "aws_batch"  # the launcher itself starts the container

    def command(cores: Sequence[int], gpus: Sequence[int]) -> list[str]:
        placed = replace(run, cores=tuple(cores), gpus=tuple(gpus))
        return engines.start(placed) if inside else engine.command(placed)

    def trial(cores: Sequence[int], gpus: Sequence[int]) -> list[str]:
        words = ("python3", "-c", inspect.getsource(allreduce), str(preflight.wanted(system).allreduce_gbps))
        tried = replace(run, config=None, words=words, gpus=tuple(gpus))
        return engines.start(tried) if inside else engine.command(tried)

    asked = system.launcher == "slurm" and system.nodes * tasks > 1 and preflight.wanted(system).allreduce_gbps
    digest = files.hash_json((str(home), attempt.seed, made.fingerprint))
    return Job(
        name=f"podium-{wanted.benchmark}-{attempt.number}-{digest[:12]}",
        folder=home,
        command=command,
        before=_before(config, system),
        trial=trial if asked else None,
        after=() if inside else tuple(map(tuple, engine.stop(name, run.stop_seconds))),
        flags=tuple(enroot.srun_flags(run)) if by_pyxis else (),
        nodes=system.nodes,
        tasks=tasks,
        gpus=system.gpus_per_node,
        threads=system.threads,
        minutes=wanted.result.time_limit_minutes,
        image=made.image.digest,
        data=made.data.absolute(),
        avoid=tuple(preflight.unfit(config, system)),
    )


def _checked_data(config: Config, wanted: Plan) -> manifest.Manifest:
    """The data's manifest, after a quick look at names and sizes: training on half a data set costs more."""
    data = plan.layout_folder(config, wanted.dataset)
    if not (data / manifest.NAME).exists():
        raise BadInput(
            f"{wanted.dataset.name} is not prepared",
            f"layout {wanted.dataset.layout} in {data}",
            "nothing",
            f"podium prepare {wanted.dataset.name} --config {config.path}",
        )
    if found := problems(config, wanted.dataset, "quick"):
        raise BadInput(
            f"{data} is not what was prepared",
            "the files of its manifest",
            "; ".join(found[:5]),
            f"podium verify {wanted.dataset.name} --config {config.path}",
        )
    content = manifest.read(data)
    refuse_unofficial(config, wanted.dataset, content)
    return content


def _environment(made: Made) -> dict[str, Any]:
    """What the run was launched from, beside the system description; the nodes themselves tell in preflight.json."""
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": made.image.python,
        "engine": made.engine,
        "image": made.image.reference,
        "packages": dict(made.image.packages),
    }
