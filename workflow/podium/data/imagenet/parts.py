"""The parts of a layout: each is made once, whatever interrupts the work, and the odd images in it are kept by name.

A part is a file, or a few that belong together. When it is whole a note is written; a later try reads the note and
skips the part. The notes go when everything is done.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from podium.data.formats import jpeg
from podium.data.imagenet.source import Image, Source
from podium.data.tasks import runner
from podium.errors import BadInput

_NOTES = ".notes"


@dataclass(frozen=True)
class Params:
    """The parameters of a preparation, with their defaults."""

    shards: Mapping[str, int] = field(default_factory=lambda: {"train": 1024, "validation": 128})
    take: int = 0  # images of each class in both splits; 0 is all
    undecodable: str = "error"  # or drop, or keep
    decode: bool = False


@dataclass
class Part:
    """What went into a part: images, their bytes as they were written, and the names of the odd ones.

    `undecodable` has the reasons.
    """

    images: int = 0
    bytes: int = 0
    png: list[str] = field(default_factory=list)
    cmyk: list[str] = field(default_factory=list)
    undecodable: dict[str, str] = field(default_factory=dict)

    def look(self, image: Image, data: bytes, params: Params) -> jpeg.Header | None:
        """Count an image and return its header, or None for one that cannot be decoded and is left out."""
        try:
            header = jpeg.header(data)
            if params.decode or header.kind != "jpeg":
                jpeg.decode(data)
        except jpeg.Undecodable as error:
            self.undecodable[image.relative] = str(error)
            if params.undecodable != "keep":
                return None
            header = jpeg.Header("jpeg", 0, 0)
        self.images += 1
        self.bytes += len(data)
        if header.kind != "jpeg":
            getattr(self, header.kind).append(image.relative)
        return header

    def to_rgb(self, data: bytes, header: jpeg.Header) -> bytes:
        """What goes into a layout that holds RGB only: the file itself, or a PNG or CMYK file as an RGB JPEG."""
        converted = jpeg.to_rgb(data, header)
        self.bytes += len(converted) - len(data)
        return converted

    def add(self, other: Part) -> None:
        """Count what is in `other` too."""
        self.images += other.images
        self.bytes += other.bytes
        self.png += other.png
        self.cmyk += other.cmyk
        self.undecodable |= other.undecodable


@dataclass(frozen=True)
class Work:
    """How a part is made. `lies_there` looks at what an earlier try has left of it."""

    make: Callable[[], Part]
    lies_there: Callable[[], bool]


def begin(to: Path, source: Source, params: Params) -> None:
    """Clear what an earlier try has left below `to` if it was made of other images or with other parameters."""
    digest = hashlib.sha256(json.dumps(asdict(params)).encode())
    for image in (*source.train, *source.val):
        digest.update(f"\n{image.relative} {image.size}".encode())
    made_of = to / _NOTES / "made_of"
    if made_of.exists() and made_of.read_text() != digest.hexdigest():
        shutil.rmtree(to / _NOTES)
        for path in to.glob("[!.]*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    made_of.parent.mkdir(parents=True, exist_ok=True)
    made_of.write_text(digest.hexdigest())


def together(to: Path, work: Mapping[str, Mapping[str, Work]], params: Params, workers: int) -> dict[str, Part]:
    """Make the parts of each split, by name below `to`, in so many processes, and sum each split up.

    Processes, not threads: framing records is Python's own work. Raises BadInput with every image of a split that
    cannot be decoded, when the parameter `undecodable` says so.
    """
    made = {}
    with runner(workers) as run:
        for split, some in work.items():
            made[split] = total = Part()
            for part in run([partial(once, to, name, item, params) for name, item in some.items()], split):
                total.add(part)
            refuse_undecodable(split, total, params)
    return made


def once(to: Path, name: str, work: Work, params: Params) -> Part:
    """Make the part `name` below `to`, or read the note of an earlier try that made it.

    No note is left of a part that lacks images which may not be left out.
    """
    note = to / _NOTES / f"{name}.json"
    if (known := _read_note(note)) is not None and work.lies_there():
        return known
    for stray in (to / name).parent.glob(f".{Path(name).name}.*"):  # what a try that was killed has left
        shutil.rmtree(stray) if stray.is_dir() else stray.unlink()
    part = work.make()
    if not part.undecodable or params.undecodable != "error":
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(asdict(part)), encoding="utf-8")
    return part


def _read_note(note: Path) -> Part | None:
    """A note is not synced, for it can be done without: one that was cut is none."""
    try:
        return Part(**json.loads(note.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return None


def forget(to: Path) -> None:
    """Remove the notes: everything is done."""
    shutil.rmtree(to / _NOTES, ignore_errors=True)


def refuse_undecodable(split: str, part: Part, params: Params) -> None:
    """Raise BadInput with every image that cannot be decoded, when the parameter `undecodable` says so."""
    if part.undecodable and params.undecodable == "error":
        listed = "".join(f"\n    {name}: {reason}" for name, reason in sorted(part.undecodable.items()))
        raise BadInput(
            f"{len(part.undecodable)} {split} images cannot be decoded",
            "JPEG files that are whole (or PNG and CMYK ones, which are known)",
            listed,
            "fetch them again, or leave them out with the parameter `undecodable: drop`",
        )
