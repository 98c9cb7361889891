"""`sudo`, `module`, `singularity` and `apptainer` as the published scripts call them."""

from __future__ import annotations

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

CACHES = "drop_caches"
VALUED = frozenset(["-B", "--bind", "--pwd", "--env", "-e", "--workdir", "-W", "--home", "-H"])


def sudo(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """No foreign script gets our rights: clearing caches and tuning the node are left out, docker needs none."""
    words = tuple(word for word in call.words[1:] if word not in ("-E", "-n", "-S"))
    if words[:1] == ("docker",):
        return docker.translate(Call(words, call.environment, call.folder), policy, containers)
    if any(CACHES in word for word in words):
        return skipped("clearing the page cache", "it needs rights on the node; the first epoch may read from memory")
    return skipped(f"sudo {' '.join(words)[:80]}", "foreign scripts do not change the node")


def module(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """Environment modules of their site."""
    return Answer("")


def apptainer(call: Call, policy: Policy, containers: Containers) -> Outcome:
    """`singularity exec [--nv] -B a:b,c:d --pwd P IMAGE words`."""
    words = list(call.words[1:])
    if words[:1] not in (["exec"], ["run"]):
        return Answer("")
    parsed = _parse(words[1:])
    if not parsed.words:
        return refused("apptainer", "it names no image", 255)
    binds = [item for text in parsed.all("-B", "--bind") for item in text.split(",") if item]
    binds = [item if ":" in item else f"{item}:{item}" for item in binds]
    allowed, why = docker.mounts(docker.Parsed(tuple(("-v", item) for item in binds), ()), policy)
    if why:
        return refused("apptainer --bind", why, 255)
    image, command = parsed.words[0], parsed.words[1:]
    folder = parsed.one("--pwd")
    given = {key: value for key, value in call.environment.items() if key not in ("PATH", "HOME", "PWD")}
    if policy.engine != "apptainer":
        return Shut(boxed(policy, allowed, given, folder, command))
    image = policy.image or image  # theirs is a path on their file system
    line = ["apptainer", "exec", "--containall", "--no-eval", *(["--nv"] if policy.gpus else [])]
    line += [] if policy.network else ["--net", "--network=none"]
    line += [f"--bind={source}:{target}:{mode}" for source, target, mode in allowed]
    line += [f"--pwd={folder}"] if folder else []
    line += [f"--env={name}={value}" for name, value in {**given, **policy.always}.items()]
    return Execute((*line, image, *command))


def _parse(words: list[str]) -> docker.Parsed:
    options, rest = [], list(words)
    while rest and rest[0].startswith("-"):
        name, sign, value = rest.pop(0).partition("=")
        if not sign and name in VALUED and rest:
            value = rest.pop(0)
        options.append((name, value))
    return docker.Parsed(tuple(options), tuple(rest))
