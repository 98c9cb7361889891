"""`docker` as scripts of the published rounds use it: a container that sleeps, and `docker exec` in it.

Dropped: `-t` (a batch job has no terminal), the host's network, IPC and UTS, `seccomp=unconfined`, `--privileged`.
Mounts outside of the run's folders and images other than the planned one are refused. Fixed names become unique.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from podium.reproduce.shims.policy import (
    Answer,
    Call,
    Container,
    Containers,
    Execute,
    Outcome,
    Policy,
    Shut,
    boxed,
    refused,
    skipped,
)

# Options that take a value when none is joined by "=": docker run and docker exec (Docker's CLI reference).
VALUED = frozenset(
    [
        "--name",
        "--volume",
        "-v",
        "--env",
        "-e",
        "--workdir",
        "-w",
        "--user",
        "-u",
        "--net",
        "--network",
        "--ipc",
        "--uts",
        "--pid",
        "--security-opt",
        "--ulimit",
        "--gpus",
        "--device",
        "--shm-size",
        "--runtime",
        "--cap-add",
        "--cap-drop",
        "--entrypoint",
        "--group-add",
        "--hostname",
        "-h",
        "--label",
        "-l",
        "--memory",
        "-m",
        "--mount",
        "--tmpfs",
        "--cpuset-cpus",
        "--cpus",
        "--add-host",
        "--env-file",
        "--restart",
        "--log-driver",
        "--log-opt",
        "--publish",
        "-p",
    ]
)
CHECKER = "compliance_checker"  # the one in the image has another ruleset; ours judges the log outside
KEPT = {  # options that are passed on, and the values that they may have
    "--gpus": r".*",
    "--device": r"(/dev/(dri|kfd|infiniband|nvidia|hl|accel)[\w/]*:?)+",
    "--shm-size": r"\w+",
    "--ulimit": r"[\w=:-]+",
    "--runtime": r"nvidia|habana",
    "--group-add": r"video|render",
}


@dataclass(frozen=True)
class Parsed:
    """Options as (name, value), and the words after them."""

    options: tuple[tuple[str, str], ...]
    words: tuple[str, ...]

    def all(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names]

    def one(self, *names: str) -> str:
        return next(iter(reversed(self.all(*names))), "")


def translate(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """What becomes of `docker …`."""
    words = list(call.words[1:])
    words = words[1:] if words[:1] in (["container"], ["image"]) else words
    if not words:
        return Answer("")
    verb, rest = words[0], words[1:]
    if verb == "run":
        return _run(parse(rest), call, policy, containers)
    if verb == "exec":
        return _exec(parse(rest), call, policy, containers)
    if verb in ("rm", "stop", "kill"):
        return _end(verb, [word for word in rest if not word.startswith("-")], policy, containers)
    if verb == "ps":
        return Answer("\n".join(containers.known))
    if verb in ("pull", "build", "login", "push", "tag"):
        return skipped(f"docker {verb}", f"the image of this run is {policy.image or 'the code itself'}")
    if verb in ("info", "version", "inspect", "images", "logs"):
        return Answer("")
    return refused(f"docker {verb}", "no published script needs it")


def parse(words: Sequence[str]) -> Parsed:
    """Options up to the first word that is none."""
    options, rest = [], list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if not sign and name in VALUED and rest:
            value = rest.pop(0)
        elif not name.startswith("--") and name[:2] in VALUED and len(name) > 2 and not set(name[1:]) <= set("itd"):
            name, value = name[:2], word[2:].removeprefix("=")  # -v/a:/b, -eX=1
        options.append((name, value))
    return Parsed(tuple(options), tuple(rest))


def variables(parsed: Parsed, call: Call, policy: Policy) -> dict[str, str]:
    """What a container gets: `--env NAME` takes the caller's value; ours win."""
    found = {}
    for item in parsed.all("--env", "-e"):
        name, sign, value = item.partition("=")
        if sign or name in call.environment:
            found[name] = value if sign else call.environment[name]
    return {**found, **policy.always}


def mounts(parsed: Parsed, policy: Policy) -> tuple[list[tuple[str, str, str]], str]:
    """The mounts that are allowed, read-only unless they are ours to write; and why the first other one is not."""
    found = []
    for item in (*parsed.all("--volume", "-v"), *map(_mount, parsed.all("--mount"))):
        source, _, rest = item.strip().partition(":")
        target, _, mode = rest.partition(":")
        allowed = policy.may(source)
        if not allowed:
            return [], f"{source or item!r} is no folder of this run"
        found.append((source, target.rstrip("/") or "/", "ro" if "ro" in mode.split(",") else allowed))
    return found, ""


