"""`podium upload`: the archive, its hashes and its receipt to S3, in parts, resumed where cut, read back and compared.

Credentials come from where boto3 looks for them (environment, AWS_PROFILE, instance role), the endpoint from
AWS_ENDPOINT_URL or the profile; none of them is ever printed. The receipt goes last: where it is, everything is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from podium import config as configuration
from podium import files, manifest
from podium.config import Config
from podium.errors import BadInput, Findings
from podium.manifest import Entry
from podium.package.archive import NAME, archive_file, receipt_file
from podium.progress import counter


def upload(config: Config, to: str) -> list[Entry]:
    """Bring the archive to `to` (s3://BUCKET/PREFIX); returns the files that now lie there.

    An encrypted archive goes instead of the plain one, never beside it. Raises BadInput where the archive is not
    that of its receipt or the storage does not take it, Findings where what arrived is something else.
    """
    from podium.data.transfer import Refused
    from podium.data.transfer import upload as transfer
    from podium.data.transfer.line import line

    entries, folder = wanted(config), archive_file(config).parent
    place = to.rstrip("/")
    try:
        with (
            counter(f"upload to {place}", 2 * manifest.total_bytes(entries), "B") as arrived,  # there, and back
            line(config.transfer, arrived) as way,
        ):
            there = transfer.names(place, way)
            for entry in entries:
                transfer.send(folder / entry.path, f"{place}/{entry.path}", entry, entry.path in there, way)
            problems = transfer.differences(place, entries, way)
    except Refused as refusal:
        raise BadInput(
            f"{place} does not take the archive",
            "a bucket that you may write to",
            str(refusal),
            "make the bucket, or set AWS_PROFILE, AWS_ENDPOINT_URL and the like; the next try goes on from here",
        ) from refusal
    if problems:
        raise Findings(
            f"{place} does not hold what was sent",
            "every file with its size and sha256",
            "\n    ".join(problems),
            f"podium upload --to {to} --config {config.path} sends what differs again",
        )
    return entries


def wanted(config: Config) -> list[Entry]:
    """What goes: the encrypted archive or else the plain one, the hashes that belong to it, the receipt.

    Raises BadInput where the archive is not that of the receipt.
    """
    if not receipt_file(config).exists():
        raise BadInput(
            "nothing is archived", str(receipt_file(config)), "nothing", f"podium archive --config {config.path}"
        )
    receipt = files.read_json(receipt_file(config))
    facts = receipt["encrypted"] or receipt
    folder = archive_file(config).parent
    path = folder / facts["archive"]
    found = files.hash_file(path) if path.exists() else "nothing"
    if found != facts["sha256"]:
        raise BadInput(
            f"{path} is not the archive of its receipt",
            f"sha256 {facts['sha256']}",
            found,
            f"podium archive --config {config.path}",
        )
    stem = path.name.removesuffix(".tar.gz")
    hashes = [folder / name for name in (f"{path.name}.sha1", f"{path.name}.sha256", f"{stem}.sha1")]
    return [_entry(item) for item in (path, *(item for item in hashes if item.exists()), folder / NAME)]


def _entry(path: Path) -> Entry:
    return Entry(path.name, path.stat().st_size, files.hash_file(path))


def _told(entries: Sequence[Entry], place: str) -> str:
    return "\n".join(
        f"  {entry.bytes:>14,} bytes  sha256 {entry.sha256[:16]}…  {place}/{entry.path}" for entry in entries
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="s3://BUCKET/PREFIX", help="where to (default: package.upload of the config)")
    parser.add_argument("--dry-run", action="store_true", help="say what would go where, and send nothing")
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium upload`."""
    config = configuration.load(args.config)
    to = args.to or config.package.upload
    if not to or not to.startswith("s3://"):
        raise BadInput(
            "nowhere to upload to",
            "--to s3://BUCKET/PREFIX, or package.upload in the config",
            str(to),
            "podium upload --to …",
        )
    place = to.rstrip("/")
    entries = wanted(config) if args.dry_run else upload(config, to)
    if args.json:
        sent = [{"to": f"{place}/{entry.path}", "bytes": entry.bytes, "sha256": entry.sha256} for entry in entries]
        print(json.dumps({"dry_run": args.dry_run, "files": sent}, indent=1))
        return 0
    size = manifest.total_bytes(entries) / 1e6
    print(
        f"upload: {len(entries)} files, {size:.2f} MB "
        + ("would go:" if args.dry_run else "there, read back, hashes right:")
    )
    print(_told(entries, place))
    return 0
