"""Where an implementation's image comes from: their Dockerfile, a registry, a file, or nowhere that we can reach."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from podium import config as configuration
from podium.images import dockerfile as dockerfiles
from podium.reproduce.folder import Folder

NAMED = re.compile(r"""(?m)\b(?:CONT|DOCKER_IMAGE|MLPERF_DOCKER_IMAGE|IMAGE_NAME)(?::?=|:-)["']?([\w./:$@{}+-]+)""")
PULLED = re.compile(r"\b(?:docker pull|enroot import docker://|FROM) *([\w./:@-]+)")


@dataclass(frozen=True)
class Image:
    """`kind`: build, pull, none (no container), or missing, where `why` says why.

    `reference` is the tag to build or pull; `context` the folder of the Dockerfile, relative to the tree; `bases` the
    images that it starts from; `replaced` the private bases among them with the public ones that are put in place.
    """

    kind: str
    reference: str = ""
    context: str = ""
    bases: tuple[str, ...] = ()
    replaced: Mapping[str, str] | None = None
    why: str = ""

    def commands(self, tree: str = ".") -> list[list[str]]:
        """How to get it, by hand; a private base is replaced by a named build context (BuildKit)."""
        if self.kind == "pull":
            return [["docker", "pull", self.reference]]
        if self.kind != "build":
            return []
        twins = [f"--build-context={old}=docker-image://{new}" for old, new in (self.replaced or {}).items()]
        return [["docker", "build", *twins, "--tag", self.reference, f"{tree}/{self.context}"]]


NONE = Image("none")


def of(folder: Folder, tag: str) -> Image:
    """The image of an implementation: its Dockerfile, else what its scripts and README name, else nothing.

    `tag` is the name that a built image gets.
    """
    dockerfile = next(iter(folder.matching("Dockerfile", "Dockerfile.*", "*.Dockerfile")), None)
    if dockerfile is not None:
        built = _built(folder, dockerfile, tag)
        if built.kind == "build":
            return built
    else:
        built = Image("missing", why="no Dockerfile and no image that is named (--image REF gives one)")
    wanted = [name for name in _named(folder) if not private(name)]
    if wanted:
        return Image("pull", wanted[0], why=built.why)
    closed = [f"{name} is in {private(name)}" for name in _named(folder)]
    return Image("missing", bases=built.bases, why="; ".join([built.why, *closed[:2]]))


def private(reference: str) -> str:
    """Whose a reference is that outsiders cannot pull; empty for one that they can."""
    for rule in configuration.catalog("published")["private_images"]:
        if re.search(rule["match"], reference):
            return rule["whose"]
    return ""


def twin(reference: str) -> str:
    """The public image of the same release as a private one; empty where none is known."""
    for rule in configuration.catalog("published")["public_twins"]:
        if re.search(rule["match"], reference):
            return re.sub(rule["match"], rule["public"], reference)
    return ""


def _built(folder: Folder, dockerfile: str, tag: str) -> Image:
    found = tuple(dict.fromkeys(name for _, name in dockerfiles.bases(folder.text(dockerfile), {})))
    if not found:
        return Image("missing", why=f"{dockerfile} names no base")
    if missing := [base for base in found if base.startswith("$")]:
        return Image("missing", bases=found, why=f"{dockerfile} leaves its base open ({missing[0]})")
    closed = {base: twin(base) for base in found if private(base)}
    if lost := [base for base, public in closed.items() if not public]:
        why = f"private base {lost[0]}, of {private(lost[0])}"
        return Image("missing", bases=found, why=why)
    return Image("build", tag, folder.path.as_posix(), found, closed)


def _named(folder: Folder) -> list[str]:
    """Image references in the scripts and the README, in order, without placeholders."""
    found = []
    for name in folder.matching("*.sh", "*.sub", "*.slurm", "README*"):
        text = folder.text(name)
        found += [match[1] for match in (*NAMED.finditer(text), *PULLED.finditer(text))]
    found = [name.rstrip(".}") for name in found]
    keep = [name for name in found if re.search(r"\w", name) and not re.search(r"[<>$]|^[:-]|SET_THIS", name)]
    return list(dict.fromkeys(name for name in keep if _complete(name)))


def _complete(reference: str) -> bool:
    """Whether it is somewhere: a registry or a user before a slash; a bare tag is only a name on their machine."""
    return "/" in reference or bool(private(reference))
