"""Plans: what they say, what they refuse, what fits which hardware."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import published
from podium import cli, config, manifest
from podium import plan as ours
from podium.errors import BadInput
from podium.reproduce import discover, hardware, known, plan, replan
from support import config_text


@pytest.fixture
def planned(tmp_path):
    """The plans of a made round under a config."""

    def make(style: str = "docker", prepared: bool = True, reproduce: dict | None = None, **facts) -> list[plan.Plan]:
        root = tmp_path / "round"
        published.results(published.code(root, style), **facts)
        path = tmp_path / "podium.yaml"
        path.write_text(yaml.safe_dump(config_text(tmp_path / "work", reproduce=reproduce or {})))
        loaded = config.load(path)
        if prepared:
            data = ours.layout_folder(loaded, loaded.dataset("imagenet"))
            data.mkdir(parents=True)
            manifest.write(data, manifest.of_folder(data))
        tree = discover.discover(root)
        return plan.plans(tree, known.known(tree, published.ROUND), hardware.mine(loaded, None, None))

    return make


def test_a_plan_says_all_that_it_takes(planned):
    (made,) = planned(reproduce={"price_per_accelerator_hour": 3.0, "runs": 4})
    assert (made.refused, made.style, made.config, made.runs, made.required) == ("", "docker", "config_one.sh", 4, 5)
    assert made.exports["WALLTIME"] == "5"
    assert made.limit_minutes == 5
    assert made.image.replaced == {"nvcr.io/nvidian/mxnet:21.05-py3": "nvcr.io/nvidia/mxnet:21.05-py3"}
    (data,) = made.data
    assert (data.variable, data.target, data.set, data.layout, data.prepared) == (
        "DATADIR", "/data", "imagenet", "recordio", True)  # fmt: skip
    assert made.environment["DATADIR"] == data.place
    assert made.environment["CHECK_COMPLIANCE"] == "0"
    assert made.expected.minutes == pytest.approx(600 * 35.8 / 36 / 60, rel=0.01)
    assert made.expected.cost == pytest.approx(3 * made.expected.accelerator_hours)
    assert made.lacks == ()
    assert made.commands[-1] == "bash ./run_with_docker.sh"
    assert "data set imagenet is made small here (source demo), theirs is whole" in made.notes


def test_commands_of_a_plan_can_be_pasted_into_a_shell(planned):
    for style in ("docker",):
        for made in planned(style):
            for line in made.commands:
                subprocess.run(["bash", "-n", "-c", line], check=True)


def test_data_that_are_not_prepared_come_with_the_command_that_prepares_them(planned):
    (made,) = planned(prepared=False)
    assert made.data[0].command == "podium fetch imagenet && podium prepare imagenet --layout recordio"
    assert made.data[0].command in made.commands


def test_what_this_machine_lacks_is_told(planned):
    (made,) = planned(number_of_nodes="4", accelerators_per_node="8", host_processor_model_name="Grace CPU")
    assert len(made.lacks) >= 3
    assert made.lacks[0] == "4 nodes, 1 here"
    assert any("aarch64" in item for item in made.lacks)


def test_several_nodes_are_started_by_slurm(planned):
    (made,) = planned("slurm", number_of_nodes="4", accelerators_per_node="8")
    assert made.start == ("sbatch", "--wait", "-N", "4", "-t", "5", "./run.sub")
    assert any("Slurm" in item for item in made.lacks)


def test_differences_come_with_the_likeliest_explanation_first(planned):
    (made,) = planned(number_of_nodes="4", accelerators_per_node="8")
    assert [item.field for item in made.differences[:2]] == ["accelerators_per_node", "number_of_nodes"]


def test_a_result_without_code_is_refused_by_name(tmp_path):
    submitter = tmp_path / "round" / "acme"
    published.results(submitter)
    tree = discover.discover(tmp_path / "round")
    (made,) = plan.plans(tree, known.known(tree, published.ROUND), hardware.mine(None, None, None))
    assert made.refused == "no code: acme has none for resnet"
    assert made.as_json()["state"] == "refused"


def test_fewer_accelerators_keep_the_batch_by_accumulation_or_have_a_reference_of_their_own(planned):
    (made,) = planned()
    wide = replace(made, batch_size=6528, wants=replace(made.wants, nodes=2, gpus=8),
                   exports={"BATCHSIZE": "408", "GRADIENT_STEPS": "1"})  # fmt: skip
    answer = replan.replan(wide, published.ROUND, 1, 8)
    sizes = {option.batch_size: option for option in answer.options}
    assert sizes[6528].accumulation == 2
    assert sizes[6528].set == {"DGXNNODES": "1", "DGXNGPU": "8", "BATCHSIZE": "816", "GRADIENT_STEPS": "2"}
    assert sizes[3264].accumulation == 1
    assert answer.options[0].rcp in ("found", "interpolated")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"batch_size": None}, "tell no global batch size"),
        ({"exports": {"TP": "4", "PP": "4"}}, "divided over 16 devices"),
        ({"benchmark": "minigo"}, "has a reference point"),
    ],
)
def test_hardware_that_no_reference_covers_is_refused_with_the_reason(planned, change, why):
    (made,) = planned()
    answer = replan.replan(replace(made, **change), published.ROUND, 1, 8)
    assert why in answer.refused
    assert answer.options == ()


def run(tmp_path: Path, *words: str) -> int:
    return cli.main(["reproduce", str(tmp_path / "round"), "--config", str(tmp_path / "podium.yaml"),
                     "--round", published.ROUND, *words])  # fmt: skip


def test_the_verb_lists_plans_and_replans_as_text_and_as_json(planned, tmp_path, capsys):
    planned()
    for words in (["--list"], ["--plan"], ["--nodes", "1", "--gpus", "8", "--system", "one", "--benchmark", "resnet"]):
        assert run(tmp_path, *words) == 0
        assert "acme" in capsys.readouterr().out or words[0] == "--nodes"
        assert run(tmp_path, *words, "--json") == 0
        assert json.loads(capsys.readouterr().out)


def test_the_list_ends_with_what_cannot_be_run_and_why(planned, tmp_path, capsys):
    planned()
    assert run(tmp_path, "--list") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 implementations, 0 not runnable"
    papers = tmp_path / "round" / "acme" / "benchmarks" / "bert" / "implementations" / "pytorch"
    papers.mkdir(parents=True)
    (papers / "README.md").write_text("see elsewhere\n")
    assert run(tmp_path, "--list") == 0
    *_, count, why = capsys.readouterr().out.splitlines()
    assert count == "2 implementations, 1 not runnable:"
    assert why.endswith("bert/implementations/pytorch: it is documentation only: README.md")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--system", "other", "--benchmark", "resnet"], "no result other/resnet"),
        (["--runs", "0", "--plan"], "--runs is too small"),
        (["--nodes", "2"], "half a size"),
        (["--submitter", "nobody", "--list"], "no submitter nobody"),
        (["--on", "nowhere", "--plan"], "unknown system"),
    ],
)
def test_bad_input_is_told_with_the_next_command(planned, tmp_path, capsys, words, said):
    planned()
    assert run(tmp_path, *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "next:" in error


def test_nothing_foreign_runs_unasked(planned, tmp_path, capsys):
    planned()
    assert run(tmp_path, "--system", "one", "--benchmark", "resnet") == 2
    assert "foreign code is not run unasked" in capsys.readouterr().err
    page = (tmp_path / "work" / "reproduce" / "acme" / "one" / "resnet" / "warning.txt").read_text()
    assert "calls for rights" in page
    assert "run_with_docker.sh" in page


def test_a_plan_that_lacks_something_is_not_run(planned, tmp_path, capsys):
    planned(accelerators_per_node="8")
    assert run(tmp_path, "--system", "one", "--benchmark", "resnet", "--yes") == 2
    assert "8 accelerators a node" in capsys.readouterr().err


def test_configs_of_the_whole_are_checked(tmp_path):
    value = config_text(tmp_path, reproduce={"margins": 0.1})
    with pytest.raises(BadInput, match="did you mean 'margin'"):
        config.from_mapping(value, Path("x.yaml"))
    value = config_text(tmp_path, reproduce={"system": "nobody"})
    with pytest.raises(BadInput, match="unknown system"):
        config.from_mapping(value, Path("x.yaml"))
