"""Files in MLCommons' storage, which publishes a list of them instead of their addresses.

Of a listing L, `L.uri` is one line, the address below which the files are, and `L.md5` a list as md5sum writes it. What
the script mlc-r2-downloader.sh does beside (a browser, a login) is for sets that are not public; it is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from podium.errors import BadInput

TIMEOUT = (10, 60)  # seconds to connect, and between two pieces of data
_LINE = re.compile(r"([0-9a-f]{32}) [ *](?:\./)?(.+)")


def listed(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The files of a catalog entry with `listings`, in the form of its `files`, which tell what must be true of them.

    A file's name is kept, its folder is not. Raises BadInput when a listing is no listing, lacks files, or gives one
    another md5 than the catalog: then it is another data set.
    """
    known = {item["path"]: item for item in entry["files"]}
    found: dict[str, dict[str, Any]] = {}
    for item in entry["listings"]:
        for path, md5, address in _read(item["listing"]):
            name = PurePosixPath(path).name
            if name not in item.get("only", [name]):
                continue
            fact = known.get(name, {})
            if fact.get("md5", md5) != md5:
                raise _bad(item["listing"], f"md5 {fact['md5']} of {name}", md5)
            found[name] = {"path": name, "md5": md5} | fact | {"sources": [address, *fact.get("sources", [])]}
    if missing := sorted(known.keys() - found.keys()):
        raise _bad(", ".join(item["listing"] for item in entry["listings"]), "all files", f"none named {missing[0]}")
    return list(found.values())


def _read(listing: str) -> list[tuple[str, str, str]]:
    """Path, md5 and address of each file of a listing."""
    base = _get(f"{listing}.uri").strip()
    if "\n" in base or not base.startswith(("http://", "https://")):
        raise _bad(f"{listing}.uri", "one line, an address", f"{base[:80]!r}")
    files = []
    for line in _get(f"{listing}.md5").splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            raise _bad(f"{listing}.md5", "lines of md5sum", f"{line[:80]!r}")
        files.append((match[2], match[1], f"{base.rstrip('/')}/{match[2]}"))
    return files


def _get(address: str) -> str:
    import requests

    try:
        answer = requests.get(address, timeout=TIMEOUT, allow_redirects=False)
    except requests.RequestException as error:
        raise _bad(address, "an answer", str(error)) from error
    if answer.status_code != 200:
        raise _bad(address, "HTTP 200", f"HTTP {answer.status_code}")
    return answer.text


def _bad(listing: str, expected: str, found: str) -> BadInput:
    return BadInput(listing, expected, found, "try again later, or take the files from elsewhere: source file:FOLDER")
