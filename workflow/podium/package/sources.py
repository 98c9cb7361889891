"""Where a submission comes from: the results of this config, and those of other clusters' work roots that it merges."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, plan
from podium.config import Config
from podium.errors import BadInput
from podium.images.lock import Image
from podium.plan import Plan
from podium.runs import ledger
from podium.runs.ledger import Attempt

LARGEST = 50 << 20  # bytes: the repository checker's limit for a file


@dataclass(frozen=True)
class Source:
    """One result: the config of the cluster that made it, and its plan there."""

    config: Config
    item: Plan

    @property
    def name(self) -> str:
        return f"{self.item.system.name}/{self.item.benchmark}"

    @property
    def folder(self) -> Path:
        return plan.result_folder(self.config, self.item)

    @functools.cached_property
    def attempts(self) -> list[Attempt]:
        """Every attempt of the result, read once."""
        return ledger.attempts(self.folder)

    @property
    def description(self) -> Path:
        return plan.system_file(self.config, self.item.system.name)

    @property
    def image_file(self) -> Path:
        return plan.image_file(self.config, self.item)

    @property
    def implementation(self) -> Path:
        """The locked files of the implementation: the snapshot beside the lock, wherever the work root was copied to;
        of a container image, which has none, the folder that it was built from."""
        snapshot = self.image_file.parent / "implementation"
        return snapshot if snapshot.is_dir() else self.item.result.implementation

    def logs(self, verdict: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
        """The counted logs in launch order, and their names in the tree."""
        for index, attempt in enumerate(verdict["counted"]):
            yield self.folder / str(attempt) / "result.txt", f"result_{index}.txt"


def configs(config: Config) -> list[Config]:
    """This config and those that it merges, each with the work root that is here.

    Raises BadInput where they are not of one submission.
    """
    found = [config]
    for other in config.package.merge:
        loaded = configuration.load(other.config)
        if other.root is not None:
            own_data = loaded.data_root == loaded.root / "data"
            data = other.root / "data" if own_data else loaded.data_root
            loaded = replace(loaded, root=other.root, data_root=data)
        for field in ("org", "division", "round", "demo"):
            mine, theirs = getattr(config.submission, field), getattr(loaded.submission, field)
            if mine != theirs:
                raise BadInput(
                    f"{other.config} is of another submission",
                    f"submission.{field}: {mine}, as in {config.path}",
                    f"submission.{field}: {theirs}",
                    "merge only configs of one organisation, division and round",
                )
        found.append(loaded)
    return found


def sources(config: Config) -> list[Source]:
    """Every result that the submission is made of; raises BadInput that names each conflict between work roots."""
    found = [Source(each, item) for each in configs(config) for item in plan.plans(each)]
    conflicts = [*_twice(found), *_descriptions(found), *_implementations(found)]
    if conflicts:
        raise BadInput(
            "the work roots do not make one submission",
            "each result once; the same description and code where a name is the same",
            "\n    ".join(conflicts),
            "give systems or implementations names of their own, or merge less",
        )
    return found


def image(source: Source) -> Image:
    """The lock of a result's image; the image itself need not be here. Raises BadInput where there is none, or where a
    link leads out of the implementation."""
    if not source.image_file.exists():
        raise BadInput("no image is locked", str(source.image_file), "nothing", "podium build")
    value = files.read_json(source.image_file)
    _check_links(source)
    return Image(**{**value, "requirements": tuple(value["requirements"])})


def copy_code(source: Source, held: Image, target: Path) -> None:
    """Write the files of an implementation to `target`, each held to its hash in the lock as it is read.

    Raises BadInput where a file is not the locked one or over the official limit.
    """
    home = source.implementation
    for parent in {(target / name).parent for name in held.files}:
        parent.mkdir(parents=True, exist_ok=True)
    for name, digest in held.files.items():
        data, mode = _read(f"{home}/{name}")
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise BadInput(
                f"{home / name} is not what was locked",
                f"sha256 {digest}, as in {held.reference}",
                "nothing" if data is None else "another file",
                "edit the implementation where it comes from, never the snapshot; then podium build",
            )
        if len(data) > LARGEST:
            raise BadInput(
                f"{home / name} is larger than any file of a submission may be",
                "at most 50 MiB (repository checker)",
                f"{len(data) / (1 << 20):.1f} MiB",
                "publish it elsewhere and fetch it in setup.sh or init_datasets.sh; then podium build",
            )
        with open(f"{target}/{name}", "wb") as file:  # noqa: PTH123 - as in scrub
            file.write(data)
            if mode & 0o100:
                os.fchmod(file.fileno(), 0o755)


def _read(path: str) -> tuple[bytes | None, int]:
    """A file's content and mode; None where there is none to be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as in scrub
            return file.read(), os.fstat(file.fileno()).st_mode
    except OSError:
        return None, 0


def _check_links(source: Source) -> None:
    """No link leads out of the implementation, but to what the implementations share (`common` beside them).

    The snapshot holds what links led to: a link to somebody's file would publish that file.
    """
    home = source.item.result.implementation
    allowed = [folder.resolve() for folder in (home, home.parent / "common")]
    links = [path for path in (*home.rglob("*"), *source.implementation.rglob("*")) if path.is_symlink()]
    out = [path for path in links if not any(path.resolve().is_relative_to(folder) for folder in allowed)]
    if out:
        raise BadInput(
            f"links lead out of the implementation {source.item.implementation}",
            f"links to files in {home} or in {home.parent / 'common'}",
            "\n    ".join(f"{path} -> {path.readlink()}" for path in out[:10]),
            "put the files there, or remove the links; then podium build",
        )


def _twice(found: Sequence[Source]) -> Iterable[str]:
    seen: dict[str, Source] = {}
    for source in found:
        first = seen.setdefault(source.name, source)
        if first is not source:
            yield f"{source.name} is in {first.config.root} and in {source.config.root}"


def _descriptions(found: Sequence[Source]) -> Iterable[str]:
    seen: dict[str, tuple[Source, Mapping[str, Any]]] = {}
    for source in found:
        if not source.description.exists():
            continue
        here = files.read_json(source.description)
        first, there = seen.setdefault(source.item.system.name, (source, here))
        if first.config.root != source.config.root and here != there:
            fields = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
            roots = f"{first.config.root} and {source.config.root}"
            yield f"system {source.item.system.name}: {', '.join(fields)} differ in {roots}"


def _implementations(found: Sequence[Source]) -> Iterable[str]:
    seen: dict[tuple[str, str], tuple[Source, Mapping[str, str]]] = {}
    for source in {source.image_file: source for source in found}.values():  # systems share implementations
        if not source.image_file.exists():
            continue
        here = files.read_json(source.image_file)["files"]
        key = (source.item.benchmark, source.item.implementation)
        first, there = seen.setdefault(key, (source, here))
        if here != there:
            names = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            roots = f"{first.config.root} and {source.config.root}"
            yield f"implementation {key[1]} of {key[0]}: {', '.join(names[:5])} differ in {roots}"
