"""What others bring: any benchmark of MLPerf's, data that are read where they lie, benchmarks of one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mlperf_logging import benchmark_meta

import synthetic
from podium import cli, files, manifest, plan
from podium import config as configuration
from podium.data import bring, fetch, verify
from podium.errors import BadInput
from podium.runs import run as runs
from podium.verdict import attempts, inhouse
from support import SCRIPTED, config_text, first_plan

ROUNDS = [f"{major}.{minor}.0" for major in range(1, 7) for minor in (0, 1)]
OWN = {"dataset": "shapes", "quality": "accuracy", "better": "higher", "target": 0.85, "runs": 3}


def load(value) -> configuration.Config:
    return configuration.from_mapping(value, Path("test.yaml"))


def text(root: Path, benchmark: str, dataset: str, **more) -> dict:
    """A config with one result of a benchmark whose data are read where they lie."""
    result = {"system": "host", "benchmark": benchmark, "implementation": str(SCRIPTED), "config": "good"}
    sets = {dataset: {"source": f"file:{root / 'data'}", "layout": "asis"}}
    return config_text(root / "work", results=[result], data={"sets": sets}, **more)


@pytest.mark.parametrize("round", ROUNDS)
def test_every_benchmark_of_every_round_needs_one_line(tmp_path, round):
    """Its data set may be none of the catalog's, its number of runs is the checker's."""
    for benchmark in sorted(set(benchmark_meta.get_allowed_benchmarks("training", round))):
        dataset = configuration.catalog("benchmarks")[benchmark]["dataset"]
        value = text(tmp_path, benchmark, dataset)
        value["submission"]["round"] = round
        (wanted,) = plan.plans(load(value))
        assert wanted.required == benchmark_meta.get_result_file_counts("training")[benchmark]
        assert wanted.dataset.name == dataset


def test_a_result_may_name_another_data_set(tmp_path):
    value = text(tmp_path, "ssd", "coco")
    value["submission"]["round"] = "1.1.0"
    with pytest.raises(BadInput, match="no data set 'openimages'"):
        plan.plans(load(value))
    value["results"][0]["dataset"] = "coco"
    assert first_plan(load(value)).dataset.name == "coco"


@pytest.fixture
def brought(tmp_path):
    """A config whose data are a folder of the user's, with two files."""
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a.bin").write_bytes(b"a")
    (tmp_path / "data" / "b.bin").write_bytes(b"bb")
    config = load(text(tmp_path, "maskrcnn", "coco"))
    return config, config.dataset("coco")


def test_data_are_hashed_where_they_lie_and_verified(brought, tmp_path):
    config, dataset = brought
    made = bring.bring(config, dataset)
    assert dict(made.counts) == {"files": 2, "bytes": 3}
    assert plan.data_folder(config, dataset) == tmp_path / "data"
    assert [path.name for path in plan.layout_folder(config, dataset).iterdir()] == [manifest.NAME]
    answer = verify.verify(config, dataset, "full")
    assert (answer.problems, answer.content.sha256) == ([], made.sha256)
    (tmp_path / "data" / "b.bin").write_bytes(b"cc")
    assert verify.verify(config, dataset, "quick").problems == []
    assert "b.bin: sha256" in verify.verify(config, dataset, "full").problems[0]
    (tmp_path / "data" / "b.bin").write_bytes(b"longer")
    assert bring.bring(config, dataset).sha256 != made.sha256, "what changed is hashed again"
    assert sorted(files.walk(tmp_path / "data")) == [Path("b.bin"), Path("deep/a.bin")], "the source was changed"


def test_the_marks_of_a_prepared_folder_stay_on_it_when_it_is_read_where_it_lies(brought, tmp_path):
    config, dataset = brought
    folder = tmp_path / "data"
    manifest.write(folder, manifest.of_folder(folder, counts={"subset": True, "official": False, "images": 2}))
    assert dict(bring.bring(config, dataset).counts) == {"files": 2, "bytes": 3, "subset": True, "official": False}


