"""The system description: parsers on outputs of several machines, nodes that differ, the config, the open fields."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from podium import cli, files
from podium import config as configuration
from podium.errors import BadInput
from podium.package import nodes, system
from podium.package.probes import accelerators, host, network, software
from support import first_plan

MACHINES = Path(__file__).parent / "machines"
EXPECTED = {
    "eight-h100": {
        "host_processors_per_node": "2",
        "host_processor_model_name": "Intel(R) Xeon(R) Platinum 8480C",
        "host_processor_core_count": "56",
        "host_processor_vcpu_count": "224",
        "host_processor_frequency": "3800 MHz",
        "host_memory_capacity": "2048 GB",
        "host_memory_configuration": "32x 64 GB DDR5-4800",
        "host_storage_type": "NVMe SSD",
        "host_storage_capacity": "2x 1.92 TB, 8x 3.84 TB",
        "host_networking": "8x InfiniBand 400 Gb/s, 1x Ethernet 100 Gb/s, 2x RoCE 100 Gb/s",
        "accelerator_model_name": "NVIDIA H100 80GB HBM3",
        "accelerator_memory_capacity": "80 GiB",
        "accelerator_memory_configuration": "HBM3",
        "accelerator_frequency": "1980 MHz",
        "accelerator_host_interconnect": "PCIe 5.0 x16",
        "accelerator_interconnect": "18x NVLink 26.562 GB/s",
        "operating_system": "Ubuntu 22.04.4 LTS, Linux 6.1.0",
    },
    "eight-mi300x": {
        "host_processor_core_count": "48",
        "host_processor_frequency": "4114 MHz",
        "host_memory_configuration": "24x 96 GB DDR5-4800",
        "host_storage_type": "NVMe SSD, SSD",
        "host_storage_capacity": "1x 480 GB, 4x 7.68 TB",
        "host_networking": "8x RoCE 400 Gb/s, 1x Ethernet 25 Gb/s",
        "accelerator_model_name": "AMD Instinct MI300X OAM",
        "accelerator_memory_capacity": "192 GiB",
    },
    "eight-gaudi2": {
        "host_processor_frequency": "2300 MHz",
        "host_memory_capacity": "1007 GiB",
        "host_networking": "4x Ethernet 100 Gb/s",
        "accelerator_model_name": "HL-225",
        "accelerator_memory_capacity": "96 GiB",
    },
    "virtual": {
        "host_processor_model_name": "Neoverse-N1",
        "host_processor_caches": "L1d 4 MiB, L1i 4 MiB, L2 64 MiB",
        "host_storage_type": "virtual disk",
        "host_networking": "1x Ethernet",
    },
}


def node(machine: str, name: str = "n1") -> nodes.Node:
    """A node from the texts in machines/<machine>/: one file for each tool that this machine has."""

    def text(tool: str) -> str:
        path = MACHINES / machine / tool
        return path.read_text() if path.exists() else ""

    said = {tool: text(tool) for tool in (*nodes.TOOLS, "nvlink")}
    said |= {path: text(path.rpartition("/")[2].replace("-", "_")) for path in nodes.FILES}
    return nodes.parse(name, "6.1.0", said, json.loads(text("speeds")))


@pytest.mark.parametrize("machine", EXPECTED)
def test_the_tools_of_a_machine_fill_the_official_fields(machine):
    found = node(machine)
    assert found.fields.items() >= EXPECTED[machine].items()
    assert found.fields.keys() <= set(system.FIELDS)
    assert all(found.fields.values()), "what is not known is left out"
    assert found.accelerators == (0 if machine == "virtual" else 8)


def test_versions_of_driver_and_scheduler_are_kept():
    assert node("eight-h100").software == {"driver": "535.161.08", "cuda_driver": "12.2", "slurm": "23.02.7"}
    assert node("eight-mi300x").software == {"driver": "6.7.8"}
    assert node("eight-gaudi2").software == {"driver": "1.15.1-62f612b"}


def test_a_number_of_sockets_that_a_virtual_machine_does_not_tell_is_left_out():
    assert "host_processors_per_node" not in node("virtual").fields


def test_missing_tools_are_named_and_no_error(monkeypatch):
    monkeypatch.setattr(nodes.shutil, "which", lambda name, path: None)
    monkeypatch.setattr(nodes, "read", lambda path: "")
    found = nodes.collect()
    assert found.fields == {} and found.software == {} and found.accelerators == 0
    assert set(found.silent) == set(nodes.TOOLS)


def test_a_tool_that_hangs_tells_nothing(monkeypatch, tmp_path):
    tool = tmp_path / "ibstat"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nodes, "PATIENCE", 0.2)
    assert nodes.output("ibstat") == ""


def test_without_a_highest_frequency_the_one_of_now_is_told():
    assert host.cpuinfo("processor\t: 0\ncpu MHz\t\t: 2445.404\n") == {"host_processor_frequency": "2445 MHz"}
    assert host.cpuinfo("") == {}


def test_unequal_accelerators_of_one_node_are_counted_apart():
    assert accelerators.counted(["A", "B", "A"]) == "2x A, 1x B"


# JSON of any form, and near the forms that the tools print.
LEAVES = some.none() | some.booleans() | some.integers() | some.text(max_size=5)
KEYS = some.sampled_from(
    [
        "lscpu",
        "field",
        "data",
        "children",
        "blockdevices",
        "type",
        "size",
        "name",
        "tran",
        "rota",
        "ifname",
        "operstate",
    ]
    + ["link_type", "card0", "system", "Card series", "VRAM Total Memory (B)"]
)
VALUES = some.recursive(
    LEAVES | some.sampled_from(["disk", "ether", "UP", "1000"]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(some.text() | VALUES.map(json.dumps))
def test_no_text_makes_a_parser_fall_over(text):
    for parse in (host.lscpu, host.meminfo, host.dmidecode, host.lsblk, network.infiniband, software.scheduler):
        parse(text)
    network.networking(text, text, {})
    for vendor in (accelerators.nvidia, accelerators.rocm, accelerators.habana):
        assert vendor(text).count >= 0


def test_nodes_that_differ_are_shown_and_never_averaged(prepared, built):
    config = built(prepared())
    wanted = replace(config.system("host"), nodes=3, gpus_per_node=8)
    seen = [node("eight-h100", "n1"), node("eight-h100", "n2"), node("eight-mi300x", "n3")]
    found = system.describe(config, wanted, seen)
    assert (
        found.fields["accelerator_model_name"] == "NVIDIA H100 80GB HBM3 (2 nodes), AMD Instinct MI300X OAM (1 nodes)"
    )
    assert found.differences["accelerator_model_name"] == {
        "NVIDIA H100 80GB HBM3": ["n1", "n2"],
        "AMD Instinct MI300X OAM": ["n3"],
    }
    assert found.fields["other_software_stack"]["driver"] == "535.161.08, 6.7.8"
    assert found.fields["host_processors_per_node"] == "2", "the same on all"


def test_a_count_that_differs_is_left_open(prepared, built):
    config = built(prepared())
    one, two = node("eight-h100", "n1"), node("eight-h100", "n2")
    two = replace(two, fields={**two.fields, "host_processors_per_node": "1"})
    found = system.describe(config, replace(config.system("host"), nodes=2, gpus_per_node=8), [one, two])
    assert "host_processors_per_node" in found.open


def test_nodes_that_are_not_what_the_config_says_are_named(prepared, built):
    config = built(prepared())
    found = system.describe(config, replace(config.system("host"), nodes=2, gpus_per_node=4), [node("eight-h100")])
    assert found.differences["accelerators, against the config"] == {"4": ["config"], "8": ["n1"]}
    assert found.differences["number_of_nodes, against the config"] == {"2": ["config"], "1": ["n1"]}


def test_the_config_wins_over_the_nodes_but_not_over_who_submits(prepared, built):
    description = {"cooling": "Liquid", "host_memory_capacity": "1TB", "submitter": "somebody else"}
    config = built(prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "description": description}}))
    made = system.describe(config, first_plan(config).system).fields
    assert (made["cooling"], made["host_memory_capacity"], made["submitter"]) == ("Liquid", "1TB", "tests")
    assert made["hw_notes"].startswith("demo")


@pytest.mark.parametrize(
    ("description", "words"),
    [({"coolin": "Air"}, "did you mean 'cooling'"), ({"cooling": {"kind": "Air"}}, "dict")],
)
def test_a_field_that_is_none_and_a_value_of_a_wrong_type_are_refused(prepared, built, description, words):
    config = built(prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "description": description}}))
    with pytest.raises(BadInput) as error:
        system.describe(config, config.system("host"))
    assert words in error.value.found


@pytest.mark.parametrize("machine", EXPECTED)
def test_every_description_passes_the_official_checker(prepared, built, tmp_path, machine):
    from mlperf_logging.system_desc_checker.system_desc_checker import check_system_desc

    config = built(prepared())
    path = tmp_path / "host.json"
    path.write_text(json.dumps(system.describe(config, first_plan(config).system, [node(machine)]).fields))
    for round in ("1.0.0", "3.1.0", "4.0.0", "5.1.0", "6.1.0"):
        assert check_system_desc(str(path), "training", round)[0], round


def test_blank_fields_and_placeholders_are_open_though_the_official_checker_passes_them():
    description = dict.fromkeys(system.FIELDS, "") | {"accelerators_per_node": "8", "cooling": "TBD"}
    missing = system.open_fields(description)
    assert {"accelerator_model_name", "cooling", "host_networking"} <= set(missing)
    assert not {"hw_notes", "sw_notes"} & set(missing), "nothing to note is an answer"
    assert "cooling" not in system.open_fields(description | {"cooling": "Air-cooled"})
    assert "accelerator_model_name" not in system.open_fields(description | {"accelerators_per_node": "0"})


def test_what_each_node_prints_becomes_one_description(prepared, built, tmp_path, capsys):
    config = built(prepared(systems={"host": {"nodes": 2, "gpus_per_node": 8}}))
    told = []
    for name in ("n1", "n2"):
        told.append(tmp_path / f"{name}.json")
        files.write_json(told[-1], node("eight-h100", name).as_json())
    words = ["describe", "--system", "host", "--config", str(config.path), "--from", *map(str, told)]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "open (set them under systems.host.description): " in said and "cooling" in said
    assert "differs" not in said
    told[1].write_text("{}")
    assert cli.main(words) == 2
    assert cli.main(["describe", "--node"]) == 0
    assert json.loads(capsys.readouterr().out)["host"]


def test_the_framework_and_its_libraries_come_from_the_images():
    packages = [{"torch": "2.13.0", "nvidia-cudnn-cu12": "9.1.0"}, {"torch": "2.13.0", "nvidia-nccl-cu12": "2.27.3"}]
    assert software.framework(packages) == "PyTorch 2.13.0"
    assert software.libraries(packages) == {"cudnn": "9.1.0", "nccl": "2.27.3"}


def test_the_manual_and_the_schema_know_the_same_status_words():
    statuses = configuration.schema("config")["properties"]["submission"]["properties"]["status"]["enum"]
    assert set(statuses) == set(system.STATUS)
