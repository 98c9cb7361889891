"""`podium explain RULE`: a rule of the catalogue, or what the official rule files ask of a log key, round by round."""

from __future__ import annotations

import argparse
import difflib
import json
from dataclasses import asdict
from typing import Any

from podium.errors import BadInput
from podium.verdict.findings import Rule, rules
from podium.verdict.official import rulefiles
from podium.verdict.official.rulefiles import KeyRule


def asked(key: str) -> dict[str, list[str]]:
    """What the rule files ask of a log key: the demand, and the files that make it; equal ones together."""
    found: dict[str, list[str]] = {}
    for round in rulefiles.rounds():
        for name in rulefiles.of_round(round):
            rule = rulefiles.load(name).keys.get(key)
            if rule is not None:
                found.setdefault(_demand(rule), []).append(name.removeprefix("training_").removesuffix(".yaml"))
    return found


def _demand(rule: KeyRule) -> str:
    parts = [rule.required or "as often as it comes"]
    parts += [" ".join(test.text.split()) for test in (*rule.checks, *rule.first_checks)]
    if rule.at_least_one is not None:
        parts.append(f"at least once: {' '.join(rule.at_least_one.text.split())}")
    return "; ".join(parts)


def text(rule: Rule) -> str:
    """A rule for a reader."""
    return "\n".join(
        [
            f"{rule.id}: {rule.title}",
            f"  rule:    {rule.rule}",
            f"  source:  {rule.source}",
            f"  checker: {rule.checker}",
            f"  fix:     {rule.fix}",
        ]
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rule", nargs="?", help="a rule's id as `podium check` names it, or a log key (default: list all)"
    )


def main(args: argparse.Namespace) -> int:
    """`podium explain [RULE]`."""
    known = rules()
    if args.rule is None:
        _print(
            args,
            {id: rule.title for id, rule in known.items()},
            [f"{id:24} {rule.title}" for id, rule in known.items()],
        )
    elif args.rule in known:
        _print(args, asdict(known[args.rule]), [text(known[args.rule])])
    elif demands := asked(args.rule):
        lines = [f"{args.rule}: a log key"]
        lines += [f"  {demand}\n    {', '.join(files)}" for demand, files in demands.items()]
        _print(args, {"key": args.rule, "asked": demands}, lines)
    else:
        near = difflib.get_close_matches(args.rule, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise BadInput(f"no rule {args.rule}", "a rule's id, or a log key", f"{args.rule}{hint}", "podium explain")
    return 0


def _print(args: argparse.Namespace, value: Any, lines: list[str]) -> None:
    print(json.dumps(value, indent=1) if args.json else "\n".join(lines))
