"""`image.json`: what an image is made of, so that a run can refuse another one and a reader can rebuild it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from podium import files
from podium.errors import BadInput


@dataclass(frozen=True)
class Export:
    """An image as one file: where it lies, its size and its sha256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Image:
    """A locked image. `reference` names what is in it, by whatever engine it is held; `engine` is the one that made it.

    An image of engine `process` is a snapshot of `implementation` and a `venv`. A container image has an `id` in the
    store where it was built, a `tag` there, a `digest` (`registry/name@sha256:…`) once it was pushed, `exports` (`sif`,
    `sqsh`) once it was exported, and `base`, also by digest; `arguments` are those of its build, `inputs` names all
    that the build was given. `size` is in bytes. `packages` are Python's, `versions` those of CUDA, cuDNN, NCCL and the
    framework as far as they are there; `sbom` is the sha256 of the bill of materials beside `image.json`.
    `files` maps each file of the implementation to its sha256; `commit` is None outside a git repository.
    """

    engine: str
    reference: str
    implementation: str
    venv: str
    python: str
    commit: str | None
    dirty: bool
    requirements: tuple[str, ...]
    packages: Mapping[str, str]
    files: Mapping[str, str]
    id: str = ""
    tag: str = ""
    digest: str = ""
    workdir: str = ""
    architecture: str = ""
    base: str = ""
    size: int = 0
    arguments: Mapping[str, str] = field(default_factory=dict)
    inputs: str = ""
    system_packages: Mapping[str, str] = field(default_factory=dict)
    conda_packages: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    licences: Mapping[str, str] = field(default_factory=dict)
    sbom: str = ""
    exports: Mapping[str, Export] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def reference(packages: Mapping[str, str], python: str, contents: Mapping[str, str]) -> str:
    """The name of an image's content: a hash over the frozen packages and the implementation's files.

    Documents are part of the image but not of its name: a better README is no other implementation.
    """
    code = {path: digest for path, digest in contents.items() if not path.endswith(".md")}
    return "process:sha256:" + files.hash_json({"packages": dict(packages), "python": python, "files": code})


def read(path: Path) -> Image:
    """Read `image.json`; raises BadInput without one, or where snapshot or environment are not the locked ones.

    A container image is held to its lock by the engine that runs it (`engines.of(name).held(image)`).
    """
    image = parse(path)
    if image.files:
        _check_snapshot(image, path)
    return image


def write(path: Path, image: Image) -> None:
    """Write `image.json`, and a twin that stays where Snakemake deletes it before it calls for a build."""
    files.write_json(twin(path), image.as_json())
    files.write_json(path, image.as_json())


def twin(path: Path) -> Path:
    """Where the last lock is remembered: its pushes and exports hold for as long as its inputs do."""
    return path.with_name(f".{path.name}")


def parse(path: Path) -> Image:
    """`image.json` as it stands; raises BadInput where there is none."""
    if not path.exists():
        raise BadInput("no image is locked", str(path), "nothing", "podium build")
    value = files.read_json(path)
    exports = {kind: Export(**item) for kind, item in value.get("exports", {}).items()}
    return Image(**{**value, "requirements": tuple(value["requirements"]), "exports": exports})


def _check_snapshot(image: Image, path: Path) -> None:
    found = contents(Path(image.implementation))
    if changed := sorted(
        name for name in found.keys() | image.files.keys() if found.get(name) != image.files.get(name)
    ):
        raise BadInput(
            f"the image of {path.parent} is not the locked one",
            f"the files of {image.reference}",
            f"changed: {', '.join(changed)}",
            "edit the implementation where it comes from, never the snapshot; then podium build",
        )
    if image.engine == "process" and not (Path(image.venv) / "bin" / "python").exists():
        raise BadInput("the image's virtual environment is gone", image.venv, "nothing", f"rm {path} && podium build")


def held_file(image: Image, kind: str) -> Image:
    """The image, whose exported file (`sif` or `sqsh`) must be there and be the one that was exported.

    A file that has not been touched since its hash was taken is not read again: that takes a minute for each 10 GB.
    Raises BadInput otherwise.
    """
    if kind not in image.exports:
        raise BadInput(f"the image has no .{kind} file", image.reference, "none was exported", f"podium export {kind}")
    export = image.exports[kind]
    found = digest(Path(export.path))
    if found != export.sha256:
        expected = f"sha256 {export.sha256}"
        raise BadInput(
            f"{export.path} is not the exported image", expected, found or "nothing", f"podium export {kind}"
        )
    return image


def digest(path: Path) -> str | None:
    """The sha256 of a file, remembered beside it for as long as its size and its times stay; None without the file."""
    if not path.exists():
        return None
    memory = path.with_name(f".{path.name}.sha256.json")
    facts = path.stat()
    stamp = [facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
    if memory.exists() and (known := files.read_json(memory))["stamp"] == stamp:
        return known["sha256"]
    found = files.hash_file(path)
    files.write_json(memory, {"stamp": stamp, "sha256": found})
    return found


def contents(folder: Path) -> dict[str, str]:
    """Hash of every file of an implementation by its path; byte code and hidden files are not part of it."""
    names = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _ignored(path.relative_to(folder))]
    linked = [
        path for link in folder.iterdir() if link.is_symlink() and link.is_dir() for path in sorted(link.rglob("*"))
    ]
    names += [path for path in linked if path.is_file() and not _ignored(path.relative_to(folder))]
    return {str(path.relative_to(folder)): files.hash_file(path) for path in sorted(set(names))}


def _ignored(path: Path) -> bool:
    return any(part == "__pycache__" or part.startswith(".") for part in path.parts)


def commit(folder: Path) -> tuple[str | None, bool]:
    """The commit that `folder` is at, and whether it differs from it; (None, False) outside a git repository."""

    def git(*words: str) -> str | None:
        try:
            answer = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return answer.stdout.strip() if answer.returncode == 0 else None

    head = git("rev-parse", "HEAD")
    return head, bool(head and git("status", "--porcelain", "--", "."))
