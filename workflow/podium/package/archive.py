"""`podium archive`: the submission tree as `<org>.tar.gz` with sha1, sha256 and a receipt.

The same tree gives the same bytes: names sorted, owners and times of the files left out (MLPerf submission practice:
a tarball of the organisation's folder and its sha1).
"""

from __future__ import annotations

import argparse
import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import podium
from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.errors import BadInput, Findings
from podium.package.layout import manifest_file
from podium.progress import bar
from podium.verdict.score.score import label


def archive(config: Config) -> dict[str, Any]:
    """Write the archive of a checked tree, its hashes and its receipt; returns the receipt.

    Raises BadInput where the tree is not the one that was packed, Findings where its check found anything.
    """
    tree = plan.tree_folder(config)
    content = _packed(config, tree)
    target = archive_file(config)
    files.need_space(target.parent, manifest.total_bytes(content.files), "the archive")
    with (
        files.writing(target) as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for entry in bar(content.files, "archive", unit="file"):
            _add(tar, tree, entry)
    hashes = {name: files.hash_file(target, name) for name in ("sha1", "sha256")}
    for name, digest in hashes.items():
        files.write_text(target.with_name(f"{target.name}.{name}"), f"{digest}  {target.name}\n")
    verdict = files.read_json(checked_file(config))
    receipt = {
        "archive": target.name,
        "label": label(config),
        "bytes": target.stat().st_size,
        **hashes,
        "tree": content.sha256,
        "files": len(content.files),
        "round": verdict["round"],
        "division": "none" if config.inhouse else config.submission.division,
        "checker": verdict["checker"],
        "tool": f"podium {podium.__version__}",
    }
    files.write_json(receipt_file(config), receipt)
    return receipt


def archive_file(config: Config) -> Path:
    kind = "-inhouse" if config.inhouse else ""
    return config.root / "archive" / f"{config.submission.org}{kind}.tar.gz"


def receipt_file(config: Config) -> Path:
    return config.root / "archive" / "receipt.json"


def checked_file(config: Config) -> Path:
    """The answer of `podium check` about the tree."""
    return config.root / "verdicts" / "submission.json"


def _packed(config: Config, tree: Path) -> manifest.Manifest:
    """The tree's manifest, after the tree and its verdict were held to it."""
    where = manifest_file(config)
    if not where.exists():
        raise BadInput("nothing is packed", str(where), "nothing", f"podium pack --config {config.path}")
    content = manifest.Manifest(files=tuple(manifest.Entry(**entry) for entry in files.read_json(where)["files"]))
    if found := manifest.differences(tree, content):
        raise BadInput(
            f"{tree} was changed after it was packed",
            "the files of its manifest",
            "\n    ".join(found),
            f"podium pack --config {config.path}",
        )
    check = checked_file(config)
    command = f"podium check --verdict {check} --config {config.path}"
    if not check.exists():
        raise BadInput(f"{tree} is not checked", str(check), "nothing", command)
    verdict = files.read_json(check)
    if missing := sorted({"verdict", "round", "checker"} - verdict.keys()):
        raise BadInput(f"{check} is not of this version", ", ".join(missing), "none", command)
    if verdict["verdict"] != "compliant":
        raise Findings(f"{tree} cannot be archived", "a compliant tree", verdict["verdict"], command)
    return content


def _add(tar: tarfile.TarFile, tree: Path, entry: manifest.Entry) -> None:
    path = tree / entry.path
    info = tarfile.TarInfo(f"{tree.name}/{entry.path}")
    info.size = entry.bytes
    info.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
    with path.open("rb") as file:
        tar.addfile(info, file)


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium archive`."""
    config = configuration.load(args.config)
    receipt = archive(config)
    if args.json:
        print(json.dumps(receipt, indent=1))
    else:
        print(f"archive: {archive_file(config)}, {receipt['bytes'] / 1e6:.2f} MB, sha256 {receipt['sha256'][:16]}…")
    return 0
