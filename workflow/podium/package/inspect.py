"""`podium inspect`: the official checkers, unmodified, on a copy of the packed tree, then Podium's own check and lint.

The official tools write into the tree that they look at (scaling.json) and say no only in words; each runs here in a
process of its own on a copy, as `python -m mlperf_logging.<checker>`, and its words are kept.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from podium import config as configuration
from podium import files, manifest, plan
from podium.config import Config
from podium.errors import FINDINGS, GOOD, BadInput, Findings
from podium.package.layout import manifest_file


def inspect(config: Config) -> dict[str, Any]:
    """Look at the packed tree with every checker; returns (and writes) what each said, and of which tree.

    Of benchmarks of one's own the official checkers know nothing: they are asked nothing.
    """
    answer = _inhouse(config) if config.inhouse else _official(config)
    files.write_json(inspection_file(config), answer)
    return answer


def _official(config: Config) -> dict[str, Any]:
    from podium.verdict import check
    from podium.verdict.official import unmodified

    tree, round = plan.tree_folder(config), config.submission.round
    content = packed(config)
    version = unmodified.version(config.checker_version)
    with _copied(tree) as copy:
        said = {
            "package": _ask(copy, "package_checker", [copy.name, "training", round], r"FOUND NO ERRORS"),
            "repository": _ask(copy, "repo_checker", [copy.name, "training", round], r"ALL CHECKS PASSED"),
            "descriptions": _descriptions(copy, round),
        }
    ours = check.check_tree(tree, round)
    found = lint(tree, round)
    official_words = [f"{name}: {line}" for name, answer in said.items() for line in answer["messages"]]
    own = [f"{item['rule']}: {item['file']}: {item['found']}" for item in ours["findings"]]
    stopped = [*(name for name, answer in said.items() if not answer["passed"])]
    stopped += ["podium"] if ours["verdict"] != "compliant" else []
    stopped += ["lint"] if found else []
    return {
        "tree": content.sha256,
        "round": round,
        "checker": f"mlperf-logging {version}",
        "verdict": "not compliant" if stopped else "compliant",
        "stopped_by": stopped,
        "official": said,
        "podium": {"verdict": ours["verdict"], "findings": own},
        "lint": found,
        "messages": [*official_words, *own, *found],
    }


def _inhouse(config: Config) -> dict[str, Any]:
    from podium.verdict import inhouse

    content, ours = packed(config), inhouse.check_tree(config)
    own = [f"{item['rule']}: {item['file']}: {item['found']}" for item in ours["findings"]]
    return {
        "tree": content.sha256,
        "round": ours["round"],
        "checker": ours["checker"],
        "verdict": ours["verdict"],
        "stopped_by": [] if ours["verdict"] == "compliant" else ["podium"],
        "official": {},
        "podium": {"verdict": ours["verdict"], "findings": own},
        "lint": [],
        "messages": own,
    }


def inspection_file(config: Config) -> Path:
    """What the checkers said of the tree."""
    return config.root / "verdicts" / "submission.json"


def packed(config: Config, depth: str = "full") -> manifest.Manifest:
    """The tree's manifest, after the tree was held to it (`depth` as in manifest.differences); raises BadInput where it
    is not what was packed."""
    tree, where = plan.tree_folder(config), manifest_file(config)
    if not where.exists():
        raise BadInput("nothing is packed", str(where), "nothing", f"podium pack --config {config.path}")
    content = manifest.parsed(where.read_text(encoding="utf-8"), str(where))
    if found := manifest.differences(tree, content, depth):
        raise BadInput(
            f"{tree} was changed after it was packed",
            "the files of its manifest",
            "\n    ".join(found[:10]),
            f"podium pack --config {config.path}",
        )
    return content


def lint(tree: Path, round: str) -> list[str]:
    """`podium lint` on the tree, a sentence for each group of findings."""
    from podium.verdict import tree as trees
    from podium.verdict.lint import lint as linting

    groups = linting.lint(trees.read(tree), round)
    return [
        f"{group.first.rule}: {group.first.place}: expected {group.first.expected}, found {group.first.found}"
        for group in groups
    ]


@contextlib.contextmanager
def _copied(tree: Path) -> Iterator[Path]:
    """The tree once more, beside itself, of links to the same files where the file system has them; removed after."""
    place = tree.parent / f".{tree.name}.inspected"
    shutil.rmtree(place, ignore_errors=True)
    try:
        with files.explained(place):
            shutil.copytree(tree, place / tree.name, copy_function=_link)
        yield place / tree.name
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """The official tools read logs and code, and write only files of their own."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _ask(copy: Path, checker: str, words: Sequence[str], good: str) -> dict[str, Any]:
    """One official checker, started above the copy as the round's verify script does; a crash is a no."""
    command = [sys.executable, "-m", f"mlperf_logging.{checker}", *words, "--log_output", os.devnull]
    done = subprocess.run(
        command, cwd=copy.parent, capture_output=True, encoding="utf-8", errors="replace", check=False
    )
    output = done.stdout + done.stderr
    passed = done.returncode == 0 and re.search(good, output) is not None
    lines = [line.strip() for line in output.splitlines()]
    told = [line for line in lines if re.match(r"(ERROR|WARNING)\b", line)]
    return {"passed": passed, "messages": told if passed or told else [f"it fell over: {line}" for line in lines[-1:]]}


def _descriptions(copy: Path, round: str) -> dict[str, Any]:
    """The description checker on each system's file."""
    answers = {
        name: _ask(copy, "system_desc_checker", [f"{copy.name}/systems/{name}", "training", round], r"(?i)passed")
        for name in sorted(path.name for path in (copy / "systems").glob("*.json"))
    }
    return {
        "passed": all(answer["passed"] for answer in answers.values()),
        "messages": [f"{name}: {line}" for name, answer in answers.items() for line in answer["messages"]],
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    configuration.argument(parser)


def main(args: argparse.Namespace) -> int:
    """`podium inspect`: status 1 where any checker finds anything."""
    config = configuration.load(args.config)
    answer = inspect(config)
    if args.json:
        print(json.dumps(answer, indent=1))
        return FINDINGS if answer["stopped_by"] else GOOD
    if answer["stopped_by"]:
        raise Findings(
            f"{plan.tree_folder(config)} cannot be archived",
            f"nothing found by the official checkers ({answer['checker']}), podium check and podium lint",
            "\n    ".join([", ".join(answer["stopped_by"]), *answer["messages"][:30]]),
            "mend what is named where it comes from, then podium pack; or podium archive --force: the receipt says it",
        )
    print(
        f"inspect {plan.tree_folder(config)}: the official package, repository and description checkers, "
        "podium check and podium lint find nothing"
    )
    print(f"next: podium archive --config {config.path}")
    return GOOD
