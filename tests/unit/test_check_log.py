"""One log against the official functions: compliance in its words, seeds, convergence; also logs that are spoilt."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from mutations import mutated
from podium.verdict.official import compliance, rulefiles
from podium.verdict.reading import digest
from support import in_a_process
from synthetic import log, record, write_log


def rules(path: Path, lines: list[str], round: str = "3.0.0") -> list[str]:
    """The rule ids of what is wrong with a log, after a comparison with the official functions."""
    write_log(path / "result_0.txt", lines)
    oracle.compare(path / "result_0.txt", round)
    found = digest.of_log(path / "result_0.txt", round)
    return [found.fall.kind] if found.fall else [item.kind for item in found.errors]


def without(key: str) -> list[str]:
    return [line for line in log() if f'"key": "{key}"' not in line]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (log(), []),
        (log(quality=0.5), ["log-target"]),
        (log(quality=None), ["log-value-type"]),
        (log(quality="0.76"), ["log-value-type"]),
        (log(sgd_opt_weight_decay=0.0003), ["log-value"]),
        (log(sgd_opt_weight_decay=-1), ["log-value-type"]),
        (log(submission_division="Closed"), ["log-no-rules"]),
        (log(submission_status="bought"), ["log-submission-status"]),
        (log(submission_benchmark="resnet50"), ["log-no-rules"]),
        (log(submission_benchmark="../../../tmp/own"), ["log-no-rules"]),
        (without("run_stop"), ["log-key"]),
        (without("seed"), []),
        ([*log(), record("sgd_opt_momentum", 0.8)], ["log-key-differs"]),
        ([*log(), record("global_batch_size", 3264)], []),
        ([record("run_start", None, 1), *without("run_start")], ["log-order"] * 3),
        ([*log(), ":::MLLOG {half"], ["log-json"]),
        ([*log(), ':::MLLOG {"key": "seed", "value": 1, "time_ms": 1}'], ["log-record"]),
        ([*log(), ":::MLLOG []"], ["log-record"]),
        ([line.replace('"time_ms": 2000', '"time_ms": 2000000') for line in log()], ["log-init-time"]),
        ([line.replace('"epoch_num"', '"epoch"') for line in log()], ["log-metadata"]),
    ],
)
def test_what_is_wrong_is_named(tmp_path, lines, expected):
    assert rules(tmp_path, lines) == expected


def test_a_log_without_records_lacks_every_key(tmp_path):
    assert set(rules(tmp_path, ["only chatter"])) == {"log-key", "log-empty"}


def test_a_finding_names_line_demand_and_value(tmp_path):
    path = write_log(tmp_path / "result_0.txt", ["chatter", *log(sgd_opt_end_learning_rate=0.1)])
    (error,) = digest.of_log(path, "3.0.0").errors
    assert (error.key, error.expected, error.found) == ("sgd_opt_end_learning_rate", "v['value'] == 0.0001", "0.1")
    assert path.read_text().splitlines()[error.line - 1].count("sgd_opt_end_learning_rate") == 1


def test_rule_files_that_are_asked_for_late_see_every_line(tmp_path):
    """The benchmark is named after more lines than are remembered: the log is read again for its rules."""
    many = [record("eval_stop", None, 1, epoch_num=1)] * (compliance.REMEMBERED + 10)
    assert rules(tmp_path, [*many, *log(sgd_opt_end_learning_rate=0.1)]) == ["log-value"]


def test_rules_that_look_at_all_lines_first(tmp_path):
    """stable_diffusion: its two metrics are logged apart and put together before anything is checked."""
    lines = [
        record("submission_division", "closed"),
        record("submission_benchmark", "stable_diffusion"),
        record("eval_accuracy", 80, 5, samples_count=512, metric="FID"),
        record("eval_accuracy", 0.16, 9, samples_count=512, metric="CLIP"),
        record("run_stop", None, 10, status="success"),
    ]
    assert "log-target" not in rules(tmp_path, lines, "4.0.0")
    assert "log-target" in rules(tmp_path, [line.replace("80", "95") for line in lines], "4.0.0")
    assert rules(tmp_path, [line.replace("samples_count", "count") for line in lines], "4.0.0") == ["log-fall"]


@pytest.mark.parametrize("round", rulefiles.rounds())
def test_rule_files_are_what_the_official_loader_makes_of_them(round):
    for name in rulefiles.of_round(round):
        text = (rulefiles.FOLDER / name).read_text(encoding="utf-8")
        assert yaml.load(text, Loader=rulefiles.LOADER) == yaml.load(text, Loader=yaml.BaseLoader)
        every = [*rulefiles.load(name).keys.values()]
        codes = [test.code for rule in every for test in (*rule.checks, *rule.first_checks)]
        assert None not in codes, f"a test of {name} does not compile"


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), lambda path: os.mkfifo(path), lambda path: path.symlink_to("nowhere")]
)
def test_what_is_no_file_is_said_and_not_waited_for(tmp_path, make):
    path = tmp_path / "result_0.txt"
    make(path)
    found = digest.of_log(path, "3.0.0")
    assert (found.compliant, found.fall.kind) == (None, "log-unreadable")


def test_a_long_log_needs_little_memory(tmp_path):
    """20 MB of records that all count: not a quarter of it is held, beside what Python itself takes."""
    lines = log()
    path = write_log(tmp_path / "result_0.txt", [*lines[:-2], *[lines[-3]] * 120_000, *lines[-2:]])
    code = (
        "import sys; from pathlib import Path; from podium.verdict.reading import digest\n"
        "print(digest.of_log(Path(sys.argv[1]), '3.0.0').compliant)"
    )
    compliant, peak = in_a_process(code, path)
    assert compliant == "True"
    assert peak < path.stat().st_size / 4 + 35_000_000


@settings(max_examples=150)
@given(
    mutated(st.builds(lambda seed: "\n".join(log(seed)).encode(), st.integers(0, 3))),
    st.sampled_from(rulefiles.rounds()),
)
def test_spoilt_logs_get_the_official_answer(content, round):
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "result_0.txt"
        path.write_bytes(content)
        oracle.compare(path, round)
