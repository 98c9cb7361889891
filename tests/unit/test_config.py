"""The config: what is filled in, and what each kind of mistake says."""

from __future__ import annotations

import pytest
import yaml

from podium import config as configuration
from podium import plan
from podium.errors import BadInput
from support import REPOSITORY, config_text


def load(value) -> configuration.Config:
    return configuration.from_mapping(value, "test.yaml")


def test_defaults_are_filled_in(tmp_path):
    config = load(config_text(tmp_path))
    assert config.systems["host"].launcher == "local"
    assert config.systems["host"].threads == 1
    assert config.data_root == tmp_path / "data"
    assert config.results[0].time_limit_minutes == 1440
    assert config.checker_version == "4.1.68"


@pytest.mark.parametrize(
    ("place", "key", "near"),
    [
        ((), "sumbission", "submission"),
        (("submission",), "divison", "division"),
        (("systems", "host"), "gpu_per_node", "gpus_per_node"),
        (("results", 0), "benchmrak", "benchmark"),
        (("data", "sets", "imagenet"), "sorce", "source"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_known_one(tmp_path, place, key, near):
    value = config_text(tmp_path)
    target = value
    for part in place:
        target = target[part]
    target[key] = 1
    with pytest.raises(BadInput) as error:
        load(value)
    assert key in error.value.thing
    assert f"did you mean {near!r}" in error.value.found


@pytest.mark.parametrize(
    ("section", "key", "wrong"),
    [
        ("submission", "division", "Closed"),
        ("submission", "round", "3.1"),
        ("submission", "org", "two words"),
        ("submission", "status", "available"),
    ],
)
def test_a_wrong_value_names_its_place(tmp_path, section, key, wrong):
    value = config_text(tmp_path)
    value[section][key] = wrong
    with pytest.raises(BadInput, match=f"{section}.{key}"):
        load(value)


def test_a_result_on_an_unknown_system(tmp_path):
    value = config_text(tmp_path)
    value["results"][0]["system"] = "hots"
    with pytest.raises(BadInput) as error:
        load(value)
    assert "did you mean 'host'" in error.value.found


def test_a_missing_file_and_a_file_that_is_not_yaml(tmp_path):
    with pytest.raises(BadInput, match="cannot read the config"):
        configuration.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [")
    with pytest.raises(BadInput, match="is not YAML"):
        configuration.load(broken)


def test_run_counts_come_from_the_rules(tmp_path):
    config = configuration.load(REPOSITORY / "config" / "config.yaml")
    assert {item.benchmark: item.required for item in plan.plans(config)} == {
        "resnet": 5,
        "rnnt": 10,
        "unet3d": 40,
        "bert": 10,
    }


def test_too_few_attempts_and_a_benchmark_that_the_round_does_not_know(tmp_path):
    value = config_text(tmp_path)
    value["results"][0]["attempts"] = 4
    with pytest.raises(BadInput, match="too few attempts"):
        plan.plans(load(value))
    value = config_text(tmp_path)
    value["submission"]["round"] = "5.1.0"
    with pytest.raises(BadInput, match="resnet is not in round"):
        plan.plans(load(value))


def test_one_result_twice(tmp_path):
    value = config_text(tmp_path)
    value["results"] *= 2
    with pytest.raises(BadInput, match="two results for resnet"):
        plan.plans(load(value))


@pytest.mark.parametrize("path", sorted((REPOSITORY / "config").rglob("*.yaml")), ids=lambda path: path.name)
def test_every_config_that_we_ship_is_valid(path):
    assert plan.plans(configuration.load(path))


def test_the_manual_explains_every_key():
    manual = (REPOSITORY / "config" / "README.md").read_text()
    for key in _keys(configuration.schema("config")):
        assert f"`{key}`" in manual, f"config/README.md does not explain {key}"


def _keys(rules) -> set[str]:
    found = set()
    for name, rule in rules.get("properties", {}).items():
        found |= {name} | _keys(rule)
    for inner in (rules.get("items"), rules.get("additionalProperties")):
        if isinstance(inner, dict):
            found |= _keys(inner)
    return found


def test_snakemake_gets_exactly_one_config(tmp_path):
    path = tmp_path / "one.yaml"
    value = config_text(tmp_path)
    path.write_text(yaml.safe_dump(value))
    assert configuration.load_for_snakemake([path], value).submission.org == "tests"
    with pytest.raises(BadInput, match="more than one config"):
        configuration.load_for_snakemake([path, path], value)
    with pytest.raises(BadInput, match="more than one config"):
        configuration.load_for_snakemake([path], value | {"root": "elsewhere"})
