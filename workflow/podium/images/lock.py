"""`image.json`: what an image is made of, so that a run can refuse another one and a reader can rebuild it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podium import files
from podium.errors import BadInput


@dataclass(frozen=True)
class Image:
    """A locked image. `reference` names its content; `implementation` and `venv` are where engine `process` finds it.

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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def reference(packages: Mapping[str, str], python: str, contents: Mapping[str, str]) -> str:
    """The name of an image's content: a hash over the frozen packages and the implementation's files.

    Documents are part of the image but not of its name: a better README is no other implementation.
    """
    code = {path: digest for path, digest in contents.items() if not path.endswith(".md")}
    return "process:sha256:" + files.hash_json({"packages": dict(packages), "python": python, "files": code})


def read(path: Path) -> Image:
    """Read `image.json` and hold the snapshot to it; raises BadInput where a file is not the locked one."""
    if not path.exists():
        raise BadInput("no image is locked", str(path), "nothing", "podium build")
    value = files.read_json(path)
    image = Image(**{**value, "requirements": tuple(value["requirements"])})
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
    if not (Path(image.venv) / "bin" / "python").exists():
        raise BadInput("the image's virtual environment is gone", image.venv, "nothing", f"rm {path} && podium build")
    return image


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
