"""`podium verify`: a prepared data set against its manifest and against what must hold of it by its own format."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from podium import config as configuration
from podium import files, manifest, plan
from podium.data import layout as rules
from podium.data.prepare import module
from podium.errors import Findings

RAW = "raw"  # the layout of sets that are read as they are fetched; the catalog says what must lie there


def problems(dataset: str, folder: Path, layout: str, depth: str) -> list[str]:
    """Everything wrong with a prepared folder, one sentence each.

    `depth`: "quick" compares names, sizes and counts; "full" also every hash and every record.
    """
    content = manifest.read(folder)
    found = manifest.differences(folder, content, depth)
    if layout == RAW:
        found += rules.problems(dataset, folder)
    elif depth == "full":
        found += module(dataset).invariants(folder, layout, content.counts)
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset")
    parser.add_argument("--depth", choices=("quick", "full"), default="full", help="quick: names and sizes only")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium verify DATASET`: writes `<layout>.verify.json` beside the data; status 1 where anything is wrong."""
    config = configuration.load(args.config)
    dataset = config.dataset(args.dataset)
    folder = plan.layout_folder(config, dataset)
    found = problems(dataset.name, folder, dataset.layout, args.depth)
    again = "fetch" if dataset.layout == RAW else "prepare"
    if found:
        raise Findings(
            f"{folder} is not what it must be",
            "what its manifest and its format say",
            f"{len(found)} problems:\n    " + "\n    ".join(found),
            f"rm -r {folder} && podium {again} {dataset.name} --config {config.path}",
        )
    content = manifest.read(folder)
    answer = {"manifest": content.sha256, "depth": args.depth, "problems": found, "counts": dict(content.counts)}
    files.write_json(verified_file(folder), answer)
    print(
        json.dumps(answer) if args.json else f"verify {dataset.name}: {len(content.files)} files right ({args.depth})"
    )
    return 0


def verified_file(folder: Path) -> Path:
    """Where the answer about a layout folder is written."""
    return folder.with_name(f"{folder.name}.verify.json")
