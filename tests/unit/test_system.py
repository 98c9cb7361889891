"""The system description: parsers on recorded outputs, the merge, the fields that stay open."""

from __future__ import annotations

import json

import pytest

from podium.package import system
from support import first_plan

TWO_SOCKETS = {
    "lscpu": [
        {"field": "Architecture:", "data": "x86_64"},
        {"field": "CPU(s):", "data": "224"},
        {
            "field": "Vendor ID:",
            "data": "GenuineIntel",
            "children": [
                {
                    "field": "Model name:",
                    "data": "Intel(R) Xeon(R) Platinum 8480C",
                    "children": [
                        {"field": "Core(s) per socket:", "data": "56"},
                        {"field": "Socket(s):", "data": "2"},
                        {"field": "CPU max MHz:", "data": "3800.0000"},
                    ],
                }
            ],
        },
        {"field": "L2 cache:", "data": "224 MiB"},
        {"field": "L3 cache:", "data": "210 MiB"},
    ]
}


def test_lscpu_with_nested_fields():
    assert system.parse_lscpu(json.dumps(TWO_SOCKETS)) == {
        "host_processors_per_node": "2",
        "host_processor_model_name": "Intel(R) Xeon(R) Platinum 8480C",
        "host_processor_core_count": "56",
        "host_processor_vcpu_count": "224",
        "host_processor_frequency": "3800 MHz",
        "host_processor_caches": "L2 224 MiB, L3 210 MiB",
    }


def test_lsblk_counts_equal_disks_together():
    disk = {"type": "disk", "rota": False, "size": 3840755982336, "tran": "nvme"}
    text = json.dumps({"blockdevices": [{**disk, "name": "nvme0n1"}, {**disk, "name": "nvme1n1"}]})
    assert system.parse_lsblk(text) == {"host_storage_type": "NVMe SSD", "host_storage_capacity": "2x 3841 GB"}


@pytest.mark.parametrize(
    ("disk", "kind"),
    [
        ({"name": "sda", "tran": "sata", "rota": True}, "HDD"),
        ({"name": "sda", "tran": "sata", "rota": "0"}, "SSD"),
        ({"name": "vda", "tran": None, "rota": True}, "virtual disk"),
    ],
)
def test_kinds_of_disk(disk, kind):
    assert system._disk_kind(disk) == kind


def test_memory_and_operating_system():
    assert system.parse_meminfo("MemTotal:       2113511064 kB\nMemFree: 1 kB") == {"host_memory_capacity": "2016 GiB"}
    assert system.parse_os_release('PRETTY_NAME="Ubuntu 22.04.4 LTS"\n')["operating_system"].startswith(
        "Ubuntu 22.04.4 LTS, "
    )


def test_a_machine_without_the_tools_leaves_fields_open(monkeypatch):
    monkeypatch.setattr(system.shutil, "which", lambda name: None)
    monkeypatch.setattr(system, "_text", lambda path: "")
    assert system.collect() == {}


def test_the_config_wins_over_the_node_but_not_over_who_submits(prepared, built):
    description = {"cooling": "Liquid", "host_memory_capacity": "1TB", "submitter": "somebody else"}
    host = {"nodes": 1, "gpus_per_node": 0, "description": description}
    config = built(prepared(systems={"host": host}))
    made = system.describe(config, first_plan(config).system)
    assert (made["cooling"], made["host_memory_capacity"], made["submitter"]) == ("Liquid", "1TB", "tests")
    assert made["hw_notes"].startswith("demo")
    assert all(isinstance(value, str) for value in made.values())


def test_every_description_passes_the_official_checker(prepared, built, tmp_path):
    from mlperf_logging.system_desc_checker.system_desc_checker import check_system_desc

    config = built(prepared())
    path = tmp_path / "host.json"
    path.write_text(json.dumps(system.describe(config, first_plan(config).system)))
    for round in ("1.0.0", "3.1.0", "4.0.0", "5.1.0", "6.1.0"):
        assert check_system_desc(str(path), "training", round)[0], round


def test_blank_fields_are_named_as_open():
    description = dict.fromkeys(system.FIELDS, "") | {"accelerators_per_node": "8", "cooling": "Air"}
    missing = system.open_fields(description)
    assert "accelerator_model_name" in missing and "cooling" not in missing
    assert "accelerator_model_name" not in system.open_fields(description | {"accelerators_per_node": "0"})
