"""`podium archive`: the submission tree as `<org>.tar.gz` with sha1, sha256 and a receipt; encrypted where asked.

The same tree gives the same bytes: names sorted, owners and times of the files left out, compressed in blocks of one
size (MLPerf submission practice: a tarball of the organisation's folder and its sha1). The encrypted form is
`mlperf_submission_<org>.tar.gz` with `.sha1`, as the official pack_submission.sh names them, and never the same twice:
its salt is drawn anew.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import tarfile
import zlib
from pathlib import Path
from typing import Any

import podium
from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.errors import BadInput, Findings
from podium.package import blocks, seal
from podium.package.inspect import inspect, inspection_file, packed
from podium.package.layout import scrub_file
from podium.progress import bar
from podium.verdict.score.score import label

NAME = "receipt.json"


def archive(config: Config, force: bool = False, secret: str = "") -> dict[str, Any]:
    """Write the archive of the packed tree, its hashes and its receipt, all at once; returns the receipt.

    The tree is inspected first where it was not. Raises BadInput where the tree is not the one that was packed,
    Findings where any checker found anything, unless `force`. The last archive stays until the new one is complete.
    """
    tree, content = plan.tree_folder(config), packed(config, "quick")
    inspection = _inspection(config, content)
    if inspection["stopped_by"] and not force:
        raise Findings(
            f"{tree} cannot be archived",
            "a tree in which no checker finds anything",
            "\n    ".join([", ".join(inspection["stopped_by"]), *inspection["messages"][:20]]),
            f"podium inspect --config {config.path}; with --force it is archived all the same, and the receipt says so",
        )
    target = archive_file(config)
    files.need_space(target.parent, manifest.total_bytes(content.files) // 2, "the archive")
    with files.replacing(target.parent) as fresh:
        facts = _write(fresh / target.name, tree, content)
        sealed = _seal(fresh, config, secret) if config.package.encrypt != "none" else None
        receipt = {
            **facts,
            "encrypted": sealed,
            "label": label(config),
            "org": config.submission.org,
            "round": inspection["round"],
            "division": "none" if config.inhouse else config.submission.division,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "tree": content.sha256,
            "files": len(content.files),
            "counts": dict(content.counts),
            "checker": inspection["checker"],
            "inspection": {"verdict": inspection["verdict"], "stopped_by": inspection["stopped_by"]},
            "forced": force and bool(inspection["stopped_by"]),
            "scrub": _scrubbed(config),
            "tool": f"podium {podium.__version__}",
            "compressor": f"zlib {zlib.ZLIB_RUNTIME_VERSION}, level {blocks.LEVEL}, blocks of {blocks.BLOCK} bytes",
        }
        files.write_json(fresh / NAME, receipt)
    return receipt


def archive_file(config: Config) -> Path:
    kind = "-inhouse" if config.inhouse else ""
    return config.root / "archive" / f"{config.submission.org}{kind}.tar.gz"


def receipt_file(config: Config) -> Path:
    return config.root / "archive" / NAME


def stamp_file(config: Config) -> Path:
    """The receipt once more, for Snakemake: it deletes its outputs before a job, which must not befall an archive."""
    return plan.tree_folder(config).with_suffix(".archived.json")


def _inspection(config: Config, content: manifest.Manifest) -> dict[str, Any]:
    """What the checkers said of this very tree; asked now where they were not, or said no."""
    path = inspection_file(config)
    if path.exists() and (known := files.read_json(path)).get("tree") == content.sha256 and not known["stopped_by"]:
        return known
    return inspect(config)


def _write(target: Path, tree: Path, content: manifest.Manifest) -> dict[str, Any]:
    """The archive, with sha1 and sha256 beside it; `tar_sha256` is of what it holds, whatever compressed it."""
    with files.writing(target) as raw:
        hashing = _Hashing(raw, "sha1", "sha256")
        packer = blocks.Writer(hashing)
        try:
            stream = _Hashing(packer, "sha256")
            for entry in bar(content.files, "archive", unit="file"):
                _add(stream, tree, entry)
            stream.write(bytes(2 * tarfile.BLOCKSIZE))  # the end of a tar
            packer.close()
        finally:
            packer.abandon()
    for name, digest in hashing.digests().items():
        files.write_text(target.with_name(f"{target.name}.{name}"), f"{digest}  {target.name}\n")
    facts = {"archive": target.name, "bytes": target.stat().st_size, **hashing.digests()}
    return {**facts, "tar_sha256": stream.digests()["sha256"]}


class _Hashing:
    """A file to write to that hashes what goes through it."""

    def __init__(self, target: Any, *algorithms: str) -> None:
        self._target = target
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}

    def write(self, data: bytes) -> int:
        for digest in self._hashes.values():
            digest.update(data)
        return self._target.write(data)

    def digests(self) -> dict[str, str]:
        return {name: digest.hexdigest() for name, digest in self._hashes.items()}


def _add(stream: _Hashing, tree: Path, entry: manifest.Entry) -> None:
    """A file, held once more to its hash as it goes in."""
    path = f"{tree}/{entry.path}"
    with open(path, "rb") as file:  # noqa: PTH123 - as in scrub
        data, mode = file.read(), 0o755 if os.fstat(file.fileno()).st_mode & 0o100 else 0o644
    if (found := hashlib.sha256(data).hexdigest()) != entry.sha256:
        expected = f"sha256 {entry.sha256}"
        raise BadInput(f"{path} was changed after it was packed", expected, f"sha256 {found}", "podium pack")
    stream.write(header(f"{tree.name}/{entry.path}", len(data), mode))
    stream.write(data)
    stream.write(bytes(-len(data) % tarfile.BLOCKSIZE))


def header(name: str, size: int, mode: int) -> bytes:
    """A file's tar header (POSIX.1-1988 ustar), without owner and time; by tarfile where the name takes more than that.

    tarfile's own takes longer than all else that is done to a small file.
    """
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) > 100 or not name.isascii():
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, mode
        return info.tobuf(tarfile.PAX_FORMAT)
    start = encoded.ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + b"%011o\0" % size + b"%011o\0" % 0
    end = (b"0" + bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2).ljust(512 - 156, b"\0")
    return start + b"%06o\0 " % (sum(start) + 8 * 32 + sum(end)) + end


def _seal(folder: Path, config: Config, secret: str) -> dict[str, Any]:
    """The encrypted form, and its sha1 as the official script writes and reads it."""
    form = config.package.encrypt
    target = folder / f"mlperf_submission_{config.submission.org}.tar.gz"
    with files.writing(target) as file:
        seal.encrypt(folder / archive_file(config).name, file, form, secret)
    digest = files.hash_file(target, "sha1")
    files.write_text(target.with_name(f"mlperf_submission_{config.submission.org}.sha1"), f"{digest}  {target.name}\n")
    openssl = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=False).stdout.strip()
    facts = {"archive": target.name, "form": form, "bytes": target.stat().st_size, "sha1": digest}
    return {**facts, "sha256": files.hash_file(target), "openssl": openssl}


def _scrubbed(config: Config) -> dict[str, Any]:
    """How much the scrub replaced, by kind, and what it withheld; never the values."""
    path = scrub_file(config)
    found = files.read_json(path) if path.exists() else {"replaced": [], "withheld": {}}
    kinds: dict[str, int] = {}
    for item in found["replaced"]:
        kinds[item["kind"]] = kinds.get(item["kind"], 0) + item["places"]
    return {"replaced": kinds, "withheld": sorted(found["withheld"])}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="archive although a checker finds something; the receipt says so"
    )
    parser.add_argument("--password-file", type=Path, metavar="FILE", help=f"for package.encrypt (or {seal.VARIABLE})")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium archive`."""
    config = configuration.load(args.config)
    secret = seal.password(args.password_file) if config.package.encrypt != "none" else ""
    receipt = archive(config, args.force, secret)
    files.write_json(stamp_file(config), receipt)
    if args.json:
        print(json.dumps(receipt, indent=1))
        return 0
    print(f"archive: {archive_file(config)}, {receipt['bytes'] / 1e6:.2f} MB, sha256 {receipt['sha256'][:16]}…")
    if sealed := receipt["encrypted"]:
        place = archive_file(config).with_name(sealed["archive"])
        print(f"encrypted: {place}, sha1 {sealed['sha1']}; send the link, this sha1 and the password, the last apart")
    if receipt["forced"]:
        print(f"forced: {', '.join(receipt['inspection']['stopped_by'])} found something; the receipt says so")
    return 0
