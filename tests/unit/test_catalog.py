"""The catalog: every entry has its form, its facts fit each other, and what is closed is never waited for."""

from __future__ import annotations

import re

import pytest
import yaml

from podium import config as configuration
from podium.data import catalog
from podium.data.transfer import access, reader
from podium.errors import BadInput

ENTRIES = {name: catalog.entry(name) for name in catalog.names()}
BENCHMARKS = (
    "llama31_8b gpt_oss_20b llama31_405b llama2_70b_lora flux1 dlrm_dcnv2 retinanet rgat resnet rnnt unet3d bert"
)


def test_every_benchmark_has_its_data():
    named = [entry["benchmark"] for entry in ENTRIES.values()]
    flat = {name for one in named for name in (one if isinstance(one, list) else [one])}
    assert flat == set(BENCHMARKS.split())


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_the_form(name):
    path = catalog.FOLDER / f"{name}.yaml"
    configuration.check(ENTRIES[name], configuration.schema("catalog"), path)
    assert ENTRIES[name]["name"] == name
    assert ENTRIES[name]["footprint"]["peak"] >= max(ENTRIES[name]["footprint"].values())


@pytest.mark.parametrize("name", ENTRIES)
def test_files_have_paths_of_their_own_and_sources_that_can_be_read(name):
    items = catalog.known(ENTRIES[name])
    assert len({item.path for item in items}) == len(items)
    for item in items:
        assert not re.search(r"[{}]", item.path + "".join(item.sources)), item
        assert all(reader(source) for source in item.sources)
        assert all(re.fullmatch("[0-9a-f]+", value) for value in item.hashes.values())
    if all(item.bytes is not None for item in items) and "listings" not in ENTRIES[name]:
        assert sum(item.bytes for item in items) == ENTRIES[name]["footprint"]["raw"]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_readme_tells_what_to_expect_and_how_it_goes_wrong(name):
    text = (catalog.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    numbered = re.findall(r"^(\d+)\. ", text, re.MULTILINE)
    assert len(numbered) >= 4
    assert numbered == [str(number) for number in range(1, len(numbered) + 1)]
    assert "goes wrong" in text


@pytest.mark.parametrize(
    "wrong", ["benchmarks: x", "access: secret", "access: gated", "files: [{name: x}]", "footprint: {raw: 1}"]
)
def test_a_wrong_entry_is_refused(wrong, tmp_path):
    value = {
        "name": "x",
        "title": "x",
        "benchmark": "x",
        "licence": "x",
        "access": "public",
        "footprint": {"raw": 1, "peak": 1},
        "files": [{"path": "x"}],
    }
    configuration.check(value, configuration.schema("catalog"), tmp_path)
    with pytest.raises(BadInput):
        configuration.check(value | yaml.safe_load(wrong), configuration.schema("catalog"), tmp_path)


def test_rows_of_a_table_become_files():
    items = {item.path: item for item in catalog.known(ENTRIES["kits19"])}
    assert len(items) == 420
    first = items["case_00000/segmentation.nii.gz"]
    assert first.bytes == 775587
    assert first.sources[0].endswith("/data/case_00000/segmentation.nii.gz")
    assert items["case_00209/imaging.nii.gz"].hashes == {}


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry["access"] != "public"])
def test_what_is_closed_says_what_to_accept_and_what_to_set(name, monkeypatch):
    for choices in access.TOKENS.values():
        for variable in {variable for choice in choices for variable in choice.values()}:
            monkeypatch.delenv(variable, raising=False)
    with pytest.raises(BadInput, match="without you") as error:
        catalog.wanted(ENTRIES[name])
    assert ENTRIES[name]["ask"] in error.value.next
    assert f"data.sets.{name}.source to file:FOLDER" in error.value.next
    if ENTRIES[name]["access"] == "gated":
        assert "CF_ACCESS_CLIENT_ID" in error.value.next
        monkeypatch.setenv("CF_ACCESS_TOKEN", "x")
        assert catalog.wanted(ENTRIES[name])
