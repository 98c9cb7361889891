"""`srun` inside of our allocation, `scontrol show`: steps of our job, their containers by pyxis or by our sandbox.

What foreign scripts run on nodes without a container (clearing caches, listing GPUs) is shut in there too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from podium.reproduce.sandbox import Inside
from podium.reproduce.shims import docker
from podium.reproduce.shims.policy import (
    Answer,
    Call,
    Containers,
    Execute,
    Outcome,
    Policy,
    Shut,
    boxed,
    refused,
    skipped,
)

# Options of srun with a value: those that are passed on, and those that are the launcher's, the container's or ours.
ASKED = frozenset(
    [
        "--cpu-bind",
        "--cpus-per-task",
        "--distribution",
        "--gpus-per-node",
        "--gpus-per-task",
        "--mpi",
        "--nodelist",
        "--nodes",
        "--ntasks",
        "--ntasks-per-node",
        "--time",
        "--wait",
        "-N",
        "-W",
        "-c",
        "-m",
        "-n",
        "-t",
        "-w",
    ]
)
VALUED = ASKED | frozenset(
    [
        "--container-env",
        "--container-image",
        "--container-mounts",
        "--container-name",
        "--container-workdir",
        "--error",
        "--export",
        "--gpus",
        "--gres",
        "--job-name",
        "--mem",
        "--output",
        "-J",
        "-e",
        "-o",
    ]
)
PASSED = ASKED | {"--kill-on-bad-exit", "--label", "--unbuffered", "-K", "-l", "-u"}
CHECKS = ("ibv_devinfo", "nvidia-smi", "all_reduce_perf_mpi", "ibstat")  # of their site; on others they only fail
SHOWN = ("hostnames", "hostname", "job", "node", "nodes")


def srun(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """What becomes of `srun …`: a step that shares the allocation with ours."""
    parsed = _parse(call.words[1:])
    words = parsed.words
    if not policy.slurm:
        return refused("srun", "this run is no job of Slurm", 1)
    if not words:
        return refused("srun", "it names no program", 1)
    if words[0] in CHECKS:
        return skipped(words[0], "it checks another site")
    if any(docker.CHECKER in word for word in words):
        return skipped("the checker inside the image", "the log is checked outside, by the rules of its round")
    before = ["srun", "--overlap"]
    for name, value in parsed.options:
        if name in PASSED and not (name == "--mpi" and policy.engine == "process"):
            before += [f"{name}={value}" if name.startswith("--") else f"{name}{value}"] if value else [name]
    image, name = parsed.one("--container-image"), parsed.one("--container-name")
    if not image and not name:
        return Shut(_host(policy, call, words), tuple(before))
    if image and policy.image and image != policy.image:
        return refused(f"srun --container-image={image}", f"the image of this run is {policy.image}")
    allowed, why = docker.mounts(_volumes(parsed.all("--container-mounts")), policy)
    if why:
        return refused("srun --container-mounts", why)
    folder = parsed.one("--container-workdir")
    given = {key: value for key, value in call.environment.items() if key not in ("PATH", "HOME", "PWD")}
    if policy.engine == "process":
        return Shut(boxed(policy, allowed, given, folder, words), tuple(before))
    if policy.engine != "enroot":
        return refused("srun --container-image", f"engine {policy.engine} is no pyxis; choose enroot or process")
    flags = [f"--container-image={image}"] if image else []
    flags += [f"--container-name={policy.prefix}{name}"] if name else []
    flags += ["--container-mounts=" + ",".join(":".join(mount) for mount in allowed)] if allowed else []
    flags += [f"--container-workdir={folder}"] if folder else []
    flags += [option for option, value in parsed.options if option.startswith("--no-container") and not value]
    flags += [option for option, _ in parsed.options if option in ("--container-remap-root", "--container-writable")]
    return Execute((*before, *flags, "env", *(f"{key}={value}" for key, value in policy.always.items()), *words))


def scontrol(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """Only questions, and `show job` answers with the place of the script that is run."""
    words = call.words[1:]
    if not policy.slurm:
        return refused("scontrol", "this run is no job of Slurm", 1)
    if words[:1] == ("show",) and words[1:2] and words[1] in SHOWN:
        if words[1] == "job":
            return Answer(f"JobId={call.environment.get('SLURM_JOB_ID', '0')}\n   Command={policy.code}/run.sub")
        nodes = words[2:] or (call.environment.get("SLURM_JOB_NODELIST", ""),)
        return Execute(("scontrol", "show", words[1], *nodes))
    return refused("scontrol", "only `show` is allowed", 1)


def _host(policy: Policy, call: Call, words: Sequence[str]) -> Inside:
    """A command on a node without a container: it sees the code and the logs, and answers nothing to sudo."""
    read = tuple((path, path) for path in (*policy.read, *policy.shims))
    write = tuple((path, path) for path in policy.write)
    folder = call.folder if policy.may(call.folder) else policy.code
    environment = {**call.environment, **policy.always}
    path = os.pathsep.join((call.environment.get("PATH", ""), "/usr/bin", "/bin"))
    return Inside(tuple(words), folder, read, write, {**environment, "PATH": path}, network=policy.network)


def _parse(words: Sequence[str]) -> docker.Parsed:
    options, rest = [], list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name, sign, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2 and word[:2] in VALUED:
            name, value = word[:2], word[2:].removeprefix("=")
        elif not sign and name in VALUED and rest:
            value = rest.pop(0)
        options.append((name, value))
    return docker.Parsed(tuple(options), tuple(rest))


def _volumes(texts: Sequence[str]) -> docker.Parsed:
    """pyxis' comma separated mounts, in which a source alone is mounted at its own place."""
    items = [item for text in texts for item in text.split(",") if item.strip()]
    items = [item if ":" in item else f"{item}:{item}" for item in items]
    return docker.Parsed(tuple(("--volume", item) for item in items), ())
