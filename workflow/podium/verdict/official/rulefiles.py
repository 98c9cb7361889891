"""The official rule files (mlperf_logging/compliance_checker/training_<round>/*.yaml), loaded and compiled once.

The official checker loads them with PyYAML's slow loader and compiles their code anew for every line of every log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import mlperf_logging
import yaml

PACKAGE = Path(mlperf_logging.__file__).parent
FOLDER = PACKAGE / "compliance_checker"
# The same answers from libyaml, where PyYAML was built with it; a test holds the two against each other.
LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True)
class Test:
    """An expression of a rule file. `code` is None where it does not compile: evaluating it fails, as it must."""

    text: str
    code: CodeType | None


@dataclass(frozen=True)
class KeyRule:
    """What a rule file asks of a log key; None and empty where it asks nothing of the kind."""

    name: str
    required: str | None
    pre: Test | None
    checks: tuple[Test, ...]
    post: Test | None
    first_checks: tuple[Test, ...]
    at_least_one: Test | None


@dataclass(frozen=True)
class RuleFile:
    """A rule file. `whole` says that its BEGIN code looks at all lines of a log before the first is checked."""

    name: str
    begin: Test | None
    keys: dict[str, KeyRule]
    end: Test | None
    end_checks: tuple[Test, ...]

    @property
    def whole(self) -> bool:
        return self.begin is not None and "loglines" in self.begin.text


@cache
def load(name: str) -> RuleFile:
    """The rule file of that name, like "training_3.1.0/common.yaml"; raises FileNotFoundError where there is none.

    A part of the name comes from the log that is checked: it must not lead out of the package, for the code of a rule
    file is run.
    """
    if len(Path(name).parts) != 2 or ".." in name:
        raise FileNotFoundError(name)
    entries = yaml.load((FOLDER / name).read_text(encoding="utf-8"), Loader=LOADER) or []
    begin, end = _blocks(entries, "BEGIN"), _blocks(entries, "END")
    keys = {entry["KEY"]["NAME"]: _key(entry["KEY"]) for entry in entries if next(iter(entry)) == "KEY"}
    return RuleFile(
        name=name,
        begin=_test(begin["CODE"], "exec") if begin else None,
        keys=keys,
        end=_test(end["PRE"], "exec") if "PRE" in end else None,
        end_checks=_tests(end.get("CHECK")),
    )


def of_round(round: str) -> list[str]:
    """The names of all rule files of a round."""
    return sorted(f"training_{round}/{path.name}" for path in (FOLDER / f"training_{round}").glob("*.yaml"))


@cache
def version() -> str:
    """The version of the installed package, from the name of its metadata; importlib.metadata only where there is none
    beside it (it takes longer to import than a small check lasts)."""
    for path in PACKAGE.parent.glob("mlperf_logging-*.dist-info"):
        return path.name.removeprefix("mlperf_logging-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version("mlperf-logging")


@cache
def rounds() -> tuple[str, ...]:
    """The rounds that the package checker judges in full (1.0.0 and later), oldest first."""
    found = [path.name.removeprefix("training_") for path in FOLDER.glob("training_*.*.*") if path.name[-1].isdigit()]
    return tuple(sorted((name for name in found if not name.startswith("0.")), key=numbers))


def numbers(round: str) -> tuple[int, ...]:
    """A round as numbers that compare: "3.1.0" as (3, 1, 0)."""
    return tuple(int(part) for part in round.split("."))


def _blocks(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found = [entry[name] for entry in entries if next(iter(entry)) == name]
    if len(found) > 1:
        raise AssertionError(f"more than one {name} block")
    return found[0] if found else {}


def _key(value: dict[str, Any]) -> KeyRule:
    return KeyRule(
        name=value["NAME"],
        required=value.get("REQ"),
        pre=_test(value["PRE"], "exec") if "PRE" in value else None,
        checks=_tests(value.get("CHECK")),
        post=_test(value["POST"], "exec") if "POST" in value else None,
        first_checks=_tests(value.get("FIRST_CHECK")),
        at_least_one=_test(value["ATLEAST_ONE_CHECK"], "eval") if "ATLEAST_ONE_CHECK" in value else None,
    )


def _tests(value: str | list[str] | None) -> tuple[Test, ...]:
    texts = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(_test(text, "eval") for text in texts)


def _test(text: str, mode: str) -> Test:
    try:
        return Test(text, compile(text.strip(), "<rule>", mode))
    except SyntaxError:
        return Test(text, None)
