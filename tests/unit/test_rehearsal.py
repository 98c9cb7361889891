"""The log of a rehearsal, which trains nothing, is refused by name wherever a result is asked for."""

from __future__ import annotations

import json

import pytest

import synthetic
from podium import cli, plan
from podium.errors import BadEnvironment, Findings
from podium.package import layout, nodes, system
from podium.runs import ledger
from podium.runs import run as runs
from podium.verdict import check
from podium.verdict.reading import logs
from support import REPOSITORY, first_plan

MARK = synthetic.record("podium_rehearsal", True)


@pytest.fixture
def tree(tmp_path):
    """A tree that complies in all but one log, which a rehearsal wrote."""
    tree = synthetic.tree(tmp_path)
    synthetic.write_log(tree / "results" / "one" / "resnet" / "result_3.txt", [MARK, *synthetic.log(3)])
    return tree


def test_the_mark_is_the_one_that_our_implementations_write():
    assert f'MARK = "{logs.REHEARSAL}"' in (REPOSITORY / "containers" / "common" / "rehearsal.py").read_text()


@pytest.mark.parametrize("part", [".", "results/one", "results/one/resnet", "results/one/resnet/result_3.txt"])
def test_check_never_calls_it_compliant(tree, part, capsys):
    assert cli.main(["check", str(tree / part), "--round", synthetic.ROUND, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    found = [item for item in _findings(answer) if item["rule"] == "rehearsal-log"]
    assert answer["verdict"] == "not compliant"
    assert {(item["level"], item["line"], item["official"]) for item in found} == {("error", 1, "says nothing")}
    assert found[0]["file"].endswith("result_3.txt")


def _findings(value) -> list[dict]:
    """Every finding in an answer, wherever it stands."""
    if isinstance(value, dict):
        mine = [value] if {"rule", "level", "file"} <= value.keys() else []
        return mine + [item for inner in value.values() for item in _findings(inner)]
    return [item for inner in value for item in _findings(inner)] if isinstance(value, list) else []


def test_without_the_mark_the_tree_complies(tmp_path):
    assert cli.main(["check", str(synthetic.tree(tmp_path)), "--round", synthetic.ROUND]) == 0


def test_lint_and_explain_name_it(tree, capsys):
    assert cli.main(["lint", str(tree), "--round", synthetic.ROUND]) == 1
    assert "rehearsal-log" in capsys.readouterr().out
    assert cli.main(["explain", "rehearsal-log"]) == 0
    assert "--log-only" in capsys.readouterr().out


def test_a_run_with_such_a_log_has_failed_and_never_counts(prepared, built):
    config = built(prepared("rehearsed"))
    with pytest.raises(BadEnvironment, match="is no run") as error:
        runs.run(config, first_plan(config), 0)
    assert "a rehearsal, which trains nothing" in error.value.found
    (attempt,) = ledger.attempts(plan.result_folder(config, first_plan(config)))
    assert (attempt.outcome, attempt.countable) == ("failed", False)


def test_pack_refuses_it_even_where_it_came_after_the_check(prepared, built):
    config = built(prepared())
    wanted = first_plan(config)
    for number in range(5):
        runs.run(config, wanted, number)
    system.write(config, wanted.system, [nodes.collect()])
    check.check_result(config, wanted)
    log = plan.result_folder(config, wanted) / "2" / "result.txt"
    log.write_text(f"{MARK}\n{log.read_text()}")
    with pytest.raises(Findings, match="rehearsal-log"):
        layout.pack(config)
    verdict = check.check_result(config, wanted)
    assert verdict["verdict"] == "not compliant"
    assert any("rehearsal-log" in text for text in verdict["findings"])
