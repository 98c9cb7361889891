"""The catalog's entries, workflow/catalog/datasets/<set>.yaml, and the files that they want."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from podium import config as configuration
from podium.data import listing
from podium.data.transfer import Wanted, access
from podium.errors import BadInput

FOLDER = configuration.WORKFLOW / "catalog" / "datasets"


def names() -> list[str]:
    """Every set in the catalog."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def entry(name: str) -> Mapping[str, Any]:
    """The entry of a set; raises BadInput naming the nearest one."""
    return configuration.catalog(f"datasets/{name}")


def wanted(facts: Mapping[str, Any]) -> list[Wanted]:
    """The files of an entry, with those of its listings, which are asked for over the network.

    Raises BadInput where nobody but you can get them, or no listing is to be had.
    """
    closed(facts)
    items = known(facts)
    return listing.listed(facts["listings"], items) if "listings" in facts else items


def known(facts: Mapping[str, Any]) -> list[Wanted]:
    """The files of an entry as far as it names them itself."""
    return [
        Wanted(
            one["path"],
            tuple(one.get("sources", ())),
            int(one["bytes"]) if "bytes" in one else None,
            {name: one[name] for name in ("sha256", "md5") if name in one},
        )
        for item in facts.get("files", ())
        for one in _each(item)
    ]


def addresses(facts: Mapping[str, Any]) -> list[str]:
    """Every address that an entry names: of its listings, then of its files, each place first with its first file."""
    return [f"{item['listing']}.uri" for item in facts.get("listings", ())] + [
        source for item in known(facts) for source in item.sources
    ]


def closed(facts: Mapping[str, Any]) -> None:
    """Raise BadInput where Podium cannot get a set: what to accept where, and which variable or path to set."""
    if facts["access"] == "public":
        return
    asked = addresses(facts)
    if facts["access"] == "gated" and any(access.headers(address) for address in asked):
        return
    variables = access.advice(asked[0]) + " in the environment. Or: " if facts["access"] == "gated" else ""
    raise BadInput(
        f"{facts['name']} cannot be fetched without you",
        f"source: catalog only where access is public, or gated with its variables set; it is {facts['access']}",
        "source: catalog" + (", and no variable set" if variables else ""),
        f"{facts['ask']} Then {variables}set data.sets.{facts['name']}.source to file:FOLDER",
    )


def _each(item: dict[str, Any]) -> list[dict[str, Any]]:
    """The item itself, or one for each row of the table that it names, the {columns} filled in."""
    if "each" not in item:
        return [item]
    with (FOLDER / item["each"]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {
            key: [source.format_map(row) for source in value] if key == "sources" else value.format_map(row)
            for key, value in item.items()
            if key != "each"
        }
        for row in rows
    ]
