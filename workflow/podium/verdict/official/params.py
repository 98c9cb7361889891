"""`package_checker_params`: what a submission asks the package checker to pass over, and what the checker makes of it.

It can lie in three places. In the submission's root it holds flags for the checker's command line, one a line; the
round's verify script reads it with a shell loop that loses a last line without an end. In a system's or a result's
folder the checker itself reads it, and takes a line only where it is exactly the token: no line end after it, so only
the last line can count. Old rounds spelt the flags with underscores, which today's checker refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podium.verdict.findings import WARNING, Finding
from podium.verdict.tree import PARAMS

RCP, SEEDS, TRAIN_SAMPLES = "rcp-bypass", "seed-checker-bypass", "rcp-bert-train-samples"
_KNOWN = {"root": (RCP, SEEDS, TRAIN_SAMPLES), "system": (RCP, SEEDS), "result": (RCP, SEEDS)}


@dataclass(frozen=True)
class Parameter:
    """One line of a params file. `place` is root, system or result; `why` says why it counts or does not."""

    name: str
    place: str
    path: Path
    line: int
    counts: bool
    why: str


def read(folder: Path, place: str) -> list[Parameter]:
    """The parameters in a folder; raises OSError or UnicodeDecodeError where there is a file that cannot be read."""
    path = folder / PARAMS
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [_parameter(text, path, place, number) for number, text in enumerate(file, 1) if text.strip()]


def _parameter(text: str, path: Path, place: str, line: int) -> Parameter:
    name = text.strip().removeprefix("--").replace("_", "-")
    ended = text.endswith("\n")
    exact = text.removesuffix("\n") == name
    if name not in _KNOWN[place]:
        known = ", ".join(_KNOWN[place])
        return Parameter(name, place, path, line, False, f"nothing is known of it here; {known} are read in this place")
    if place == "root":
        if not ended:
            return Parameter(name, place, path, line, False, "the verify script loses a last line that has no end")
        why = "a flag of the checker" if exact else f"understood as {name}; today's checker refuses the old spelling"
        return Parameter(name, place, path, line, True, why)
    if text == name:
        return Parameter(name, place, path, line, True, "read by the checker")
    what = "with a line end after it" if exact else f"as {text.strip()}"
    return Parameter(name, place, path, line, False, f"the checker does not see it {what}: it must be {name}, unended")


def finding(parameter: Parameter, shown: str) -> Finding:
    """A line that does not count; `shown` is how its file is written."""
    expected = f"{' or '.join(_KNOWN[parameter.place])}, as the checker reads it"
    return Finding("params-ignored", WARNING, shown, parameter.line, expected, parameter.why, "", "says nothing")
