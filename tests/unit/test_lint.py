"""What `podium lint` finds in a clean tree (nothing) and in trees with one thing wrong (that, and its place)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import synthetic
from mutations import mutated
from podium import cli, files
from podium.verdict import tree
from podium.verdict.lint import contents, lint, logs
from podium.verdict.lint.schedule import misnumbered, miss, schedule
from support import REPOSITORY, SHARED

START = 1_681_000_000_000  # ms since 1970: April 2023, in round 3.0
FIXTURES = SHARED / "data" / "published" / "fixtures"


def log(seed: int, changes: dict | None = None, evaluations=range(3, 37, 4), init: int = 60_000) -> list[str]:
    """The lines of a resnet run that lint has nothing to say about: `init` ms of initialisation, 4 s an evaluation."""
    start = START + 10_000_000 * seed
    lines = [
        synthetic.record(key, value, start)
        for key, value in {
            "submission_org": "tests",
            "submission_platform": "1xone",
            "submission_division": "closed",
            "submission_benchmark": "resnet",
            "global_batch_size": 3264,
            "seed": 1000 + seed,
            "init_start": None,
        }.items()
    ]
    start += init
    lines += [synthetic.record("init_stop", None, start), synthetic.record("run_start", None, start)]
    for number, epoch in enumerate(evaluations, 1):
        lines.append(synthetic.record("eval_accuracy", 0.7, start + 4_000 * number, epoch_num=epoch))
    lines.append(synthetic.record("run_stop", None, start + 900_000, status="success"))
    records = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    for record in records:
        record["value"] = (changes or {}).get(record["key"], record["value"])
    return [":::MLLOG " + json.dumps(record) for record in records]


def build(place: Path, system: str = "one", **description) -> Path:
    """A submitter's tree in which nothing is to be found."""
    synthetic.write_description(place, system, {"number_of_nodes": "1", "accelerators_per_node": "8"} | description)
    for number in range(5):
        synthetic.write_log(results(place, system) / f"result_{number}.txt", log(number))
    code = place / "benchmarks" / "resnet" / "implementations" / "pytorch"
    code.mkdir(parents=True)
    for name in ("README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh"):
        (code / name).write_text("python train.py --data ${DATADIR:?}\n")
    (code / "Dockerfile").write_text("ARG BASE=registry.example/base:1@sha256:0a\nFROM ${BASE} AS main\nFROM main\n")
    return place


@pytest.fixture
def clean(tmp_path) -> Path:
    return build(tmp_path / "tests")


def results(place: Path, system: str = "one") -> Path:
    return place / "results" / system / "resnet"


def found(place: Path, round: str = "3.0.0") -> list[lint.Group]:
    return lint.lint(tree.read(place), round)


def rules(place: Path, round: str = "3.0.0") -> list[str]:
    return [group.first.rule for group in found(place, round)]


def respoil(place: Path, **changes) -> None:
    """Write the logs anew with other values."""
    for number in range(5):
        synthetic.write_log(results(place) / f"result_{number}.txt", log(number, changes))


def test_nothing_is_found_in_a_clean_tree(clean, capsys):
    assert rules(clean) == []
    assert cli.main(["lint", str(clean), "--round", "3.0.0"]) == 0
    assert "nothing found in 1 results" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes, rule, value",
    [
        ({"submission_org": "SUBMISSION_ORG_PLACEHOLDER"}, "org-placeholder", "SUBMISSION_ORG_PLACEHOLDER"),
        ({"submission_org": "somebody"}, "org-differs", "somebody"),
        ({"submission_platform": "1xSUBMISSION_PLATFORM_PLACEHOLDER"}, "platform-placeholder", "PLACEHOLDER"),
        ({"submission_platform": "1xanother"}, "platform-differs", "1xanother"),
        ({"submission_benchmark": "ssd"}, "benchmark-differs", "ssd"),
        ({"submission_division": "open"}, "division-differs", "open"),
        ({"submission_platform": "16xone"}, "node-count", "16xone"),
    ],
)
def test_a_log_that_says_it_is_another_is_found(clean, changes, rule, value):
    respoil(clean, **changes)
    (group,) = found(clean)
    assert (group.first.rule, group.count, group.of) == (rule, 5, 5)
    assert value in group.first.found
    path, _, line = group.first.place.rpartition(":")
    text = (clean.parent / path).read_text().splitlines()[int(line) - 1]
    assert next(iter(changes)) in text


