"""`podium fetch`: a data set's files into `<data>/<set>/raw`, each checked against its published size and hashes.

The engine is in transfer/; here is which files are wanted and from where, and the manifest of what came.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config, DataSet
from podium.data import catalog, layout, preview, sources
from podium.data.transfer import Refused, Wanted
from podium.data.transfer.gather import gather
from podium.data.transfer.line import text
from podium.errors import BadInput

Files = tuple[list[Wanted], dict[str, Any]]  # of a set, and the marks that its manifest has


def wanted(config: Config, dataset: DataSet) -> Files:
    """The files of a set: from the manifest or the names of a source folder or a mirror, or from the catalog."""
    folder = sources.source_folder(config, dataset)
    if folder is None:
        return (catalog.wanted(catalog.entry(dataset.name)), {}) if dataset.source == "catalog" else _mirrored(dataset)
    if not folder.is_dir():
        command = "podium sources" if sources.made(dataset) else "ls"
        raise BadInput(
            f"the source of {dataset.name} is missing",
            f"a folder at {folder} (data.sets.{dataset.name}.source in {config.path})",
            "nothing there",
            f"{command} {dataset.name} --config {config.path}" if sources.made(dataset) else f"ls -ld {folder}",
        )
    if (folder / manifest.NAME).exists():
        return _listed(manifest.read(folder), f"file:{folder}")
    names = files.walk(folder)
    if not names:
        raise BadInput(f"the source of {dataset.name} is empty", "files", f"none in {folder}", f"ls -lR {folder}")
    return [Wanted(str(name), (f"file:{folder / name}",), (folder / name).stat().st_size) for name in names], {}


def _mirrored(dataset: DataSet) -> Files:
    """The files of a mirror: those of its manifest, as `podium stage` leaves it, or those that the catalog names."""
    base = dataset.source.rstrip("/")
    try:
        return _listed(manifest.parsed(text(f"{base}/{manifest.NAME}"), f"{base}/{manifest.NAME}"), base)
    except Refused as refusal:
        facts = catalog.entry(dataset.name)
        if "listings" in facts:
            raise BadInput(
                f"nobody says which files of {dataset.name} are in {base}",
                f"{manifest.NAME}, as `podium stage` makes it",
                str(refusal),
                f"podium stage {dataset.name} --to PLACE, on the machine that has the files",
            ) from refusal
        known = catalog.known(facts)
        return [Wanted(item.path, (f"{base}/{item.path}",), item.bytes, item.hashes) for item in known], {}


def _listed(content: manifest.Manifest, base: str) -> Files:
    items = [
        Wanted(entry.path, (f"{base}/{entry.path}",), entry.bytes, {"sha256": entry.sha256}) for entry in content.files
    ]
    return items, content.marks


def fetch(config: Config, dataset: DataSet) -> manifest.Manifest:
    """Bring every file of a set into `raw` and write the manifest; files that are there and right are kept.

    Raises BadInput for a file that no source gives with the right content, BadEnvironment for a full disk.
    """
    if dataset.as_it_is:
        raise BadInput(
            f"{dataset.name} is read where it lies",
            "a layout that is made of fetched files",
            f"layout {dataset.layout}",
            f"podium prepare {dataset.name} --config {config.path}",
        )
    raw = plan.raw_folder(config, dataset.name)
    items, marks = wanted(config, dataset)
    advice = "correct the source in the config, or place the files yourself and use source file:FOLDER"
    if dataset.source == "catalog":
        facts = catalog.entry(dataset.name)
        advice = facts.get("ask", "try again later") + f" Or set data.sets.{dataset.name}.source to file:FOLDER"
        items = preview.answering(items, advice)
        there = sum((raw / path).stat().st_blocks * 512 for path in files.walk(raw))
        files.need_space(raw, facts["footprint"]["raw"] - there, f"fetching {dataset.name}")
    with files.locked(raw.with_name(".raw.lock")):
        entries = gather(raw, items, config.transfer, f"fetch {dataset.name}", advice)
        for leftover in raw.glob(f".{manifest.NAME}.*"):  # of a process that was killed while it wrote it
            leftover.unlink()
        for stray in sorted({str(path) for path in files.walk(raw)} - {item.path for item in items} - {manifest.NAME}):
            raise BadInput(f"a file in {raw} does not belong there", "only fetched files", stray, f"rm {raw / stray}")
        layout.check(dataset.name, raw)
        params = {"source": dataset.source}
        content = manifest.Manifest(files=entries, counts=marks, params=params, made_from=dataset.source)
        manifest.write(raw, content)
    return content


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "dataset", nargs="*", help="one set of the config; with --plan any of the catalog, or none: all"
    )
    parser.add_argument(
        "--plan", action="store_true", help="fetch nothing: sizes, free space, hours, and which sources answer"
    )
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium fetch DATASET`, or `podium fetch --plan [DATASET ...]`."""
    config = configuration.load(args.config)
    if args.plan:
        rows = preview.preview(config, args.dataset or catalog.names())
        print(json.dumps(rows, indent=1) if args.json else preview.table(rows))
        return 0
    if len(args.dataset) != 1:
        raise BadInput("fetch which set?", "one", ", ".join(args.dataset) or "none", "podium fetch --plan shows all")
    dataset = config.dataset(args.dataset[0])
    content = fetch(config, dataset)
    size = manifest.total_bytes(content.files)
    if args.json:
        print(json.dumps(content.as_json(), indent=1))
    else:
        where = plan.raw_folder(config, dataset.name)
        print(f"fetch {dataset.name}: {len(content.files)} files, {size / 1e6:.1f} MB, hashes right, in {where}")
    return 0