def test_data_that_are_missing_or_empty_or_asked_for_otherwise(brought, tmp_path):
    config, dataset = brought
    bring.bring(config, dataset)
    with pytest.raises(BadInput, match="nothing was made of coco"):
        verify.verify(config, dataset, "sample")
    with pytest.raises(BadInput, match="coco is read where it lies"):
        fetch.fetch(config, dataset)
    with pytest.raises(BadInput, match="is missing"):
        bring.bring(config, replace(dataset, source=f"file:{tmp_path / 'none'}"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="is empty"):
        bring.bring(config, replace(dataset, source=f"file:{tmp_path / 'empty'}"))
    for change in ({"source": "catalog"}, {"params": {"take": 3}}):
        value = text(tmp_path, "maskrcnn", "coco")
        value["data"]["sets"]["coco"] |= change
        with pytest.raises(BadInput, match="cannot be read as it is"):
            load(value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"benchmarks": {"resnet": OWN}}, "benchmarks.resnet is MLPerf's"),
        ({"benchmarks": {"shapes": OWN | {"runs": 2}}}, "benchmarks.shapes.runs is wrong"),
        ({"benchmarks": {"shapes": {**OWN, "traget": 1}}}, "unknown key 'traget'"),
        ({"benchmarks": {"Shapes!": OWN}}, "benchmarks is wrong"),
    ],
)
def test_a_declaration_that_is_wrong(tmp_path, change, says):
    with pytest.raises(BadInput, match=says):
        load(text(tmp_path, "shapes", "shapes", **change))


def test_own_benchmarks_are_neither_mixed_with_mlperfs_nor_closed(tmp_path):
    value = text(tmp_path, "shapes", "shapes", benchmarks={"shapes": OWN})
    value["results"].append({**value["results"][0], "benchmark": "resnet"})
    with pytest.raises(BadInput, match="beside those of your own"):
        load(value)
    value = text(tmp_path, "shapes", "shapes", benchmarks={"shapes": OWN})
    value["submission"]["division"] = "closed"
    with pytest.raises(BadInput, match="in no closed division"):
        load(value)
    with pytest.raises(BadInput, match="unknown benchmark 'shpaes'") as error:
        plan.plans(load(text(tmp_path, "shpaes", "shapes", benchmarks={"shapes": OWN})))
    assert "did you mean 'shapes'" in error.value.found


TASK = configuration.Benchmark("shapes", unit="epoch", **OWN)


def lines(**changes) -> dict[str, list[str]]:
    """The records of a good run by key; a change replaces the records of a key."""
    return {
        "init_start": [synthetic.record("init_start", None, 1)],
        "submission_benchmark": [synthetic.record("submission_benchmark", "shapes", 2)],
        "seed": [synthetic.record("seed", 7, 2)],
        "init_stop": [synthetic.record("init_stop", None, 3)],
        "run_start": [synthetic.record("run_start", None, 4)],
        "eval_accuracy": [synthetic.record("eval_accuracy", 0.9, 5, epoch_num=1)],
        "run_stop": [synthetic.record("run_stop", None, 6, status="success")],
    } | changes


