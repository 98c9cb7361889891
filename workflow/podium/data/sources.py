"""Sources that Podium makes itself: the demo's generated data, or original-form sets assembled from sample files.

Both have the form in which each data set is distributed, so that the code that fetches and prepares the full sets
fetches and prepares these. The folder gets a manifest, against which `podium fetch` checks what it copies.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from podium import config as configuration
from podium import files, manifest
from podium.config import Config, DataSet
from podium.errors import BadInput


def source_folder(config: Config, dataset: DataSet) -> Path | None:
    """The folder that a set is fetched from, or None when it comes from servers: the catalog's, or a mirror."""
    kind, _, place = dataset.source.partition(":")
    if kind in ("catalog", "s3", "http", "https"):
        return None
    return Path(place) if kind == "file" else config.root / "sources" / dataset.name


def made(dataset: DataSet) -> bool:
    """Whether the set's source is made by `podium sources`."""
    return dataset.source.partition(":")[0] in ("demo", "samples")


def make(config: Config, dataset: DataSet) -> Path:
    """Make the source of one set and return its folder; an interrupted try leaves nothing behind."""
    folder = source_folder(config, dataset)
    kind, _, place = dataset.source.partition(":")
    if not made(dataset):
        raise BadInput(
            f"the source of {dataset.name} is not one that Podium makes",
            "demo or samples:FOLDER",
            dataset.source,
            f"podium fetch {dataset.name} --config {config.path}",
        )
    if kind == "samples" and not Path(place).is_dir():
        raise BadInput(
            f"the sample files of {dataset.name} are missing",
            "a folder with real sample files",
            f"nothing at {place}",
            f"correct data.sets.{dataset.name}.source in {config.path}",
        )
    maker = importlib.import_module(f"podium.data.{kind}.{dataset.name}")
    with files.replacing(folder) as fresh:
        if kind == "demo":
            maker.make(fresh)
        else:
            maker.make(Path(place), fresh)
        made_from = f"podium.data.{kind}.{dataset.name}"
        manifest.write(fresh, manifest.of_folder(fresh, params={"source": dataset.source}, made_from=made_from))
    return folder


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", help="imagenet, librispeech, kits19 or wikipedia")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium sources DATASET`."""
    config = configuration.load(args.config)
    folder = make(config, config.dataset(args.dataset))
    content = manifest.read(folder)
    size = manifest.total_bytes(content.files)
    print(f"sources {args.dataset}: {len(content.files)} files, {size / 1e6:.1f} MB in {folder}")
    return 0
