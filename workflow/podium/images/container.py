"""A container image from a Dockerfile, by Docker's BuildKit or by Podman; what a failed build says."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podium import files
from podium.errors import BadEnvironment, BadInput, PodiumError
from podium.images.engines import docker, request, store
from podium.images.registry import on_loopback
from podium.images.watch import Said, cause, watch

LAST = 30  # lines of a failed build that are shown


@dataclass(frozen=True)
class Recipe:
    """What an image is built of. `secrets` maps ids to files, which are mounted for the build alone."""

    dockerfile: Path
    context: Path
    tag: str
    arguments: Mapping[str, str]
    secrets: Mapping[str, Path]
    offline: bool = False
    cached: bool = True


def context(implementation: Path) -> Path:
    """What a build sees: the implementation's folder, or the one above where that has the `.dockerignore`."""
    above = implementation.absolute().parent
    alone = (implementation / ".dockerignore").exists() or not (above / ".dockerignore").exists()
    return implementation if alone else above


def command(program: str, recipe: Recipe, id_file: Path) -> list[str]:
    """The command line of a build; the id of the image that came of it goes to `id_file`."""
    words = [program, "build", f"--file={recipe.dockerfile}", f"--tag={recipe.tag}", f"--iidfile={id_file}"]
    words += [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
    words += [f"--secret=id={name},src={path}" for name, path in recipe.secrets.items()]
    words += ["--network=none"] if recipe.offline else []
    words += [] if recipe.cached else ["--no-cache"]
    if program.endswith("podman"):
        # Docker's format keeps the health check; layers are cached and nothing of a failed build is kept.
        words += ["--tls-verify=false"] if on_loopback(recipe.arguments.get("BASE", "")) else []
        words += ["--format=docker", "--layers", "--force-rm", f"--pull={'never' if recipe.offline else 'missing'}"]
    else:
        words += ["--progress=plain"]
    return [*words, str(recipe.context)]


def build(engine: str, recipe: Recipe, log: Path) -> str:
    """Build and return the image's id; what was said is kept in `log`, and progress shown by its steps.

    Raises BadInput where a step of the Dockerfile fails, BadEnvironment where the machine or the network does.
    """
    program = docker.builder() if engine == "docker" else "podman"
    before = _working(program)
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="podium-build-") as place:
        id_file = Path(place) / "id"
        words = command(program, recipe, id_file)
        try:
            said = watch(words, f"build {recipe.tag}", _STEP.pattern, log, {"DOCKER_BUILDKIT": "1"})
        except BaseException:
            _tidy(program, before)
            raise
        if said.status != 0:
            raise failure(said, recipe, log)
        return id_file.read_text(encoding="utf-8").strip()


def _working(program: str) -> set[str]:
    """The containers in which Podman builds: storage alone, which a build that is ended leaves behind."""
    if program != "podman":
        return set()
    told = request.output("podman", "ps", "--all", "--external", "--format", "{{.ID}} {{.Status}}")
    return {line.split()[0] for line in told.splitlines() if line.endswith("Storage")}


def _tidy(program: str, before: set[str]) -> None:
    """Remove what an ended build of Podman left, unless another build is going on, whose it might be."""
    others = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _builds(path)]
    for container in _working(program) - before if not others else ():
        subprocess.run(["podman", "rm", "--force", container], capture_output=True, check=False)


def _builds(cmdline: Path) -> bool:
    """Whether a process (proc(5)) is a build of Podman's or buildah's."""
    try:
        words = cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith((b"podman", b"buildah")) and bool({b"build", b"bud"} & set(words[1:3]))


# `#8 [stage-1 4/7] RUN …` of BuildKit, `STEP 4/7: RUN …` of Podman (behind `[2/2] ` in a Dockerfile of several stages).
_STEP = re.compile(r"(?:#\d+ \[.*?\d+/\d+\]|(?:\[\d+/\d+\] )?STEP \d+/\d+:) (.*)")
_FAILED = re.compile(
    r"(?: > \[.*?\d+/\d+\]|^Error: building at STEP|^ERROR: failed to solve:|^error: )(.*)", re.MULTILINE
)


# Words of builders, pip and apt; the likely cause; what to do; whether it is the machine rather than the Dockerfile.
def failure(said: Said, recipe: Recipe, log: Path) -> PodiumError:
    """What a failed build said, as an error: the step, its likely cause, the last lines."""
    steps = [found[1].strip() for line in said.text.splitlines() if (found := _STEP.match(line))]
    blamed = [found[1].strip() for found in _FAILED.finditer(said.text) if found[1].strip()]
    step = (blamed or steps[-1:] or ["the first"])[0]
    tail = said.last(LAST)
    found = cause("\n".join(tail), f"mend {recipe.dockerfile}")
    kind = BadEnvironment if found.machine else BadInput
    return kind(
        f"{recipe.dockerfile} is not built: status {said.status}",
        f"this step to succeed: {step}",
        f"{found.meaning}; the last lines of {log}:\n    " + "\n    ".join(tail),
        f"{found.advice}; then the same command again",
    )


def inputs(recipe: Recipe, contents: Mapping[str, str]) -> str:
    """The name of what a build is given: the implementation's files without documents, arguments, names of wheels."""
    code = {path: digest for path, digest in contents.items() if not path.endswith(".md")}
    wheels = sorted((path.name, path.stat().st_size) for path in (recipe.context / "wheels").glob("*"))
    arguments = {name: value for name, value in recipe.arguments.items() if name != "COMMIT"}
    return files.hash_json({"files": code, "arguments": arguments, "wheels": wheels})


def base(names: Sequence[str], program: str) -> str:
    """The last of a Dockerfile's bases by the digest that a registry gave it; else by the id that the store knows."""
    name = names[-1] if names else "scratch"
    if "@sha256:" in name or name == "scratch":
        return name
    facts = store.inspect(program, name)
    if facts is None:
        return name
    return next(iter(facts.get("RepoDigests") or []), f"{name}@sha256:{facts['Id'].removeprefix('sha256:')}")
