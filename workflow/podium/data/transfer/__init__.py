"""Bytes from elsewhere: one engine (segments.py), and one thin reader for each kind of address.

A reader is a module with two functions; both raise Refused or Again, `read` also Changed.

    look(address) -> Remote                          what the source says of a file, by one short request
    read(address, remote, start, stop) -> pieces     its bytes from `start` to before `stop`
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from urllib.parse import urlsplit

CONNECT, SILENCE = 10.0, 30.0  # seconds until a connection must stand, and that a source may be silent
PIECE = 1 << 18  # bytes read at a time


@dataclass(frozen=True)
class Wanted:
    """One file: its path below the folder, where it can be had in order of preference, and what is published of it.

    `hashes` maps the names of algorithms, "sha256" or "md5", to hex digests.
    """

    path: str
    sources: Sequence[str]
    bytes: int | None = None
    hashes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Remote:
    """What a source says of a file: its size where it tells, whether parts of it can be asked for, and a tag that
    changes when its content does."""

    bytes: int | None
    ranges: bool
    tag: str | None = None


class Refused(Exception):
    """A source does not give the file, and asking again does not help; the text says why."""


class Again(Exception):
    """A source did not answer as it should, and may do so later: after `after` seconds, where it said that."""

    def __init__(self, text: str, after: float | None = None) -> None:
        super().__init__(text)
        self.after = after


class Changed(Exception):
    """A source now has another file under the same address."""


def reader(address: str) -> ModuleType:
    """The module that reads an address: http(s)://HOST/PATH, s3://BUCKET/KEY, file:PATH."""
    scheme = urlsplit(address).scheme
    name = {"http": "http", "https": "http", "s3": "s3", "file": "local"}[scheme]
    return importlib.import_module(f"podium.data.transfer.{name}")


def place(address: str) -> str:
    """The host, bucket or file system of an address: what is up or down as a whole."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "this file system"
