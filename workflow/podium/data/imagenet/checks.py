"""What must hold of a written split, whatever its layout: counts, labels, names, and images that decode."""

from __future__ import annotations

import contextlib
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from podium.data.formats import jpeg
from podium.errors import BadInput


@dataclass
class Split:
    """A split as it is read back: every image is shown to `image`, then `finish` gives all that is wrong.

    `base` is the label of the first class. `untouched` layouts hold the source's PNG and CMYK files, and those that
    were kept though they cannot be decoded; others hold RGB and grey JPEGs only.
    """

    name: str
    counts: Mapping[str, Any]
    base: int
    untouched: bool
    problems: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    bytes: int = 0
    shards: list[int] = field(default_factory=list)  # images of each
    names: Counter[str] = field(default_factory=Counter)
    wnids: dict[str, set[int]] = field(default_factory=dict)

    def wrong(self, where: str, expected: object, found: object) -> None:
        """Note one problem."""
        self.problems.append(f"{where}: expected {expected}, found {found}")

    def same(self, where: str, expected: object, found: object) -> None:
        """Note a problem unless both are equal."""
        if expected != found:
            self.wrong(where, expected, found)

    @contextlib.contextmanager
    def reading(self, file: str) -> Iterator[None]:
        """Note as a problem whatever makes it impossible to read on in `file`."""
        try:
            yield
        except BadInput as error:
            self.wrong(error.thing, error.expected, error.found)
        except FileNotFoundError:
            self.wrong(file, "a file", "none")
        except (ValueError, KeyError, IndexError, struct.error) as error:
            self.wrong(file, "content of its format", error)

    @contextlib.contextmanager
    def shard(self) -> Iterator[None]:
        """Count the images that are shown meanwhile as those of one shard."""
        before = len(self.labels)
        yield
        self.shards.append(len(self.labels) - before)

    def image(self, where: str, name: str, label: int, data: bytes, wnid: str | None = None) -> jpeg.Header | None:
        """Check one image; returns its header, or None when it cannot be decoded. `wnid` where the layout tells it."""
        self.names[name] += 1
        self.labels.append(label)
        self.bytes += len(data)
        if wnid is not None:
            self.wnids.setdefault(wnid, set()).add(label)
        if not self.base <= label < self.base + self.counts["classes"]:
            self.wrong(f"{where} {name}", f"a label in {self.base} … {self.base + self.counts['classes'] - 1}", label)
        try:
            header = jpeg.header(data)
        except jpeg.Undecodable as error:
            if not (self.untouched and name in self.counts["undecodable"]):
                self.wrong(f"{where} {name}", "an image that decodes", error)
            return None
        if header.kind != "jpeg" and not (self.untouched and name in self.counts[header.kind]):
            self.wrong(f"{where} {name}", "a grey or RGB JPEG", header.kind.upper())
        return header

    def finish(self) -> list[str]:
        """Check the split as a whole; returns all problems."""
        self.same(self.name, f"{self.counts[self.name]} images", f"{len(self.labels)} images")
        self.same(self.name, f"{self.counts['classes']} classes", f"{len(set(self.labels))} classes")
        if not self.counts["undecodable"]:  # else some may have been left out, of any class and shard
            sizes = Counter(self.labels).values() or [0]
            self.same(f"{self.name} per class", self.counts[f"{self.name}_per_class"], [min(sizes), max(sizes)])
            full, number = max(self.shards, default=0), len(self.labels)
            even = [max(0, min(full, number - i * full)) for i in range(len(self.shards))]
            self.same(f"{self.name} per shard", even, self.shards)
        for name, times in self.names.items():
            self.same(self.name, f"{name} once", f"{name} once" if times == 1 else f"it {times} times")
        for label, wnid in enumerate(sorted(self.wnids), start=self.base):
            self.same(f"{self.name} {wnid}", f"label {label}", f"label {', '.join(map(str, sorted(self.wnids[wnid])))}")
        return self.problems

    def mixed(self) -> None:
        """Note a problem where labels come in long runs, as after a shuffle that was applied to a copy.

        In n shuffled labels of which the most frequent has the share p, a run of k is less likely than n * p^k.
        """
        classes = Counter(self.labels)
        if len(classes) < 2:
            return
        share = classes.most_common(1)[0][1] / len(self.labels)
        longest, run = 1, 1
        for before, label in zip(self.labels, self.labels[1:], strict=False):
            run = run + 1 if label == before else 1
            longest = max(longest, run)
        bound = 3 + int(3 * log(len(self.labels)) / -log(share))
        if longest > bound:
            self.wrong(self.name, f"shuffled labels, at most {bound} equal ones in a row", f"{longest} in a row")


def together(splits: Sequence[Split], counts: Mapping[str, Any]) -> list[str]:
    """What is wrong with both splits together: the bytes of their images."""
    found = sum(split.bytes for split in splits)
    return [] if found == counts["image_bytes"] else [f"images: expected {counts['image_bytes']} bytes, found {found}"]


def numbered(check: Split, folder: Path, pattern: str, form: str) -> list[Path]:
    """The shards in order, by their names `form.format(i=…, n=…)`; a gap in the numbers is noted."""
    paths = sorted(folder.glob(pattern))
    expected = {form.format(i=i, n=len(paths)) for i in range(len(paths))}
    for name in sorted(expected - {path.name for path in paths}):
        check.wrong(name, f"one of {len(paths)} shards", "none")
    return paths
