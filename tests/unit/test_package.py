"""From recorded runs to an archive: check, score, pack, archive, report, and what stops each of them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest

from podium import cli, files, manifest, plan
from podium import config as configuration
from podium.errors import BadInput, Findings
from podium.package import archive, inspect, layout, nodes, system
from podium.report import board, html
from podium.runs import run as runs
from podium.verdict import check
from support import first_plan


@pytest.fixture
def finished(prepared, built):
    """A config whose five runs are recorded and whose system is described."""

    def finish(name: str = "good", count: int = 5):
        config = built(prepared(name))
        wanted = first_plan(config)
        for number in range(count):
            runs.run(config, wanted, number)
        system.write(config, wanted.system, [nodes.collect()])
        return config

    return finish


def packed(config):
    check.check_result(config, first_plan(config))
    content = layout.pack(config)
    inspect.inspect(config)
    return content


def test_a_good_result_goes_all_the_way(finished):
    config = finished()
    verdict = check.check_result(config, first_plan(config))
    assert verdict["verdict"] == "compliant"
    assert verdict["counted"] == [0, 1, 2, 3, 4]
    packed(config)
    tree = plan.tree_folder(config)
    about = tree / "benchmarks" / "resnet" / "implementations" / "host"
    required = {"host_scripted.json", "README.md", "setup.sh", "init_datasets.sh", "run_and_time.sh"}
    assert required <= {path.name for path in about.iterdir()}
    for script in about.glob("*.sh"):
        subprocess.run(["bash", "-n", script], check=True)
    results = tree / "results" / "host" / "resnet"
    assert sorted(path.name for path in results.iterdir()) == [f"result_{index}.txt" for index in range(5)]
    receipt = archive.archive(config)
    target = archive.archive_file(config)
    assert receipt["sha1"] == hashlib.sha1(target.read_bytes()).hexdigest()
    assert receipt["label"].startswith("demo")
    with tarfile.open(target) as tar:
        assert {name.split("/")[0] for name in tar.getnames()} == {"tests"}


def test_every_json_that_is_written_fits_its_schema(finished):
    config = finished()
    item = first_plan(config)
    packed(config)
    archive.archive(config)
    written = {
        "manifest": [layout.manifest_file(config), plan.layout_folder(config, item.dataset) / "manifest.json"],
        "image": [plan.image_file(config, item)],
        "run": [plan.result_folder(config, item) / str(number) / "run.json" for number in range(5)],
        "verdict": [plan.verdict_file(config, item)],
        "receipt": [archive.receipt_file(config)],
    }
    for name, paths in written.items():
        for path in paths:
            configuration.check(files.read_json(path), configuration.schema(name), path)


def test_checking_leaves_the_tree_as_it_is(finished):
    config = finished()
    packed(config)
    tree = plan.tree_folder(config)
    before = manifest.of_folder(tree)
    check.check_tree(tree, "3.1.0")
    assert manifest.of_folder(tree) == before


def test_the_same_tree_gives_the_same_archive(finished, tmp_path):
    config = finished()
    packed(config)
    first = archive.archive(config)["sha256"]
    for path in plan.tree_folder(config).rglob("*"):
        path.touch()
    assert archive.archive(config)["sha256"] == first


def test_runs_that_miss_the_target_are_findings_though_the_open_division_has_none(finished, capsys):
    config = finished("never")
    words = ["check", "--system", "host", "--benchmark", "resnet", "--config", str(config.path)]
    assert cli.main(words) == 1
    told = capsys.readouterr().err
    assert "5 runs did not converge, 1 may" in told
    with pytest.raises(Findings, match="cannot be packed"):
        layout.pack(config)
    assert board.board(config).rows[0].word == "invalid"


def test_too_few_runs_are_found(finished):
    config = finished(count=4)
    verdict = check.check_result(config, first_plan(config))
    assert "5 runs are required, 4 are there" in verdict["findings"]
    assert any("found 4, expected 5" in message for message in verdict["official"]["messages"])
    assert board.board(config).rows[0].word == "short"


def test_an_edited_log_is_found(finished):
    config = finished()
    log = plan.result_folder(config, first_plan(config)) / "3" / "result.txt"
    log.write_text(log.read_text().replace("0.9", "0.91"))
    verdict = check.check_result(config, first_plan(config))
    assert verdict["verdict"] == "not compliant"
    assert any("the log was edited after the run" in line for line in verdict["findings"])


def test_a_missing_description_and_a_missing_verdict_say_how_to_make_them(finished):
    config = finished()
    with pytest.raises(BadInput) as error:
        layout.pack(config)
    assert error.value.next.startswith("podium check --system host")
    plan.system_file(config, "host").unlink()
    for step in (lambda: check.check_result(config, first_plan(config)), lambda: layout.pack(config)):
        with pytest.raises(BadInput) as error:
            step()
        assert error.value.next.startswith("podium describe --system host")


def test_a_subset_or_other_data_behind_a_closed_result_are_not_packed(finished):
    config = finished()
    packed(config)
    closed = replace(config, submission=replace(config.submission, division="closed"))
    layout.pack(closed)
    data = plan.layout_folder(config, config.dataset("imagenet"))
    whole = manifest.read(data)
    manifest.write(data, replace(whole, counts={"subset": True}, params={"take": 2}))
    layout.pack(config)  # the open division may
    with pytest.raises(BadInput, match="imagenet/recordio is a subset"):
        layout.pack(closed)
    (data / "train.rec").write_bytes(b"other records")
    manifest.write(data, manifest.of_folder(data))
    with pytest.raises(BadInput, match="attempt 0 of host/resnet was made with other data"):
        layout.pack(closed)


def test_a_refused_pack_leaves_the_last_good_tree(finished):
    config = finished()
    before = packed(config)
    verdict = plan.verdict_file(config, first_plan(config))
    files.write_json(verdict, {**files.read_json(verdict), "verdict": "not compliant"})
    with pytest.raises(Findings):
        layout.pack(config)
    assert manifest.of_folder(plan.tree_folder(config)).sha256 == before.sha256


def test_a_tree_that_was_changed_or_not_checked_is_not_archived(finished):
    config = finished()
    with pytest.raises(BadInput, match="nothing is packed"):
        archive.archive(config)
    packed(config)
    (plan.tree_folder(config) / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="was changed after it was packed"):
        archive.archive(config)
    (plan.tree_folder(config) / "notes.txt").unlink()
    log = next(plan.tree_folder(config).rglob("result_0.txt"))
    log.write_bytes(log.read_bytes().replace(b"0.9", b"0.8"))
    with pytest.raises(BadInput, match="was changed after it was packed"):
        archive.archive(config)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda tree: shutil.rmtree(tree / "results"), "no results/"),
        (lambda tree: shutil.rmtree(tree / "systems"), "no systems/"),
    ],
)
def test_what_is_no_tree_is_refused(finished, spoil, words):
    config = finished()
    packed(config)
    spoil(plan.tree_folder(config))
    with pytest.raises(BadInput) as error:
        check.check_tree(plan.tree_folder(config), "3.1.0")
    assert words in error.value.found


def test_an_empty_results_folder_is_found_where_the_official_tool_is_silent(finished):
    config = finished()
    packed(config)
    tree = plan.tree_folder(config)
    shutil.rmtree(tree / "results" / "host")
    answer = check.check_tree(tree, "3.1.0")
    assert answer["package"]["passed"], "the official checker says nothing"
    assert answer["verdict"] == "not compliant"


def test_hidden_files_are_found_by_the_repository_checker(finished):
    config = finished()
    packed(config)
    tree = plan.tree_folder(config)
    (tree / "benchmarks" / ".env").write_text("")
    assert not check.check_tree(tree, "3.1.0")["repository"]["passed"]


def test_the_report_shows_every_run_and_its_label(finished):
    config = finished()
    check.check_result(config, first_plan(config))
    page = html.page(config)
    assert page.count('data-tip="run ') == 10, "a point and a column for each run"
    assert "unverified" in page
    assert "http" not in page.replace("http-equiv", ""), "the page must not reach out"


def test_the_report_of_an_empty_work_root_says_what_is_missing(prepared):
    page = html.page(prepared())
    assert "Not checked yet" in page
    assert "No evaluation was logged" in page


@pytest.mark.parametrize("verb", ["pack", "score", "status", "report"])
def test_a_verdict_of_another_version_is_made_again_by_the_command_that_is_named(finished, verb, capsys):
    config = finished()
    wanted = first_plan(config)
    verdict = check.check_result(config, wanted)
    path = plan.verdict_file(config, wanted)
    for old in ({key: value for key, value in verdict.items() if key != "counted"}, "half"):
        files.write_json(path, old)
        assert cli.main([verb, "--config", str(config.path)]) == 2
        told = capsys.readouterr().err
        assert "is not of this version" in told
        command = told.rsplit("podium ", 1)[1].split()
        assert cli.main(command) == 0
        assert cli.main([verb, "--config", str(config.path)]) == 0
        capsys.readouterr()