@pytest.mark.parametrize(
    "platform, system, description",
    [
        ("4xNVIDIA DGX A100", "dgxa100_n4_ngc21.05", {"number_of_nodes": 4, "submitter": "NVIDIA"}),
        (
            "2xNVIDIA GB200",
            "tyche",
            {"number_of_nodes": 2, "submitter": "NVIDIA", "accelerator_model_name": "NVIDIA GB200"},
        ),
        ("1xXE8640x4H100-80GB-HBM3", "XE8640x4H100-SXM-80GB", {}),
        ("gaudi-8", "HLS-Gaudi2-PT", {"accelerator_model_name": "Gaudi2"}),
        ("G893-ZX1-AAX4_MI355X", "G893-ZX1-AAX4_pytorch", {}),
    ],
)
def test_spellings_of_a_system_are_let_pass(tmp_path, platform, system, description):
    place = tmp_path / "tests"
    synthetic.write_description(place, system, {"number_of_nodes": 1, "accelerators_per_node": 8} | description)
    org = description.get("submitter", "tests")
    for number in range(5):
        changed = log(number, {"submission_platform": platform, "submission_org": org})
        synthetic.write_log(results(place, system) / f"result_{number}.txt", changed)
    assert rules(place) == ["code-missing"]


@pytest.mark.parametrize(
    "system, rule",
    [("one_n4", "node-count"), ("4-nodes-one", "node-count"), ("one_ngpu32", "accelerator-count"), ("one_n1", None)],
)
def test_the_name_of_a_system_tells_its_size(tmp_path, system, rule):
    assert rules(build(tmp_path / "tests", system)) == ([rule] if rule else [])


def test_clocks(clean):
    first, second, third = (results(clean) / f"result_{number}.txt" for number in range(3))
    lines = log(0)
    late = synthetic.record("tracked_stats", 1, START + 60_000 + 500_000)
    synthetic.write_log(first, [*lines[:9], late, *lines[9:]])
    synthetic.write_log(second, log(1, init=31 * 60_000))
    synthetic.write_log(third, [line.replace(f'"time_ms": {START + 20_000_000}', '"time_ms": 0') for line in log(2)])
    by_rule = {group.first.rule: group.first for group in found(clean)}
    assert set(by_rule) == {"time-backwards", "init-too-long", "time-implausible"}
    assert by_rule["time-backwards"].found == "eval_accuracy is 496.0 s earlier than tracked_stats"
    assert by_rule["time-backwards"].line == 11
    assert by_rule["init-too-long"].found == "31.0 min"


def test_a_run_of_an_earlier_round_is_found(clean):
    assert set(rules(clean, "3.1.0")) == {"other-round"}
    assert rules(clean, "2.0.0") == []


@pytest.mark.parametrize(
    "evaluations, rule, what",
    [
        (range(2, 37, 2), "evaluation-schedule", "4 after 2"),
        (range(8, 37, 4), "evaluation-schedule", "the first at 8"),
        ([0, 4, 8], "epoch-numbering", "the first at epoch 0"),
        ([1, 1, 1], "epoch-numbering", "1 at every evaluation"),
        ([4, 8, 8, 12, 10], "epoch-numbering", "10 after 12"),
    ],
)
def test_evaluations_out_of_schedule_are_found(clean, evaluations, rule, what):
    synthetic.write_log(results(clean) / "result_3.txt", log(3, evaluations=evaluations))
    (group,) = found(clean)
    assert (group.first.rule, group.first.found, group.count) == (rule, what, 1)


def test_the_open_division_may_evaluate_when_it_likes(tmp_path):
    place = build(tmp_path / "tests", division="open")
    for number in range(5):
        changed = log(number, {"submission_division": "open"}, evaluations=[2, 3, 9])
        synthetic.write_log(results(place) / f"result_{number}.txt", changed)
    assert rules(place) == []


@pytest.mark.parametrize(
    "benchmark, round, batch, first, every",
    [  # as published logs have them
        ("unet3d", "1.0.0", 80, 700, 14),
        ("unet3d", "3.0.0", 56, 1000, 20),
        ("bert", "3.0.0", 3072, 175_000, 175_000),
        ("bert", "1.0.0", 6912, 225_000, 225_000),
        ("gpt3", "3.0.0", 2688, 55_050_240, 55_050_240),
        ("llama2_70b_lora", "5.1.0", 72, 5184, 432),
        ("llama31_405b", "5.1.0", 1280, 307_200, 19_200),
        ("llama31_405b", "5.0.0", 1152, 46_080, 46_080),
        ("llama31_8b", "5.1.0", 36, 12_312, 12_312),
        ("flux1", "5.1.0", 2304, 262_656, 262_656),
        ("rgat", "5.1.0", 32_768, 0.05, 0.05),
    ],
)
def test_schedules_of_the_rules(benchmark, round, batch, first, every):
    expected = schedule(benchmark, round, batch)
    assert (expected.first, expected.every) == ((first, first), every)
    points = [first + every * number for number in range(5)]
    assert miss(expected, points) is None
    assert miss(expected, [*points, points[-1] + every / 2]) is None, "a run may end with an evaluation"
    assert miss(expected, [first, first + 2.5 * every, first + 4 * every]).index == 1


