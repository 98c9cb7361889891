"""What a foreign config exports: it is sourced by bash in a throw-away copy, shut in, with nothing of ours but NEXP.

A config is a program. It may compute (`$((NEXP * 80))`), source others, ask the machine, or do harm: all of that happens
in the copy, without network, and what it leaves in its environment is read.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podium.reproduce import sandbox
from podium.reproduce.folder import Folder
from podium.reproduce.sandbox import Inside

PARTS = ("*.sh", "*.env", "*.cfg", "*.conf", "*.txt", "*.csv", "*.json")  # what configs source or read
SECONDS = 20
TOLD = 6  # lines of bash's complaints that are kept
SCRIPT = r"""
trap 'env -0' EXIT
. "./$1" 1>&2
"""
OURS = frozenset(("PATH", "HOME", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "NEXP"))


@dataclass(frozen=True)
class Sourced:
    """What a config exports, and what is to be said of it: line ends, missing files, complaints of bash."""

    exports: Mapping[str, str]
    notes: tuple[str, ...]

    def number(self, name: str) -> int | None:
        """A whole number among the exports."""
        value = self.exports.get(name, "")
        return int(value) if re.fullmatch(r"\d{1,9}", value) else None

    @property
    def minutes(self) -> int | None:
        """WALLTIME in whole minutes; None where there is none, or no limit."""
        return minutes(self.exports.get("WALLTIME", ""))


def read(code: Folder, config: str, runs: int = 1) -> Sourced:
    """Source `config` of the folder `code` with NEXP=`runs`; raises BadEnvironment where nothing can shut it in."""
    with tempfile.TemporaryDirectory(prefix="podium-config-") as name:
        home, notes = Path(name), []
        work = home / "work"
        work.mkdir()
        notes += copied(code, work)
        inside = Inside(
            ("bash", "--norc", "--noprofile", "-c", SCRIPT, "config", config),
            workdir="/work",
            write=((str(work), "/work"),),
            environment={"NEXP": str(runs)},
            seconds=SECONDS,
            megabytes=8,
        )
        output = home / "exports"
        code_ = sandbox.run(inside, output).returncode
        exports = _exports(output.read_bytes())
        said = output.with_name("exports.err").read_bytes()[:65536].decode("utf-8", "replace")
    if code_ == 124:
        notes.append(f"{config} did not end within {SECONDS} s and was stopped")
    notes += _complaints(said)
    if "WALLTIME" in exports and minutes(exports["WALLTIME"]) is None and exports["WALLTIME"] != "UNLIMITED":
        notes.append(f"WALLTIME {exports['WALLTIME']!r} is no time")
    return Sourced(exports, tuple(dict.fromkeys(notes)))


def copied(code: Folder, to: Path) -> list[str]:
    """Copy what configs can source, two folders deep, with plain line ends; returns what was changed."""
    notes = []
    for place in (code, *(below for item in code.folders() for below in (item, *item.folders()))):
        target = to / place.path.relative_to(code.path)
        for name in place.matching(*PARTS):
            target.mkdir(parents=True, exist_ok=True)
            source = place.place / name
            if source.stat().st_size > 1 << 18:
                continue
            if b"\r\n" in source.read_bytes() and name.endswith((".sh", ".env")):
                if place.path == code.path:
                    notes.append(f"{name} has CRLF line ends: bash fails on them, they are taken off")
                (target / name).write_text(place.text(name), encoding="utf-8")
            else:
                shutil.copyfile(source, target / name)
    return notes


def minutes(text: str) -> int | None:
    """A Slurm time limit in whole minutes, rounded up: `minutes`, `[d-]hh:mm:ss`, `mm:ss`; None for UNLIMITED and others.

    Source: sbatch(1), --time.
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text.strip())
    if not found:
        return None
    days, first, second, third = (int(part) if part else None for part in found.groups())
    if days is not None:
        return days * 1440 + first * 60 + (second or 0) + bool(third)
    if third is not None:
        return first * 60 + (second or 0) + bool(third)
    return first + bool(second)


def _exports(output: bytes) -> dict[str, str]:
    pairs = (item.decode("utf-8", "replace").partition("=") for item in output.split(b"\0"))
    return {name: value for name, sign, value in pairs if sign and name not in OURS and "%%" not in name}


def _complaints(said: str) -> list[str]:
    """bash's own complaints; a missing file is told in our words."""
    found = []
    for line in said.splitlines():
        if missing := re.search(r": (\S+): No such file or directory", line):
            found.append(f"it sources {missing[1].rpartition('/')[2]}, which is missing")
        elif re.search(r": line \d+: ", line):
            found.append(f"bash: {line.partition(': ')[2][:160]}")
    return found[:TOLD]
