"""`podium check` and `podium explain` as they are called: table, JSON, JUnit, exit codes, another checker's answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from podium import cli
from podium.verdict.findings import rules
from support import REPOSITORY
from synthetic import ROUND, log, record, tree, write_description, write_log

BROKEN = 1 + len(log()) + 1  # the line of the broken record in a spoilt log


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def spoilt(tmp_path) -> Path:
    """A tree with two results of which one is good, and in the other control characters and a wrong seed."""
    submitter = tree(tmp_path)
    write_description(submitter, "two", {})
    for seed in range(5):
        lines = ["\x1b[31mred\x00", *log(min(seed, 3)), ':::MLLOG {"half\x0b']
        write_log(submitter / "results" / "two" / "resnet" / f"result_{seed}.txt", lines)
    return submitter


def test_a_good_tree_is_a_table_and_status_0(tmp_path, capsys):
    assert cli.main(["check", str(tree(tmp_path)), "--round", ROUND]) == 0
    told = capsys.readouterr().out
    assert re.search(r"tests/results/one/resnet +5/5 +5 +pass +pass: RCP found +pass +compliant", told)
    assert "compliant with 3.0.0 (mlperf-logging" in told


def test_a_spoilt_tree_is_status_1_and_every_finding_has_a_fix(spoilt, capsys):
    assert cli.main(["check", str(spoilt), "--round", ROUND]) == 1
    told = capsys.readouterr()
    assert "is not compliant with 3.0.0" in told.err
    assert "\x1b" not in told.out, "control characters of a log reach the terminal"
    errors = [line for line in told.out.splitlines() if line.startswith(("error ", "warning "))]
    assert len(errors) == told.out.count("  fix:      ")
    assert f"result_0.txt:{BROKEN}" in told.out


def test_json_is_one_document_with_every_part(spoilt, capsys):
    assert cli.main(["check", str(spoilt), "--round", ROUND, "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["verdict"], answer["package"]["answer"], answer["kind"]) == ("not compliant", "fail", "submitter")
    good, bad = answer["submitters"][0]["results"]
    assert (good["verdict"], good["compliance"], good["seeds"], good["rcp"]["message"]) == (
        "compliant",
        "pass",
        "pass",
        "RCP found",
    )
    assert (bad["official"], bad["compliance"], bad["seeds"], bad["compliant_logs"]) == ("fail", "fail", "fail", 0)
    for finding in answer["findings"]:
        assert {"rule", "file", "line", "expected", "found", "fix", "source", "title"} <= finding.keys()
    broken = next(finding for finding in answer["findings"] if finding["rule"] == "log-json")
    assert broken["line"] == BROKEN


def test_numbers_that_json_does_not_know_are_null(tmp_path, capsys):
    submitter = tree(tmp_path)
    for number in (1, 2, 3, 4):
        (submitter / "results" / "one" / "resnet" / f"result_{number}.txt").unlink()
    cli.main(["check", str(submitter), "--round", ROUND, "--json"])
    text = capsys.readouterr().out
    (result,) = json.loads(text, parse_constant=lambda name: pytest.fail(name))["submitters"][0]["results"]
    assert result["rcp"]["mean"] is None


def test_junit_is_xml_with_a_failure_for_every_case_that_fails(spoilt, tmp_path, capsys):
    cli.main(["check", str(spoilt), "--round", ROUND, "--junit", str(tmp_path / "junit.xml")])
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert suites["tests/results/one/resnet"].get("failures") == "0"
    bad = suites["tests/results/two/resnet"]
    assert int(bad.get("failures")) == len(bad.findall("testcase/failure")) == 6


def test_names_and_values_that_are_no_text_are_told(tmp_path, capsys):
    """A name in other bytes than UTF-8, one with an escape sequence, and half a surrogate pair as a value."""
    submitter = tree(tmp_path)
    folder = submitter / "results" / "one" / "resnet"
    for name in (b"\xff.txt", b"\x1b[31m.txt"):
        (Path(os.fsdecode(os.fsencode(folder) + b"/" + name))).write_text("")
    lines = [*log(1), record("submission_org", "\ud800")]
    write_log(folder / "result_1.txt", lines)
    verdict = tmp_path / "verdict.json"
    for words in ([], ["--json"], ["--junit", str(tmp_path / "junit.xml")], ["--verdict", str(verdict)]):
        assert cli.main(["check", str(submitter), "--round", ROUND, *words]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert json.loads(verdict.read_text())["verdict"] == "compliant"
    ElementTree.parse(tmp_path / "junit.xml")


def test_what_is_not_there_and_what_is_no_round_is_status_2(tmp_path, capsys):
    assert cli.main(["check", str(tmp_path / "none"), "--round", ROUND]) == 2
    assert cli.main(["check", str(tree(tmp_path)), "--round", "9.0.0"]) == 2
    assert "unknown round 9.0.0" in capsys.readouterr().err


def test_only_the_wanted_submitters_of_a_round_are_checked(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / "round").mkdir(exist_ok=True)
        tree(tmp_path / name).rename(tmp_path / "round" / name)
    assert cli.main(["check", str(tmp_path / "round"), "--round", ROUND, "--submitter", "b", "--json"]) == 0
    assert [item["submitter"] for item in json.loads(capsys.readouterr().out)["submitters"]] == ["b"]


def test_a_file_that_is_kept_is_named_by_content_and_round(tmp_path, capsys):
    cli.main(["check", str(tree(tmp_path)), "--round", ROUND])
    kept = list((tmp_path / "cache").rglob("*.json"))
    assert len(kept) == 5
    assert all(ROUND in path.parts for path in kept)


def test_nothing_is_kept_in_the_tree_that_is_checked(tmp_path, monkeypatch, capsys):
    submitter = tree(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(submitter / "cache"))
    cli.main(["check", str(submitter), "--round", ROUND])
    assert not (submitter / "cache").exists()


def test_the_pinned_checker_must_be_there(tmp_path, write_config, capsys):
    path = write_config(checker={"version": "1.2.3"})
    assert cli.main(["check", str(tree(tmp_path)), "--round", ROUND, "--config", str(path)]) == 3
    assert "mlperf-logging 1.2.3" in capsys.readouterr().err


def test_another_checker_is_asked_beside_ours(tmp_path, capsys):
    """That of this very environment, in a process of its own."""
    words = ["check", str(tree(tmp_path)), "--round", ROUND, "--checker", sys.prefix, "--json"]
    assert cli.main(words) == 0
    (beside,) = json.loads(capsys.readouterr().out)["beside"]
    assert (beside["official"], beside["ours"], beside["errors"]) == ("pass", "pass", [])


@pytest.mark.parametrize(
    ("output", "status", "answer"),
    [
        ("INFO - PACKAGE CHECKER FOUND NO ERRORS, SUCCESS !", 0, "pass"),
        ("ERROR - Seed checker failed\nINFO - PACKAGE CHECKER FOUND ERRORS", 0, "fail"),
        ("Traceback (most recent call last):\nException: Found too many errors in logs", 1, "fail"),
        ("Traceback (most recent call last):\nKeyError: 'dlrm'", 1, "none"),
    ],
)
def test_the_answers_of_all_versions_are_understood(tmp_path, capsys, output, status, answer):
    """A stand-in for a Python of another time: asked for flags it knows only the old spelling."""
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"if '-c' in sys.argv: print({str(tmp_path)!r})\n"
        "elif '--help' in sys.argv: print('--rcp_bypass')\n"
        "elif '--rcp_bypass' not in sys.argv: sys.exit('another flag')\n"
        f"else: print({output!r}); sys.exit({status})\n"
    )
    python.chmod(0o755)
    submitter = tree(tmp_path)
    (submitter / "package_checker_params").write_text("rcp_bypass\n")
    cli.main(["check", str(submitter), "--round", ROUND, "--checker", str(python), "--json"])
    (beside,) = json.loads(capsys.readouterr().out)["beside"]
    assert (beside["official"], beside["flags"]) == (answer, ["rcp-bypass"])


def test_a_checker_that_is_none_is_status_2(tmp_path, capsys):
    assert cli.main(["check", str(tree(tmp_path)), "--round", ROUND, "--checker", "newest"]) == 2
    assert "no checker newest" in capsys.readouterr().err


def test_explain_tells_a_rule_a_key_and_all_rules(capsys):
    assert cli.main(["explain", "seed-missing"]) == 0
    assert "T 174-183" in capsys.readouterr().out
    assert cli.main(["explain", "global_batch_size", "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)["asked"]
    assert "3.0.0/closed_resnet" in asked["EXACTLY_ONE; v['value'] > 0"]
    assert cli.main(["explain"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rules())
    assert cli.main(["explain", "seed-mising"]) == 2
    assert "did you mean seed-missing?" in capsys.readouterr().err


def test_every_rule_of_the_catalogue_is_used_and_every_used_one_is_in_it():
    source = "".join(path.read_text() for path in (REPOSITORY / "workflow" / "podium" / "verdict").rglob("*.py"))
    used = {id for id in rules() if f'"{id}"' in source}
    named = {
        f"log-{key.replace('_', '-')}" for key in ("submission_benchmark", "submission_division", "submission_status")
    }
    assert used | named == rules().keys()


def test_help_is_quick():
    """Nothing heavy is imported for it."""
    code = (
        "import sys; from podium import cli\ntry: cli.main(['check', '--help'])\nexcept SystemExit: print(*sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "pandas", "jsonschema", "mlperf_logging"} & set(answer.stdout.split())