def test_where_the_rules_have_no_schedule_none_is_asked_for():
    assert schedule("minigo", "1.0.0", 4096) is schedule("ssd", "1.0.0", 128) is None
    assert misnumbered("bert", []) is None
    assert miss(schedule("resnet", "3.0.0", 8), []) is None


def test_seeds_and_runs_used_again_are_found(clean):
    other = clean / "results" / "two" / "resnet"
    synthetic.write_description(clean, "two", {"number_of_nodes": "1", "accelerators_per_node": "8"})
    for number in range(5):
        synthetic.write_log(other / f"result_{number}.txt", log(number, {"submission_platform": "two"}))
    synthetic.write_log(results(clean) / "result_4.txt", log(5, {"seed": 1003}))
    by_rule = {group.first.rule: group for group in found(clean)}
    assert set(by_rule) == {"seed-reused", "log-reused"}
    assert by_rule["log-reused"].where == "tests/two/resnet"
    assert by_rule["log-reused"].count == 4
    assert "the same run as tests/one/resnet/result_0.txt" in by_rule["log-reused"].first.found


def test_a_few_common_seeds_are_chance(clean):
    other = clean / "results" / "two" / "resnet"
    synthetic.write_description(clean, "two", {"number_of_nodes": "1", "accelerators_per_node": "8"})
    for number in range(5):
        changes = {"submission_platform": "two", "seed": 1000 if number == 0 else 7 + number}
        synthetic.write_log(other / f"result_{number}.txt", log(10 + number, changes))
    assert rules(clean) == []


def test_code_that_others_cannot_run_is_found(clean):
    code = clean / "benchmarks" / "resnet" / "implementations" / "pytorch"
    (code / "run.sub").write_text("#!/bin/bash\n# /home/me is a comment\nDATADIR=/lustre/fsw/imagenet\n")
    (code / "Dockerfile").write_text("FROM registry.example/base:23.04\nFROM scratch\n")
    (code / "config_one.sh").write_text("export CONT=registry.example/team/image:1\n")
    (code / "setup.sh").unlink()
    by_place = {(group.first.rule, group.first.place): group.first.found for group in found(clean)}
    base = "tests/benchmarks/resnet/implementations"
    assert by_place == {
        ("implementation-files", base): "no setup.sh",
        ("site-path", f"{base}/pytorch/run.sub:3"): "/lustre/fsw",
        ("image-without-digest", f"{base}/pytorch/Dockerfile:1"): "registry.example/base:23.04",
        ("image-without-digest", f"{base}/pytorch/config_one.sh:1"): "registry.example/team/image:1",
    }


def test_code_may_lie_in_the_folder_of_the_system(clean):
    code = clean / "benchmarks" / "resnet" / "implementations"
    (code / "one").mkdir()
    for name in ("setup.sh", "init_datasets.sh", "run_and_time.sh"):
        (code / "pytorch" / name).rename(code / "one" / name)
    assert rules(clean) == []


@pytest.mark.parametrize("there", ["benchmark/resnet", "benchmarks/resnet50/implementations", "benchmarks/resnet"])
def test_missing_code_is_found(clean, there):
    (clean / "benchmarks").rename(clean / "elsewhere")
    (clean / there).mkdir(parents=True)
    (group,) = found(clean)
    assert group.first.rule == "code-missing"


def test_names_sizes_and_links(clean):
    (clean / "a name with spaces.txt").write_text("")
    with (clean / "large.bin").open("wb") as file:
        file.truncate((50 << 20) + 1)
    (clean / "benchmarks" / "good").symlink_to("resnet")
    (clean / "benchmarks" / "broken").symlink_to("nothing")
    (clean / "outside").symlink_to(clean.parent)
    by_path = {group.first.path: group.first.rule for group in found(clean)}
    assert by_path == {
        "tests/a name with spaces.txt": "name-with-space",
        "tests/large.bin": "file-too-large",
        "tests/benchmarks/broken": "link-broken",
        "tests/outside": "link-broken",
    }


