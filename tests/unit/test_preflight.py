"""What a node says of itself, and what makes it unfit. The answers are written by hand in the tools' own forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium import cli, files
from podium.config import System
from podium.runs import allreduce, nodes, preflight
from podium.runs.preflight import Facts

H100 = "NVIDIA H100 80GB HBM3, GPU-{0}, 81559, 550.54.15, 1980, 0x0000000000000001, Enabled, 0, No, No, No, 16, 16"
SMI = "\n".join(f"{index}, {H100.format(index)}" for index in range(8)) + "\n"
NVLINK = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
"""
IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
CA 'mlx5_1'
\tCA type: MT4129
\tNumber of ports: 2
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 200
\tPort 2:
\t\tState: Down
\t\tPhysical state: Polling
\t\tRate: 10
"""
CHRONY = "A29FC87B,time.example.org,3,1700000000.1,-0.000012,0.000005,0.00002,1.2,0.01,0.05,0.001,0.0005,64.2,Normal\n"
DCGM = {
    "DCGM GPU Diagnostic": {
        "test_categories": [
            {"category": "Deployment", "tests": [{"name": "Denylist", "results": [{"status": "PASS"}]}]},
            {
                "category": "Hardware",
                "tests": [{"name": "GPU Memory", "results": [{"status": "Fail", "warnings": "bad row"}]}],
            },
        ]
    }
}
SYSTEM = System("x", 1, 8, "slurm", "process", "nvidia", 1, {}, {}, {}, {})
GOOD = Facts(
    gpus=tuple(nodes.gpus(SMI)), links={n: [True] * 18 for n in range(8)}, synchronised=True, offset=1e-5, memory=10**12
)


def test_eight_equal_gpus_are_read_and_fit():
    assert len(GOOD.gpus) == 8
    assert (GOOD.gpus[7].name, GOOD.gpus[7].memory_mib, GOOD.gpus[7].pcie) == ("NVIDIA H100 80GB HBM3", 81559, (16, 16))
    assert preflight.judge(GOOD, SYSTEM) == []


def one(**changes) -> Facts:
    return replace(GOOD, gpus=(replace(GOOD.gpus[0], **changes), *GOOD.gpus[1:]))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (replace(GOOD, gpus=GOOD.gpus[:7]), "7 accelerators are seen, 8 are wanted"),
        (one(memory_mib=40960), "not equal"),
        (one(max_clock_mhz=1755), "not equal"),
        (one(ecc=False), "not equal"),
        (one(throttled=("too hot (hardware)",)), "throttled: too hot"),
        (one(uncorrected=3), "3 uncorrected memory errors"),
        (one(pending=True), "needs a reset"),
        (one(broken=True), "replaced"),
        (one(pcie=(8, 16)), "8 of 16 PCIe lanes"),
        (replace(GOOD, links=nodes.nvlinks(NVLINK)), "accelerator 1 has 1 NVLinks down"),
        (replace(GOOD, users=((4711, "python3"),)), "another process is on the accelerators: 4711 (python3)"),
        (replace(GOOD, synchronised=False), "not synchronised"),
        (replace(GOOD, offset=0.7), "off by 700 ms"),
        (replace(GOOD, memory=5 * 10**8), "0.5 GB of memory"),
        (replace(GOOD, disk={"/work": 10**6}), "0.0 GB are free in /work"),
        (replace(GOOD, missing=("nvidia-smi",), gpus=()), "nvidia-smi is not there"),
        (replace(GOOD, silent=("dcgmi",)), "dcgmi does not answer"),
        (replace(GOOD, diagnosis=tuple(nodes.diagnosis(DCGM))), "DCGM: GPU Memory: bad row"),
    ],
)
def test_each_fault_is_found_alone(facts, words):
    [found] = preflight.judge(facts, SYSTEM)
    assert words in found


def test_what_the_config_names_is_asked_for():
    system = replace(
        SYSTEM, preflight={"gpu": "NVIDIA H200", "nvlinks": 19, "infiniband_ports": 2, "infiniband_gbps": 400}
    )
    found = preflight.judge(replace(GOOD, ports=tuple(nodes.ports(IBSTAT))), system)
    assert "1 InfiniBand ports are up, 2 are wanted; not: mlx5_1/1, mlx5_1/2" in found
    assert sum("a NVIDIA H200 is wanted" in text for text in found) == 8
    assert sum("18 NVLinks up, 19 are wanted" in text for text in found) == 8


def test_what_a_driver_does_not_tell_is_no_fault():
    text = "0, Tesla V100, GPU-0, 16160, 470.1, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\n"
    [gpu] = nodes.gpus("warning: something\n" + text)
    assert (gpu.ecc, gpu.uncorrected, gpu.pending, gpu.throttled, gpu.pcie) == (None, None, False, (), (None, None))
    assert preflight.judge(replace(GOOD, gpus=(gpu,)), replace(SYSTEM, gpus_per_node=1)) == []


@pytest.mark.parametrize(
    ("mask", "words"), [("0x04", ()), ("0x48", ("hardware slowdown", "too hot (hardware)")), ("x", ())]
)
def test_of_the_reasons_for_a_lower_clock_only_faults_count(mask, words):
    [gpu] = nodes.gpus(f"0, {H100.format(0)}".replace("0x0000000000000001", mask))
    assert gpu.throttled == words


def test_the_clock_is_known_by_chrony_or_by_systemd_or_not_at_all():
    assert nodes.clock(CHRONY, "") == (True, 0.000012)
    assert nodes.clock(CHRONY.replace("Normal", "Not synchronised"), "")[0] is False
    assert nodes.clock("506 Cannot talk to daemon", "NTP=yes\nNTPSynchronized=no\n") == (False, None)
    assert nodes.clock("", "") == (None, None)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_any_answer_can_be_read(text):
    for read in (nodes.gpus, nodes.nvlinks, nodes.ports, nodes.users, nodes.memory_available):
        read(text)
    nodes.clock(text, text)


def test_a_record_is_good_for_a_day_and_only_where_it_is_good(prepared, monkeypatch):
    config = prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0}})
    system = config.system("host")
    asked = []
    monkeypatch.setattr(
        preflight, "collect", lambda *_: asked.append(1) or replace(Facts(), synchronised=len(asked) > 1)
    )
    assert preflight.node(config, system) == ["the clock is not synchronised"]
    assert list(preflight.unfit(config, system).values()) == [["the clock is not synchronised"]]
    assert preflight.node(config, system) == [] == preflight.node(config, system)
    assert len(asked) == 2 and preflight.unfit(config, system) == {}


def test_this_machine_is_asked_for_real(prepared, capsys):
    config = prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "preflight": {"free_disk_gb": 1e9}}})
    words = ["preflight", "--system", "host", "--config", str(config.path)]
    assert cli.main(words) == 1
    assert "1e+09 are wanted" in capsys.readouterr().err
    assert cli.main([*words, "--list"]) == 1
    [path] = (config.root / "preflight" / "host").glob("*.json")
    assert files.read_json(path)["facts"]["kernel"]


def test_what_nccl_says_of_its_network_is_read_and_bandwidth_is_that_of_nccl_tests():
    said = "n1:9:9 [0] NCCL INFO NET/Plugin: No plugin\nn1:9:9 [0] NCCL INFO Using network IB\n"
    assert allreduce.transports(said) == ["IB"]
    assert allreduce.transports("NCCL INFO Using network AWS Libfabric\n") == ["AWS Libfabric"]
    assert allreduce.bandwidth(10**9, 1.0, 4) == pytest.approx(1.5)


def test_data_that_a_node_does_not_see_as_it_was_prepared_is_a_finding(prepared, built):
    config = built(prepared(systems={"host": {"nodes": 1, "gpus_per_node": 0, "launcher": "slurm"}}))
    assert preflight.changed(config, config.system("host")) == []
    next(config.data_root.rglob("train.rec")).write_bytes(b"half")
    [found] = preflight.changed(config, config.system("host"))
    assert found.startswith("data set imagenet: ") and "train.rec" in found
