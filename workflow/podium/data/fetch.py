"""`podium fetch`: a data set's files into `<data>/<set>/raw`, each checked against its published size and hashes.

A file is streamed once, hashed on the way, and renamed when it is right; a cut download goes on where it stopped. The
next source is tried when one fails, and what every source said is told when all have.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config, DataSet
from podium.data import listing, sources
from podium.errors import BadInput
from podium.progress import bar

TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of data
PIECE = 1 << 16  # bytes read at a time: what a cut connection can lose
TRIES = 4


@dataclass(frozen=True)
class Wanted:
    """One file: where it lies below `raw`, what is known of it, and where it can be had, in order of preference."""

    path: str
    sources: tuple[str, ...]
    bytes: int | None = None
    sha256: str | None = None
    md5: str | None = None


class Refused(Exception):
    """A source did not give the file; the text says why."""


def wanted(config: Config, dataset: DataSet) -> list[Wanted]:
    """The files of a set: from the manifest or the names of a source folder, or from the catalog."""
    folder = sources.source_folder(config, dataset)
    if folder is None:
        return _from_catalog(dataset)
    if not folder.is_dir():
        command = "podium sources" if sources.made(dataset) else "ls"
        raise BadInput(
            f"the source of {dataset.name} is missing",
            f"a folder at {folder} (data.sets.{dataset.name}.source in {config.path})",
            "nothing there",
            f"{command} {dataset.name} --config {config.path}" if sources.made(dataset) else f"ls -ld {folder}",
        )
    if (folder / manifest.NAME).exists():
        entries = manifest.read(folder).files
        return [Wanted(entry.path, (f"file:{folder / entry.path}",), entry.bytes, entry.sha256) for entry in entries]
    names = files.walk(folder)
    if not names:
        raise BadInput(f"the source of {dataset.name} is empty", "files", f"none in {folder}", f"ls -lR {folder}")
    return [Wanted(str(name), (f"file:{folder / name}",), (folder / name).stat().st_size) for name in names]


def fetch(config: Config, dataset: DataSet) -> manifest.Manifest:
    """Bring every file of a set into `raw` and write the manifest; files that are there and right are kept.

    Raises BadInput for a file that no source gives with the right content, BadEnvironment for a full disk.
    """
    raw = plan.raw_folder(config, dataset.name)
    items = wanted(config, dataset)
    with files.locked(raw.with_name(".raw.lock")):
        missing = [item for item in items if not _present(raw, item)]
        files.need_space(raw, sum(item.bytes or 0 for item in missing), f"fetching {dataset.name}")
        for item in bar(missing, f"fetch {dataset.name}", unit="file"):
            _fetch_one(raw, item)
        for stray in sorted({str(path) for path in files.walk(raw)} - {item.path for item in items} - {manifest.NAME}):
            raise BadInput(f"a file in {raw} does not belong there", "only fetched files", stray, f"rm {raw / stray}")
        content = manifest.of_folder(raw, params={"source": dataset.source}, made_from=dataset.source)
        manifest.write(raw, content)
    return content


def _present(raw: Path, item: Wanted) -> bool:
    """Whether the file is there and right; one that is not is fetched again."""
    path = raw / item.path
    if not path.is_file() or (item.bytes is not None and path.stat().st_size != item.bytes):
        return False
    known = {name: value for name, value in (("sha256", item.sha256), ("md5", item.md5)) if value}
    return _digests(path, list(known)) == known


def _fetch_one(raw: Path, item: Wanted) -> None:
    refusals = []
    for source in item.sources:
        try:
            _from_source(source, raw / item.path, item)
            return
        except Refused as refusal:
            refusals.append(f"{source}: {refusal}")
    raise BadInput(
        f"no source gives {item.path}",
        _published(item),
        "\n            ".join(refusals) or "no source is known",
        "correct the source in the config, or place the file yourself and use source file:FOLDER",
    )


def _from_source(source: str, path: Path, item: Wanted) -> None:
    """Stream one file from one source; raises Refused when the source has not got it or its content is wrong."""
    part = path.with_name(f".{path.name}.part")
    with files.explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _local if urlsplit(source).scheme in ("file", "") else _remote
        for attempt in range(TRIES):
            try:
                stream(source, part)
                break
            except ConnectionError as error:
                if attempt == TRIES - 1:
                    raise Refused(str(error)) from error
                time.sleep(2**attempt)
        _check(part, item)
        part.replace(path)


def _local(source: str, part: Path) -> None:
    origin = Path(source.removeprefix("file:"))
    if not origin.is_file():
        raise Refused("no such file")
    try:
        reader = origin.open("rb")
    except PermissionError as error:
        raise Refused("no permission to read it") from error
    with reader, part.open("wb") as writer:
        while piece := reader.read(files.CHUNK):
            writer.write(piece)


def _remote(source: str, part: Path) -> None:
    """HTTP with a Range request from what is already there; raises ConnectionError where another try may help."""
    import requests

    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        with requests.get(source, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == 416:
                return
            if answer.status_code >= 500 or answer.status_code == 429:
                raise ConnectionError(f"HTTP {answer.status_code}")
            if answer.status_code not in (200, 206):
                raise Refused(f"HTTP {answer.status_code}")
            with part.open("ab" if answer.status_code == 206 else "wb") as writer:
                for piece in answer.iter_content(PIECE):
                    writer.write(piece)
    except requests.RequestException as error:
        raise ConnectionError(str(error)) from error


def _check(part: Path, item: Wanted) -> None:
    size = part.stat().st_size
    if item.bytes is not None and size != item.bytes:
        part.unlink()
        raise Refused(f"{item.bytes} bytes expected, {size} found")
    expected = {"sha256": item.sha256, "md5": item.md5}
    found = _digests(part, [name for name, value in expected.items() if value])
    for name, digest in found.items():
        if digest != expected[name]:
            part.unlink()
            raise Refused(f"{name} {expected[name]} expected, {digest} found")


def _digests(path: Path, algorithms: list[str]) -> dict[str, str]:
    """Several digests of a file in one reading."""
    hashes = {name: hashlib.new(name) for name in algorithms}
    if not hashes:
        return {}
    with path.open("rb") as file:
        while piece := file.read(files.CHUNK):
            for value in hashes.values():
                value.update(piece)
    return {name: value.hexdigest() for name, value in hashes.items()}


def _published(item: Wanted) -> str:
    facts = {"bytes": item.bytes, "sha256": item.sha256, "md5": item.md5}
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None) or "a file"


def _from_catalog(dataset: DataSet) -> list[Wanted]:
    entry = configuration.catalog(f"datasets/{dataset.name}")
    if entry["access"] != "public":
        raise BadInput(
            f"{dataset.name} cannot be fetched without you",
            f"access is {entry['access']}",
            "source: catalog",
            f"{entry['ask']} Then set data.sets.{dataset.name}.source to file:FOLDER",
        )
    found = listing.listed(entry) if "listings" in entry else [one for item in entry["files"] for one in _each(item)]
    return [
        Wanted(one["path"], tuple(one["sources"]), one.get("bytes"), one.get("sha256"), one.get("md5")) for one in found
    ]


def _each(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The item of a catalog entry, or one for each row of the table it names, the {columns} filled in."""
    if "each" not in item:
        return [item]
    with (configuration.WORKFLOW / "catalog" / "datasets" / item["each"]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    facts = {key: template for key, template in item.items() if key not in ("each", "sources")}
    filled = []
    for row in rows:
        one = {key: template.format_map(row) for key, template in facts.items()}
        if "bytes" in one:
            one["bytes"] = int(one["bytes"])
        filled.append(one | {"sources": [source.format_map(row) for source in item["sources"]]})
    return filled


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium fetch DATASET`."""
    config = configuration.load(args.config)
    dataset = config.dataset(args.dataset)
    content = fetch(config, dataset)
    size = manifest.total_bytes(content.files)
    if args.json:
        print(json.dumps(content.as_json(), indent=1))
    else:
        where = plan.raw_folder(config, dataset.name)
        print(f"fetch {dataset.name}: {len(content.files)} files, {size / 1e6:.1f} MB, hashes right, in {where}")
    return 0