def test_one_broken_part_never_hides_the_others(clean):
    (results(clean) / "result_0.txt").write_bytes(b"\xff\x00 no record")
    (results(clean) / "result_1.txt").unlink()
    (results(clean) / "result_1.txt").mkdir()
    (results(clean) / "result_2.txt").unlink()
    (results(clean) / "result_2.txt").symlink_to("gone")
    synthetic.write_log(results(clean) / "result_3.txt", log(3, {"submission_org": "somebody"}))
    (clean / "results" / "one" / "ssd").mkdir()
    assert {"nothing-to-lint", "org-differs", "link-broken"} <= set(rules(clean))
    for broken in ("{half", "[]", '{"number_of_nodes": "many", "accelerators_per_node": null, "submitter": 5}'):
        (clean / "systems" / "one.json").write_text(broken)
        assert "org-differs" in rules(clean)
    (clean / "systems" / "one.json").unlink()
    assert "org-differs" in rules(clean)


def test_times_that_are_no_dates_break_nothing(clean):
    for number, time in enumerate(("1e300", "-1", "NaN", "Infinity", "9e15")):
        text = "\n".join(log(number)).replace(
            f'"time_ms": {START + 10_000_000 * number + 60_000}', f'"time_ms": {time}'
        )
        (results(clean) / f"result_{number}.txt").write_text(text)
    assert "time-implausible" in rules(clean)


@given(content=mutated(st.sampled_from([("\n".join(log(1)) + "\n").encode()])))
def test_no_log_breaks_lint(tmp_path_factory, content):
    place = tmp_path_factory.mktemp("lint") / "results" / "one" / "resnet" / "result_0.txt"
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    found(place)


def test_findings_as_json_name_rule_place_and_fix(clean, capsys):
    respoil(clean, submission_org="SUBMISSION_ORG_PLACEHOLDER")
    assert cli.main(["lint", str(clean), "--round", "3.0.0", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    (item,) = answer["findings"]
    assert {"rule", "title", "file", "line", "expected", "found", "fix", "source"} <= item.keys()
    assert (item["where"], item["line"], item["files"]) == ("tests/one/resnet", 1, 5)
    assert item["official"] == "says nothing"


def test_lint_writes_nothing(clean):
    def state():
        return [(path, (clean / path).stat().st_mtime_ns, files.hash_file(clean / path)) for path in files.walk(clean)]

    before = state()
    found(clean)
    assert state() == before


def test_bad_input_is_named(tmp_path, capsys):
    assert cli.main(["lint", str(tmp_path / "nothing"), "--round", "3.0.0"]) == 2
    assert cli.main(["lint", str(tmp_path), "--round", "3.0.0"]) == 2
    assert cli.main(["lint", str(synthetic.tree(tmp_path)), "--round", "3"]) == 2
    assert "unknown round 3" in capsys.readouterr().err


def test_every_rule_of_lint_can_be_explained(capsys):
    used = "".join(Path(module.__file__).read_text() for module in (lint, logs, contents))
    mine = [name for name in catalogue() if f'"{name}"' in used]
    assert mine == list(catalogue()), "a rule of the catalogue that nothing finds"
    assert cli.main(["explain", "evaluation-schedule"]) == 0
    assert "fix:" in capsys.readouterr().out


def catalogue() -> dict:
    return yaml.safe_load((REPOSITORY / "workflow" / "catalog" / "lint.yaml").read_text())


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="no shared/data/published beside the checkout")
@pytest.mark.parametrize(
    "path, expected",
    [
        ("v3.0/Azure", {"code-missing"}),
        ("v3.0/GIGABYTE", {"code-missing"}),
        ("v5.1/AMD", {"code-missing"}),
        ("v5.1/Quanta_Cloud_Technology", {"code-missing"}),
        ("v5.1/Supermicro", {"code-missing"}),
        ("v1.0/Google", {"code-missing", "time-implausible"}),
        ("v3.0/Intel", {"code-missing", "division-differs", "platform-differs", "time-implausible"}),
        ("v3.0/Lenovo", {"code-missing", "org-placeholder", "platform-placeholder", "other-round"}),
        ("v1.0/nettrix", {"code-missing", "epoch-numbering", "name-with-space"}),
    ],
)
def test_published_results_have_the_findings_that_a_reader_sees_in_them(path, expected):
    assert set(rules(FIXTURES / path, f"{path[1:4]}.0")) == expected
