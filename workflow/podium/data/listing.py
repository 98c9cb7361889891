"""Files in MLCommons' storage, which publishes a list of them instead of their addresses.

Of a listing L, `L.uri` is one line, the address below which the files are, and `L.md5` a list as `rclone md5sum` writes
it: spaces stand for an md5 that the storage does not know. For sets that are not public the script mlc-r2-downloader.sh
opens a browser; here the variables in transfer/access.py open them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from podium.data.transfer import Refused, Wanted, segments
from podium.errors import BadInput

_LINE = re.compile(r"([0-9a-f]{32}| {32}) [ *](?:\./)?(.+)")


def listed(listings: Iterable[Mapping[str, Any]], known: Sequence[Wanted]) -> list[Wanted]:
    """The files of `listings`, which have to be what is `known` of them beforehand, and all that are known.

    A listing is {listing: address, into: folder, only: [paths], files: number, sha256: of sorted lines}. With `into`
    files keep the folders that they have in the listing, below that one; without it they lose them. Raises BadInput
    when it is no listing, has another number of files or other lines, lacks a file, or gives one another md5 than is
    known: then it is another data set.
    """
    expected = {item.path: item for item in known}
    found: dict[str, Wanted] = {}
    for item in listings:
        taken = [line for line in _read(item["listing"], item.get("sha256")) if line[0] in item.get("only", [line[0]])]
        if len(taken) != item.get("files", len(taken)):
            raise _bad(item["listing"], f"{item['files']} files", f"{len(taken)}")
        for path, md5, address in taken:
            name = str(PurePosixPath(item["into"], path)) if "into" in item else PurePosixPath(path).name
            fact = expected.get(name, Wanted(name, ()))
            hashes = ({"md5": md5} if md5 else {}) | fact.hashes
            if md5 and hashes["md5"] != md5:
                raise _bad(item["listing"], f"md5 {hashes['md5']} of {name}", md5)
            found[name] = replace(fact, sources=(address, *fact.sources), hashes=hashes)
    found |= {item.path: item for item in known if item.sources and item.path not in found}
    if missing := sorted(expected.keys() - found.keys()):
        raise _bad(", ".join(item["listing"] for item in listings), "all files", f"none named {missing[0]}")
    return list(found.values())


def _read(listing: str, sha256: str | None) -> list[tuple[str, str, str]]:
    """Path, md5 (empty where it is not known) and address of each file of a listing with those lines."""
    base = _text(f"{listing}.uri").strip()
    if "\n" in base or not base.startswith(("http://", "https://")):
        raise _bad(f"{listing}.uri", "one line, an address", f"{base[:80]!r}")
    files, lines = [], _text(f"{listing}.md5").splitlines()
    found = hashlib.sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).hexdigest()
    if sha256 not in (None, found):
        raise _bad(f"{listing}.md5", f"sha256 {sha256} of its sorted lines", f"{found} of {len(lines)} lines")
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            raise _bad(f"{listing}.md5", "lines of md5sum", f"{line[:80]!r}")
        files.append((match[2], match[1].strip(), f"{base.rstrip('/')}/{quote(match[2])}"))
    return files


def _text(address: str) -> str:
    try:
        return segments.text(address)
    except Refused as refusal:
        raise _bad(address, "an answer", str(refusal)) from refusal


def _bad(listing: str, expected: str, found: str) -> BadInput:
    return BadInput(listing, expected, found, "try again later, or take the files from elsewhere: source file:FOLDER")