def _mount(text: str) -> str:
    """`--mount type=bind,source=a,target=b` as a volume."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    source = parts.get("source", parts.get("src", ""))
    target = parts.get("target", parts.get("dst", parts.get("destination", "")))
    return f"{source}:{target}" + (":ro" if "readonly" in parts or "ro" in parts else "")


def _run(parsed: Parsed, call: Call, policy: Policy, containers: Containers) -> Outcome:
    if not parsed.words:
        return refused("docker run", "it names no image", 125)
    image, words = parsed.words[0], parsed.words[1:]
    if policy.image and image != policy.image:
        return refused(f"docker run {image}", f"the image of this run is {policy.image}")
    allowed, why = mounts(parsed, policy)
    if why:
        return refused("docker run", why)
    name = parsed.one("--name") or f"run{len(containers.known)}"
    detached = any(option in ("--detach", "-d", "-td", "-dt", "-itd", "-dit") for option, _ in parsed.options)
    given = variables(parsed, call, policy)
    container = Container(tuple(allowed), given, parsed.one("--workdir", "-w"))
    if detached:
        containers.known[name] = container
    if policy.engine not in ("docker", "podman"):
        return Answer(name) if detached else _boxed(container, {}, words, policy, "")
    line = [policy.engine, "run", "--rm", "--init", f"--name={policy.prefix}{name}", *_bounds(policy)]
    line += ["--detach"] if detached else ["--interactive"]
    line += [f"--volume={source}:{target}:{mode}" for source, target, mode in allowed]
    line += [f"{option}={value}" for option, value in parsed.options if _kept(option, value)]
    line += ["--gpus=all"] if policy.gpus and not parsed.all("--gpus") and policy.engine == "docker" else []
    line += [f"--workdir={container.workdir}"] if container.workdir else []
    return Execute((*line, *_set(given), image, *words))


def _exec(parsed: Parsed, call: Call, policy: Policy, containers: Containers) -> Outcome:
    name, words = (parsed.words[0], parsed.words[1:]) if parsed.words else ("", ())
    container = containers.known.get(name)
    if container is None:
        return refused(f"docker exec {name}", "this run started no container of that name", 1)
    if any(CHECKER in word for word in words):
        return skipped("the checker inside the image", "the log is checked outside, by the rules of its round")
    given = variables(parsed, call, policy)
    folder = parsed.one("--workdir", "-w")
    if policy.engine not in ("docker", "podman"):
        return _boxed(container, given, words, policy, folder)
    line = [policy.engine, "exec", "--interactive", *_set(given)]
    line += [f"--workdir={folder}"] if folder else []
    return Execute((*line, policy.prefix + name, *words))


def _end(verb: str, names: Sequence[str], policy: Policy, containers: Containers) -> Outcome:
    mine = [name for name in names if name in containers.known]
    for name in mine:
        del containers.known[name]
    if not mine:
        return Answer("")  # scripts remove what an earlier run may have left: ours leave nothing
    if policy.engine not in ("docker", "podman"):
        return Answer("\n".join(mine))
    return Execute((policy.engine, "rm", "--force", "--volumes", *(policy.prefix + name for name in mine)))


def _boxed(
    container: Container, given: Mapping[str, str], words: Sequence[str], policy: Policy, folder: str
) -> Outcome:
    whole = replace(container, environment={**container.environment, **given})
    return Shut(boxed(policy, whole.mounts, whole.environment, folder or whole.workdir, words))


def _kept(option: str, value: str) -> bool:
    return option in KEPT and re.fullmatch(KEPT[option], value) is not None


def _bounds(policy: Policy) -> list[str]:
    """The isolation that every container gets, whatever was asked for."""
    words = [f"--network={'host' if policy.network else 'none'}", "--security-opt=no-new-privileges"]
    words += ["--cap-add=SYS_NICE", "--pids-limit=65536"]  # numactl binds memory
    return words + ([f"--memory={policy.memory_gigabytes:g}g"] if policy.memory_gigabytes else [])


def _set(given: Mapping[str, str]) -> list[str]:
    return [f"--env={name}={value}" for name, value in given.items()]
