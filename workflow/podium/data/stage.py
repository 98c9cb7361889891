"""`podium stage`: a prepared data set to node-local disks or to S3, and its manifest checked at the far end.

The far end gets the tree that the work root has, `<to>/<set>/<layout>/`: a node's config may then say `data.root: <to>`
and another site's `source: s3://BUCKET/<set>/raw`. What arrived in an earlier try is kept.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import AS_IT_IS, Config, DataSet
from podium.data.transfer import Refused, Wanted, upload
from podium.data.transfer.gather import gather
from podium.data.transfer.line import line
from podium.errors import BadInput, Findings
from podium.progress import counter


def stage(config: Config, dataset: DataSet, layout: str, to: str) -> str:
    """Copy one layout to a folder or to s3://BUCKET/PREFIX and check it there; returns where it now lies.

    Raises BadInput where the layout is not there or not what its manifest says, Findings where the far end differs.
    """
    folder = plan.layout_folder(config, dataset).with_name(layout)
    content = manifest.read(folder)
    if layout == AS_IT_IS:
        folder = plan.data_folder(config, dataset)
    place = f"{to.rstrip('/')}/{dataset.name}/{layout}"
    if to.startswith("s3://"):
        problems = _to_s3(config, folder, content, place)
    else:
        problems = _to_folder(config, folder, content, Path(place))
    if problems:
        raise Findings(
            f"{place} is not what the manifest of {folder} says",
            f"{len(content.files)} files, sha256 {content.sha256}",
            f"{len(problems)} problems:\n            " + "\n            ".join(problems),
            f"podium stage {dataset.name} --to {to} again mends what differs; remove what does not belong",
        )
    return place


def _to_folder(config: Config, folder: Path, content: manifest.Manifest, place: Path) -> list[str]:
    """Each file is hashed as it is read back from the far end, which is what `gather` refuses it by."""
    items = [
        Wanted(entry.path, (f"file:{folder.absolute() / entry.path}",), entry.bytes, {"sha256": entry.sha256})
        for entry in content.files
    ]
    with files.locked(place.with_name(f".{place.name}.lock")):
        advice = f"the source is damaged: podium verify, then rm -r {folder} and make it again"
        gather(place, items, config.transfer, f"stage to {place}", advice)
        manifest.write(place, content)
    return manifest.differences(place, content, "quick")


def _to_s3(config: Config, folder: Path, content: manifest.Manifest, place: str) -> list[str]:
    """The manifest goes last: where it is, everything is."""
    entries, size = content.files, manifest.total_bytes(content.files)
    try:
        with (
            counter(f"stage to {place}", 2 * size, "B") as arrived,  # once there and once back
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
            line(config.transfer, arrived) as way,
        ):
            there = upload.names(place, way)
            futures = [
                pool.submit(upload.send, folder / entry.path, f"{place}/{entry.path}", entry, entry.path in there, way)
                for entry in entries
            ]
            try:
                for future in concurrent.futures.as_completed(futures):
                    future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
            problems = upload.differences(place, entries, way)
            strays = there - {entry.path for entry in entries} - {manifest.NAME}
            if not problems:
                upload.put_text(f"{place}/{manifest.NAME}", json.dumps(content.as_json(), indent=1), way)
        return problems + [f"{name}: not in the manifest" for name in sorted(strays)]
    except Refused as refusal:
        raise BadInput(
            f"{place} does not take {folder}",
            "a bucket that you may write to",
            str(refusal),
            "make the bucket, or set AWS_PROFILE, AWS_ENDPOINT_URL and the like",
        ) from refusal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset")
    parser.add_argument("--to", required=True, metavar="PLACE", help="a folder, or s3://BUCKET/PREFIX")
    parser.add_argument("--layout", help="the layout, or raw (default: the layout in the config)")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium stage DATASET --to PLACE`."""
    config = configuration.load(args.config)
    dataset = config.dataset(args.dataset)
    place = stage(config, dataset, args.layout or dataset.layout, args.to)
    content = manifest.read(plan.layout_folder(config, dataset).with_name(args.layout or dataset.layout))
    size = manifest.total_bytes(content.files)
    if args.json:
        print(json.dumps({"place": place, "files": len(content.files), "bytes": size, "manifest": content.sha256}))
    else:
        print(f"stage {dataset.name}: {len(content.files)} files, {size / 1e6:.1f} MB, hashes right, in {place}")
    return 0
