"""What a run was like: from steps.txt, tracked_stats, blocks; and from logs that tell less, or nonsense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.nightly import facts, measure

START = 1_700_000_000_000


def line(seconds, key, value=None, **metadata):
    record = {"namespace": "", "time_ms": START + int(1000 * seconds), "event_type": "", "key": key, "value": value}
    return f":::MLLOG {json.dumps({**record, 'metadata': metadata})}\n"


def log(*middle, batch=32, stop=100.0, status="success"):
    return "".join(
        [
            line(-12, "cache_clear", True, how="system"),
            line(-10, "init_start"),
            line(-1, "global_batch_size", batch),
            line(0, "run_start"),
            line(0, "train_samples", 3200),
            *middle,
            line(stop, "run_stop", status=status),
        ]
    )


@pytest.fixture
def measured(tmp_path):
    def measured(text, steps=None):
        (tmp_path / "result.txt").write_text(text)
        if steps is not None:
            (tmp_path / "steps.txt").write_text(steps)
        return measure.measure(tmp_path / "result.txt", tmp_path / "steps.txt")

    return measured


def test_steps_come_from_the_implementation_s_own_clock_without_the_warm_up(measured):
    steps = "9.0 32 100\n" * 12 + "".join(f"{0.1 + i / 10000:.4f} 32 2000000000\n" for i in range(200))
    found = measured(log(line(50, "eval_accuracy", 0.7, epoch_num=2)), steps)
    assert found.steps["source"] == "steps" and found.steps["count"] == 212
    assert found.values["step"] == pytest.approx(0.11, rel=0.02)
    assert found.values["step_p99"] == pytest.approx(0.1199, rel=0.01)
    assert found.values["throughput"] == pytest.approx(32 / 0.11, rel=0.02)
    assert found.values["memory"] == 2.0
    assert found.values["minutes"] == pytest.approx(100 / 60)
    assert (found.values["to_target"], found.values["init"]) == (2.0, 10.0)
    assert (found.curve, found.cache, found.missing) == (((2.0, 0.7),), "system", ())


def test_without_a_file_of_steps_the_log_s_own_throughput_tells(measured):
    stats = [line(i, "tracked_stats", {"throughput": 320.0, "max_memory_usage": 20.5}, step=i) for i in range(1, 9)]
    found = measured(log(*stats))
    assert (found.steps["source"], found.values["step"], found.values["memory"]) == ("tracked_stats", 0.1, 20.5)


def test_without_either_the_blocks_tell_and_evaluations_do_not_count(measured):
    blocks = []
    for number in range(6):
        at = 16 * number
        blocks += [line(at, "block_start", first_epoch_num=number + 1, epoch_count=1), line(at + 10, "eval_start")]
        blocks += [line(at + 15, "eval_accuracy", 0.5, epoch_num=number + 1), line(at + 15, "block_stop")]
    found = measured(log(*blocks))
    assert (found.steps["source"], found.values["step"], found.values["throughput"]) == ("blocks", 0.1, 320.0)


def test_samples_of_bert_s_blocks_are_samples(measured):
    found = measured(log(line(0, "block_start", epoch_count=6400), line(20, "block_stop")))
    assert found.values["step"] == pytest.approx(0.1)


def test_a_run_that_missed_its_target_has_no_time_to_it(measured):
    found = measured(log(line(50, "eval_accuracy", 0.7, epoch_num=2), status="aborted"))
    assert not {"minutes", "to_target"} & found.values.keys()
    assert found.missing == ("step: no steps.txt, no tracked_stats with a throughput, no block that ended",)


def test_a_clock_that_was_set_back_is_told(measured):
    found = measured(log(stop=-3600.0))
    assert "minutes" not in found.values
    assert any("the clock was set back" in what for what in found.missing)


def test_nothing_is_made_of_nothing(measured, tmp_path):
    assert measured("no log\n").missing == ("everything: the run left no MLLOG line",)
    assert measure.measure(tmp_path / "absent", None).values == {}


def test_power_is_the_sum_of_what_nodes_and_switches_draw(tmp_path):
    (tmp_path / "result.txt").write_text(log())
    for name, watts, more in (
        ("node_0", (2000, 3000), ""),
        ("node_1", (1000,), line(0, "conversion_eff", 0.9)),
        ("sw_0", (), ""),
    ):
        readings = "".join(line(at, "power_reading", value) for at, value in enumerate(watts))
        (tmp_path / f"{name}.txt").write_text(more + readings)
    assert measure.measure(tmp_path / "result.txt", power=tmp_path).values["power"] == 2500 + 900


def test_a_file_of_steps_that_was_cut_or_is_nonsense_gives_what_it_has(measured):
    steps = "0.1 32 5\n0.2 32 5\nnan 32 5\n-1 32 5\n1e400 32 5\n0.3 32\nx y z\n0.1 3"
    assert measured(log(), steps).steps["count"] == 2


@given(st.text(), st.lists(st.one_of(st.none(), st.text(), st.floats(), st.dictionaries(st.text(), st.floats()))))
def test_no_content_makes_it_fail(tmp_path_factory, text, values):
    folder = tmp_path_factory.mktemp("any")
    lines = [
        line(i, key, value) for i, value in enumerate(values) for key in ("tracked_stats", "throughput", "block_start")
    ]
    (folder / "log").write_text(log(*lines), encoding="utf-8", errors="replace")
    (folder / "steps").write_text(text, encoding="utf-8", errors="replace")
    found = measure.measure(folder / "log", folder / "steps")
    assert all(value > 0 for value in found.values.values())


# Facts of a node


def test_facts_are_read_from_the_system_s_files(tmp_path):
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    (port.parents[1] / "fw_ver").write_text("28.39.1002\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor: 0\nmodel name\t: A CPU\nmicrocode\t: 0x1\n\nprocessor: 1\n")
    (tmp_path / "proc/mounts").write_text("/dev/a / ext4 rw 0 0\nfs:/d /data\\040sets lustre rw,flock 0 0\n")
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/bios_version").write_text("1.2\n")
    found = facts.of_this_node(Path("/data sets/imagenet"), base=tmp_path)
    assert (
        found
        | {
            "network.mlx5_0.firmware": "28.39.1002",
            "network.mlx5_0.1": "4: ACTIVE 400 Gb/sec (4X NDR)",
            "cpu.microcode": "0x1",
            "disk.type": "lustre",
            "bios.version": "1.2",
        }
        == found
    )
    (port / "state").write_text("1: DOWN\n")
    assert "network.mlx5_0.1 is down" in facts.health(tmp_path, base=tmp_path)


def test_gpus_are_told_once_where_they_are_equal_and_named_where_they_are_not_well():
    row = "575.57.08, 96.00.99.00.01, NVIDIA H200, 1980, 3201, 700.00, Enabled"
    found = facts.parse_gpus(f"{row}\n{row}\n")
    assert (found["driver.nvidia"], found["gpu.count"], found["gpu.name"]) == ("575.57.08", "2", "NVIDIA H200")
    assert facts.parse_gpus("No devices were found\n") == {}
    told = facts.parse_gpu_health("0x0000000000000001, 0, 30\n0x0000000000000008, 2, 91\n[N/A], [N/A], 40\n")
    assert told == ["GPU 1 is throttled (reasons 0x8, 91 degrees)", "GPU 1 has 2 uncorrected memory errors"]


def test_the_site_s_facts_are_a_json_object_or_an_error():
    assert facts.of_site("""echo '{"switch": "9.3"}'""") == {"switch": "9.3"}
    for command in ("echo hello", "echo '[1]'", "echo no >&2; exit 4"):
        with pytest.raises(facts.BadEnvironment, match="gives no facts"):
            facts.of_site(command)


def test_nodes_that_were_looked_at_before_the_run_tell_their_own_facts(tmp_path):
    gpu = {"name": "NVIDIA H200", "driver": "575.57", "max_clock_mhz": 1980, "ecc": True, "throttled": []}
    for name, driver in (("n1", "575.57"), ("n2", "570.86")):
        said = {"facts": {"gpus": [gpu | {"driver": driver}] * 8, "kernel": "6.1.0"}}
        (tmp_path / f"{name}.json").write_text(json.dumps(said))
    (tmp_path / "n3.json").write_text('{"facts": {}}')
    found = facts.of_nodes(tmp_path, ["n1", "n2", "n3", "n4"])
    assert found["driver.nvidia"] == "570.86, 575.57"
    assert (found["gpu.name"], found["kernel.release"]) == ("NVIDIA H200", "6.1.0")