def judged(tmp_path: Path, task: configuration.Benchmark = TASK, **changes) -> list[str]:
    path = synthetic.write_log(tmp_path / "log.txt", [line for same in lines(**changes).values() for line in same])
    return [f"{item.rule}: {item.expected}" for item in inhouse.check_log(path, "log.txt", task)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"run_stop": []}, "inhouse-log: run_stop once"),
        ({"seed": [synthetic.record("seed", 7)] * 2}, "inhouse-log: seed once"),
        ({"init_stop": [synthetic.record("init_stop", None, 9)]}, "inhouse-log: init_start, init_stop"),
        ({"submission_benchmark": [synthetic.record("submission_benchmark", "resnet")]}, "submission_benchmark shapes"),
        ({"eval_accuracy": []}, "inhouse-log: evaluations, eval_accuracy"),
        ({"eval_accuracy": [synthetic.record("eval_accuracy", "good", 5, epoch_num=1)]}, "a number, with epoch_num"),
        ({"eval_accuracy": [synthetic.record("eval_accuracy", 0.9, 5)]}, "a number, with epoch_num"),
        (
            {"eval_accuracy": [synthetic.record("eval_accuracy", 0.8, 5, epoch_num=1)]},
            "inhouse-target: accuracy >= 0.85",
        ),
        (
            {"eval_accuracy": [synthetic.record("eval_accuracy", 0.9, 8, epoch_num=1)]},
            "inhouse-target: accuracy >= 0.85",
        ),
        (
            {"run_stop": [synthetic.record("run_stop", None, 6, status="well")]},
            "run_stop with status success or aborted",
        ),
        ({"run_stop": [synthetic.record("run_stop", None, 6, status="aborted")]}, None),
        ({"seed": [":::MLLOG {half"]}, "log-json: JSON after the token"),
        ({"first": [synthetic.record("podium_rehearsal", True)]}, "rehearsal-log: the log of a training"),
    ],
)
def test_the_rules_for_a_log(tmp_path, changes, says):
    found = judged(tmp_path, **changes)
    assert any(says in item for item in found) if says else found == []


def test_a_lower_quality_may_be_the_better_one_and_have_a_key_of_its_own(tmp_path):
    task = replace(TASK, quality="loss", better="lower", target=0.2, key="eval_loss")
    good = {"eval_accuracy": [synthetic.record("eval_loss", 0.19, 5, samples_count=640)]}
    bad = {"eval_accuracy": [synthetic.record("eval_loss", 0.21, 5, samples_count=640)]}
    assert judged(tmp_path, task, **good) == []
    assert judged(tmp_path, task, **bad) == ["inhouse-target: loss <= 0.2 before run_stop says success"]


def test_a_log_that_cannot_be_read(tmp_path):
    (found,) = inhouse.check_log(tmp_path / "none", "none", TASK)
    assert found.rule == "log-unreadable"


def test_of_three_runs_one_may_break_the_rules(tmp_path, built, capsys):
    """As the olympic score drops one; with two the result has no score."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shapes.bin").write_bytes(b"shapes")
    implementation = tmp_path / "implementation"
    (implementation / "configs").mkdir(parents=True)
    (implementation / "requirements.txt").write_text("# nothing\n")
    (implementation / "configs" / "good.env").write_text("A=1\n")
    script = implementation / "run_and_time.sh"
    good = "\n".join(line for same in lines().values() for line in same)
    # The second run, and where a file says so the third, miss the target.
    script.write_text(
        f"#!/bin/bash\ncat >$LOGDIR/mllog.txt <<'E'\n{good}\nE\nn=$(ls $LOGDIR/../.. | grep -c '^[0-9]')\n"
        f"[ $n != 2 ] && [ ! -e {tmp_path}/bad ] || sed -i s/0.9/0.1/ $LOGDIR/mllog.txt\n"
    )
    script.chmod(0o755)
    value = text(tmp_path, "shapes", "shapes", benchmarks={"shapes": OWN})
    value["results"][0]["implementation"] = str(implementation)
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(value))
    config = built(configuration.load(path))
    bring.bring(config, config.dataset("shapes"))
    wanted = first_plan(config)
    runs.run(config, wanted, 0)
    runs.run(config, wanted, 1)
    assert "check host/shapes attempt 1: does not comply" in capsys.readouterr().err
    runs.run(config, wanted, 2)
    verdict = attempts.check(config, wanted)
    assert [run["compliant"] for run in verdict["runs"]] == [True, False, True]
    assert (verdict["verdict"], verdict["checker"]) == ("compliant", inhouse.CHECKER)
    assert verdict["score"]["minutes"] is not None

    (tmp_path / "bad").touch()
    script.write_text(f"{script.read_text()}# changed, so that the runs are made anew\n")
    built(config)
    for number in range(3):
        runs.run(config, wanted, number)
    assert cli.main(["check", "--system", "host", "--benchmark", "shapes", "--config", str(path)]) == 1
    assert "inhouse-target" in json.dumps(files.read_json(plan.verdict_file(config, wanted)))
