"""Files to S3 and what speaks like it, in parallel parts; an upload that was cut goes on with what arrived."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from podium.data.transfer import Changed, Refused, Remote, s3, segments
from podium.manifest import Entry

PART = 16 << 20  # bytes; S3 takes at most 10,000 parts, of at least 5 MiB
MOST_PARTS = 9_000


def send(path: Path, address: str, entry: Entry, present: bool, way: segments.Line) -> None:
    """Bring one file to `address`, unless an object that is `present` has its size and bears its sha256.

    Raises Refused where the storage does not take it, or the file is not that of the entry.
    """
    bucket, key = s3.split(address)
    where = {"Bucket": bucket, "Key": key}
    if present and _is(where, entry, way):
        way.arrived(entry.bytes)
        return
    if path.stat().st_size != entry.bytes:
        raise Refused(f"{entry.bytes} bytes expected, {path.stat().st_size} found in {path}")
    if entry.bytes <= PART:
        _ask(way, s3.client().put_object, **where, Body=path.read_bytes(), Metadata={"sha256": entry.sha256})
        way.arrived(entry.bytes)
        return
    size = max(PART, -(-entry.bytes // MOST_PARTS))
    upload, arrived = _open_upload(where, entry, way)
    where |= {"UploadId": upload}
    with path.open("rb") as file:
        futures = [
            way.connections.submit(_send_part, file.fileno(), number, start, size, where, arrived.get(number), way)
            for number, start in enumerate(range(0, entry.bytes, size), 1)
        ]
        try:
            parts = [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            concurrent.futures.wait(futures)  # they read the file
            raise
    _ask(way, s3.client().complete_multipart_upload, **where, MultipartUpload={"Parts": parts})


def put_text(address: str, text: str, way: segments.Line) -> None:
    """Write a small object."""
    bucket, key = s3.split(address)
    _ask(way, s3.client().put_object, Bucket=bucket, Key=key, Body=text.encode())


def names(address: str, way: segments.Line) -> set[str]:
    """The keys of all objects below `address`, relative to it."""
    bucket, prefix = s3.split(address + "/")
    pages = _pages(way, "list_objects_v2", Bucket=bucket, Prefix=prefix)
    return {item["Key"].removeprefix(prefix) for page in pages for item in page.get("Contents", ())}


def differences(base: str, entries: Sequence[Entry], way: segments.Line) -> list[str]:
    """Every way in which the objects below `base` differ from `entries`, one sentence each; all are read and hashed.

    One with other content is deleted, whatever sha256 it bears, so that the next try sends it.
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [
            text for text in pool.map(lambda entry: _difference(f"{base}/{entry.path}", entry, way), entries) if text
        ]


def _difference(address: str, entry: Entry, way: segments.Line) -> str | None:
    value, at = hashlib.sha256(), 0

    def go_on() -> None:
        nonlocal at
        for piece in s3.read(address, remote, at, remote.bytes) if at < remote.bytes else ():
            value.update(piece)
            at += len(piece)
            way.arrived(len(piece))

    try:
        remote: Remote = segments.patiently(lambda: s3.look(address), way.pause)
        if remote.bytes != entry.bytes:
            return f"{entry.path}: {entry.bytes} bytes expected, {remote.bytes} found"
        segments.patiently(go_on, way.pause)
    except (Refused, Changed) as error:
        return f"{entry.path}: {error}"
    if value.hexdigest() != entry.sha256:
        bucket, key = s3.split(address)
        _ask(way, s3.client().delete_object, Bucket=bucket, Key=key)
        return f"{entry.path}: sha256 {entry.sha256} expected, {value.hexdigest()} found"
    return None


def _is(where: Mapping[str, str], entry: Entry, way: segments.Line) -> bool:
    facts = _ask(way, s3.client().head_object, **where)
    return facts["ContentLength"] == entry.bytes and facts["Metadata"].get("sha256") == entry.sha256


def _open_upload(where: dict[str, str], entry: Entry, way: segments.Line) -> tuple[str, dict[int, tuple[int, str]]]:
    """The upload that an earlier try left, with size and tag of each part that arrived, or a new one."""
    for page in _pages(way, "list_multipart_uploads", Bucket=where["Bucket"], Prefix=where["Key"]):
        for upload in page.get("Uploads", ()):
            if upload["Key"] == where["Key"]:
                pages = _pages(way, "list_parts", **where, UploadId=upload["UploadId"])
                parts = [part for page in pages for part in page.get("Parts", ())]
                return upload["UploadId"], {part["PartNumber"]: (part["Size"], part["ETag"]) for part in parts}
    made = _ask(way, s3.client().create_multipart_upload, **where, Metadata={"sha256": entry.sha256})
    return made["UploadId"], {}


def _send_part(
    descriptor: int,
    number: int,
    start: int,
    size: int,
    where: Mapping[str, str],
    arrived: tuple[int, str] | None,
    way: segments.Line,
) -> dict[str, Any]:
    """Send one part, unless one with its md5 is there: the entity tag of a part is the md5 of its content."""
    body = os.pread(descriptor, size, start)
    if arrived != (len(body), f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'):
        way.wait_turn(len(body))
        answer = _ask(way, s3.client().upload_part, **where, PartNumber=number, Body=body)
        arrived = (len(body), answer["ETag"])
    way.arrived(len(body))
    return {"PartNumber": number, "ETag": arrived[1]}


def _pages(way: segments.Line, call: str, **arguments: Any) -> list[dict[str, Any]]:
    return _ask(way, lambda: list(s3.client().get_paginator(call).paginate(**arguments)))


def _ask(way: segments.Line, call: Any, **arguments: Any) -> Any:
    def try_once() -> Any:
        with s3.explained():
            return call(**arguments)

    return segments.patiently(try_once, way.pause)
