"""The seeds of a result's runs, by the official seed checker's rules and in its words (package_checker.seed_checker).

Every run logs at least one, as an integer; none is logged twice from the same line of the same file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podium.verdict.official.compliance import Message
from podium.verdict.reading.logs import Broken, LogLine


@dataclass(frozen=True)
class Seed:
    """A logged seed: from which line of which program, and on which line of the log."""

    file: Any
    lineno: Any
    value: int
    line: int


@dataclass(frozen=True)
class Seeds:
    """The seeds of one log; `error` is why the checker cannot tell them."""

    found: tuple[Seed, ...]
    error: str = ""
    line: int = 0


def collect(lines: Sequence[LogLine], broken: Sequence[Broken]) -> Seeds:
    """The seeds among the lines with key `seed`; a log with a broken line has none for the checker."""
    if broken:
        pairs = [f"{item.text}\n  ^^  {item.why}" for item in broken]
        return Seeds(
            (), "\n".join(["Found parsing errors:", *pairs, "", "Log lines had parsing errors."]), broken[0].line
        )
    found = []
    for line in lines:
        try:
            place = line.value["metadata"]
            found.append(Seed(place["file"], place["lineno"], int(line.value["value"]), line.line))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            return Seeds((), str(error), line.line)
    return Seeds(tuple(found))


def check(runs: Sequence[tuple[str, Seeds]]) -> list[tuple[int, Message]]:
    """The errors over the runs of a result, given by path: which run (from 0), and what.

    Raises TypeError where a place cannot be compared: the checker falls over there.
    """
    errors: list[tuple[int, Message]] = []
    logged: dict[tuple[Any, Any, int], str] = {}
    for index, (path, seeds) in enumerate(runs):
        if seeds.error:
            text = f"Error found when querying seeds from {path}: {seeds.error}"
            errors.append((index, Message(text, "seed-unreadable", "seed", seeds.line, "an integer", seeds.error)))
            continue
        if not seeds.found:
            text = f"Result file {path} logs no seed."
            errors.append((index, Message(text, "seed-missing", "seed", 0, "at least one seed", "none")))
        for seed in seeds.found:
            place = (seed.file, seed.lineno, seed.value)
            if place in logged:
                text = (
                    f"Result file {path} logs seed {seed.value} on {seed.file}:{seed.lineno}. However, "
                    f"result file {logged[place]} already logs the same seed on the same line."
                )
                found = f"{seed.value}, which {logged[place].rsplit('/', 1)[-1]} has too"
                expected = "a seed of its own for every run"
                errors.append((index, Message(text, "seed-repeated", "seed", seed.line, expected, found)))
            else:
                logged[place] = path
    return errors
