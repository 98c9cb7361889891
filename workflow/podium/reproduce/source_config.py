"""What a foreign config exports: it is sourced by bash in a throw-away copy, shut in, with nothing of ours but NEXP.

A config is a program. It may compute (`$((NEXP * 80))`), source others, ask the machine, or do harm: all of that
happens in the copy, without network, and what it leaves in its environment is read.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from podium.reproduce import sandbox
from podium.reproduce.folder import Folder
from podium.reproduce.sandbox import Inside

PARTS = ("*.sh", "*.env", "*.cfg", "*.conf", "*.txt", "*.csv", "*.json")  # what configs source or read
MISSING = re.compile(r": (\S+): No such file or directory")
SECONDS = 20
TOLD = 6  # lines of bash's complaints that are kept
SCRIPT = r"""
trap 'env -0' EXIT
case $1 in *.env) set -a ;; esac
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
    """Source `config` of the folder `code` with NEXP=`runs`; raises BadEnvironment where nothing can shut it in.

    A common file that is missing is taken from a folder beside it that has it, and that is told.
    """
    with tempfile.TemporaryDirectory(prefix="podium-config-") as name:
        home = Path(name)
        work = home / "work"
        work.mkdir()
        notes = copied(code, config, work)
        exports, said, ended = _source(home, config, runs)
        if lent := _lend(code, (work / config).parent, said):
            notes += lent
            exports, said, ended = _source(home, config, runs)
    if not ended:
        notes.append(f"{config} did not end within {SECONDS} s and was stopped")
    notes += _complaints(said)
    if "WALLTIME" in exports and minutes(exports["WALLTIME"]) is None and exports["WALLTIME"] != "UNLIMITED":
        notes.append(f"WALLTIME {exports['WALLTIME']!r} is no time")
    return Sourced(exports, tuple(dict.fromkeys(notes)))


def _source(home: Path, config: str, runs: int) -> tuple[dict[str, str], str, bool]:
    """What it exports, what bash said, whether it came to an end."""
    inside = Inside(
        ("bash", "--norc", "--noprofile", "-c", SCRIPT, "config", config),
        workdir="/work",
        write=((str(home / "work"), "/work"),),
        environment={"NEXP": str(runs)},
        seconds=SECONDS,
        megabytes=8,
    )
    output = home / "exports"
    code = sandbox.run(inside, output).returncode
    said = output.with_name("exports.err").read_bytes()[:65536].decode("utf-8", "replace")
    return _exports(output.read_bytes()), said, code != 124


def _lend(code: Folder, to: Path, said: str) -> list[str]:
    """Copy files that bash missed from the folders beside the code; what was taken from where."""
    above = code.at("..")
    found = []
    for name in dict.fromkeys(PurePosixPath(path).name for path in MISSING.findall(said)):
        owner = next((item for item in (above.folders() if above else ()) if name in item.matching(*PARTS)), None)
        if owner is not None:
            (to / name).write_text(owner.text(name), encoding="utf-8")
            found.append(f"{name} is missing; that of {owner.name} is taken")
    return found


def copied(code: Folder, config: str, to: Path) -> list[str]:
    """Copy what configs can source, two folders deep, with plain line ends; returns what was changed.

    A config in a folder below is used from above, beside the common files: those that it lacks are put beside it.
    """
    mended = []
    for place in (code, *(below for item in code.folders() for below in (item, *item.folders()))):
        target = to / place.path.relative_to(code.path)
        for name in place.matching(*PARTS):
            source = place.place / name
            if source.stat().st_size > 1 << 18:
                continue
            target.mkdir(parents=True, exist_ok=True)
            content = source.read_bytes()
            if b"\r\n" in content and name.endswith((".sh", ".env")):
                mended += [name] if name.startswith("config") else []
                content = content.replace(b"\r\n", b"\n")
            (target / name).write_bytes(content)
    notes = [f"CRLF line ends, on which bash fails, are taken off: {', '.join(mended)}"] if mended else []
    beside = (to / config).parent
    lent = [name for name in code.matching("config*.sh") if beside != to and not (beside / name).exists()]
    for name in lent:
        shutil.copyfile(to / name, beside / name)
    return notes


def minutes(text: str) -> int | None:
    """A Slurm time limit in whole minutes, rounded up: `minutes`, `[d-]hh:mm:ss`, `mm:ss`; None for UNLIMITED.

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
        if missing := MISSING.search(line):
            found.append(f"it sources {PurePosixPath(missing[1]).name}, which is missing")
        elif re.search(r": line \d+: ", line):
            found.append(f"bash: {line.partition(': ')[2][:160]}")
    return found[:TOLD]
