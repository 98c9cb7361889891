"""`podium fetch --plan`: what fetching would take, asked before hours of work. Nothing is kept of what is read here."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from podium import plan
from podium.config import Config
from podium.data import catalog
from podium.data.transfer import Again, Changed, Refused, Wanted, place, reader
from podium.errors import BadInput

DEADLINE = 12.0  # seconds for all places together: names that do not resolve take that long
SAMPLE, SAMPLE_SECONDS = 8 << 20, 3.0  # of a file, to measure the rate
GIGABIT = 125e6  # bytes a second
Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer:
    """What one place said of one of its files. `up` is whether it said anything, `says` is "ok" where it gives it."""

    place: str
    address: str
    up: bool
    says: str
    bytes: int | None = None
    seconds: float | None = None
    bytes_per_second: float | None = None


def firsts(addresses: Sequence[str]) -> list[str]:
    """Of each place its first address, in their order."""
    found: dict[str, str] = {}
    for address in addresses:
        found.setdefault(place(address), address)
    return list(found.values())


def probe(addresses: Sequence[str], sample: bool = True) -> dict[str, Answer]:
    """Ask for each address, all at once, within the deadline; `sample` also measures the rate of one connection."""
    answers = _side_by_side({address: lambda a=address: _ask(a, sample) for address in dict.fromkeys(addresses)})
    late = f"no answer in {DEADLINE:.0f} s"
    return {address: answers.get(address) or Answer(place(address), address, False, late) for address in addresses}


def answering(items: Sequence[Wanted], advice: str) -> list[Wanted]:
    """The items without the sources whose place does not answer; raises BadInput where a file then has none."""
    answers = probe(firsts([source for item in items for source in item.sources]), sample=False)
    by_place = {answer.place: answer for answer in answers.values()}
    kept = []
    for item in items:
        sources = tuple(source for source in item.sources if by_place[place(source)].up)
        if item.sources and not sources:
            said = (by_place[name] for name in dict.fromkeys(map(place, item.sources)))
            found = "\n            ".join(f"{answer.place}: {answer.says}" for answer in said)
            raise BadInput(f"no source of {item.path} answers", "a server that can be reached", found, advice)
        kept.append(Wanted(item.path, sources, item.bytes, item.hashes))
    return kept


def preview(config: Config, names: Sequence[str]) -> list[dict[str, Any]]:
    """One row a set: sizes, where it goes and whether it fits, hours, and what its sources say."""
    entries = {name: catalog.entry(name) for name in names}
    asked = {name: firsts(catalog.addresses(facts)) for name, facts in entries.items()}
    answers = probe([address for those in asked.values() for address in those])
    listed = _side_by_side(
        {
            name: lambda f=facts: catalog.wanted(f)
            for name, facts in entries.items()
            if "listings" in facts and any(answers[address].says == "ok" for address in asked[name])
        }
    )
    for name, items in listed.items():
        asked[name] = firsts([source for item in items for source in item.sources])
    answers |= probe([address for name in listed for address in asked[name]])
    return [
        _row(config, facts, listed.get(name), [answers[address] for address in asked[name]])
        for name, facts in entries.items()
    ]


def _ask(address: str, sample: bool) -> Answer:
    began = time.monotonic()
    try:
        remote = reader(address).look(address)
        seconds = time.monotonic() - began
        rate = _rate(address, remote) if sample and remote.bytes else None
    except Again as error:
        return Answer(place(address), address, False, str(error))
    except (Refused, Changed) as error:
        return Answer(place(address), address, True, str(error))
    return Answer(place(address), address, True, "ok", remote.bytes, round(seconds, 3), rate)


def _rate(address: str, remote: Any) -> float | None:
    """Bytes a second of one connection, or None for a file too small to tell."""
    began, count = time.monotonic(), 0
    for piece in reader(address).read(address, remote, 0, min(remote.bytes, SAMPLE) if remote.ranges else None):
        count += len(piece)
        if count >= SAMPLE or time.monotonic() - began > SAMPLE_SECONDS:
            break
    return round(count / (time.monotonic() - began)) if count >= SAMPLE >> 3 else None


def _side_by_side(tasks: Mapping[str, Callable[[], Result]]) -> dict[str, Result]:
    """The results of the tasks that end within the deadline; daemons, for a name lookup cannot be ended."""
    results: dict[str, Result] = {}

    def do(name: str, task: Callable[[], Result]) -> None:
        try:
            results[name] = task()
        except BadInput:
            return  # a listing that is none: the probe of its address says so

    threads = [threading.Thread(target=do, args=task, daemon=True) for task in tasks.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + DEADLINE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(results)


def _row(
    config: Config, facts: Mapping[str, Any], listed: Sequence[Wanted] | None, answers: Sequence[Answer]
) -> dict[str, Any]:
    items = listed if listed is not None else catalog.known(facts)
    whole = listed is not None or "listings" not in facts
    exact = whole and all(item.bytes is not None for item in items)
    size = sum(item.bytes for item in items) if exact else facts["footprint"]["raw"]
    where = plan.raw_folder(config, facts["name"])
    existing = next(folder for folder in (where, *where.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    rates = [answer.bytes_per_second for answer in answers if answer.bytes_per_second]
    return {
        "set": facts["name"],
        "title": facts["title"],
        "benchmarks": facts["benchmark"],
        "licence": facts["licence"],
        "access": facts["access"],
        "ask": facts.get("ask"),
        "untried": facts.get("untried"),
        "files": len(items) if whole else None,
        "bytes": size,
        "bytes_exact": exact,
        "footprint": facts["footprint"],
        "goes_to": str(where),
        "free": free,
        "fits": free >= facts["footprint"]["peak"],
        "bytes_per_second": max(rates, default=None),  # of one connection
        "hours": round(size / max(rates) / 3600, 2) if rates else None,
        "hours_at_1_gbit": round(size / GIGABIT / 3600, 2),
        "sources": [asdict(answer) for answer in answers],
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows for people."""
    lines = []
    for row in rows:
        peak, free = row["footprint"]["peak"], row["free"]
        about = "" if row["bytes_exact"] else "about "
        hours = f"{row['hours']} h at the measured {row['bytes_per_second'] / 1e6:.0f} MB/s, " if row["hours"] else ""
        lines += [
            f"{row['set']}: {row['title']} ({row['access']}; {row['licence']})",
            f"    size     {about}{row['bytes'] / 1e9:,.1f} GB to fetch; {hours}{row['hours_at_1_gbit']} h at 1 Gbit/s",
            "    on disk  " + ", ".join(f"{name} {size / 1e9:,.1f} GB" for name, size in row["footprint"].items()),
            f"    goes to  {row['goes_to']}: {free / 1e9:,.1f} GB free, "
            + ("fits" if row["fits"] else f"TOO SMALL by {(peak - free) / 1e9:,.1f} GB"),
        ]
        lines += [f"    source   {answer['place']}: {answer['says']}" for answer in row["sources"]]
        lines += [f"    ask      {row['ask']}"] if row["ask"] and row["access"] != "public" else []
    return "\n".join(lines)
