"""The command line: what is imported when, exit codes, errors for people and for machines."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

from podium import cli, doctor
from support import REPOSITORY

HEAVY = ("numpy", "scipy", "pandas", "mlperf_logging", "requests", "jinja2", "snakemake", "yaml", "jsonschema")


def test_help_imports_nothing_heavy():
    code = "import sys; from podium import cli; cli.parser(None); print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(answer.stdout.split())


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_arguments_a_main_and_help(verb, capsys):
    module = importlib.import_module(cli.VERBS[verb][0])
    assert callable(module.main)
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, "--help"])
    assert ended.value.code == 0
    assert cli.VERBS[verb][1].split()[0] in capsys.readouterr().out


def test_an_error_has_four_parts_and_its_exit_code(tmp_path, capsys):
    assert cli.main(["plan", "--config", str(tmp_path / "none.yaml")]) == 2
    told = capsys.readouterr().err
    for part in ("cannot read the config", "expected:", "found:", "next:"):
        assert part in told


def test_an_error_as_json_has_the_same_content(tmp_path, capsys):
    cli.main(["plan", "--config", str(tmp_path / "none.yaml"), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"error", "expected", "found", "next"}


@pytest.mark.parametrize("words", [["prepare", "--help"], ["plan"], ["plan", "--json"]])
def test_a_reader_who_leaves_is_no_fault(words):
    """As `podium prepare --help | head`: status 141, as of other tools, and not a word."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "podium", *words]
    answer = subprocess.run(command, cwd=REPOSITORY, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (141, "")


def test_plan_lists_every_result(capsys):
    assert cli.main(["plan", "--config", str(REPOSITORY / "config" / "config.yaml"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["attempts"] for row in rows) == 65


def test_doctor_names_what_a_lack_costs(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {item.name: item for item in doctor.look(tmp_path)}
    assert not found["docker"].present
    assert not found["bash"].present and found["bash"].needed
    table = doctor.table(list(found.values()))
    assert "no engine docker" in table
    assert "LACK bash" in table


def test_doctor_fails_where_the_demo_cannot_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["doctor"]) == 3


@pytest.mark.parametrize("old", ["3.9.2", "3.10.12"])
def test_make_refuses_a_python_that_is_too_old(tmp_path, old):
    """A stand-in that only tells its version: no old Python is to be had on every machine."""
    major, minor, _ = old.split(".")
    stand_in = tmp_path / "python3"
    stand_in.write_text(
        f"#!{sys.executable}\nimport sys\nsys.version_info = ({major}, {minor}, 0)\nexec(sys.argv[2])\n",
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((REPOSITORY / name).read_bytes())
    answer = subprocess.run(
        ["make", "env", f"PYTHON={stand_in}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode != 0
    assert f"found:    {major}.{minor}" in answer.stderr
    assert "expected: 3.11 or newer" in answer.stderr
    assert not (tmp_path / ".venv").exists()
