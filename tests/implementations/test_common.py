"""What the four implementations share: the processes of a run, its log, its rehearsal, the memory that it needs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from implementations.implementation import CONTAINERS, accepted, modules, processes, records

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")


@pytest.fixture(scope="module")
def common():
    with modules(CONTAINERS / "resnet") as resnet:
        yield resnet.common


@pytest.fixture
def environment(tmp_path):
    return {
        **{"DATADIR": tmp_path, "LOGDIR": tmp_path / "logs", "SEED": 7, "OMP_NUM_THREADS": 1},
        **{"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"},
        **{"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"},
    }


@pytest.fixture
def contract(common, environment, monkeypatch):
    """Read the contract from the environment with some variables changed."""

    def read(**changes: object):
        for name, value in {**environment, **changes}.items():
            monkeypatch.setenv(name, str(value))
        return common.contract.read_contract()

    return read


# Processes

SHARED = """
import json, torch
from common.contract import read_contract
from common.distributed import join, leave
world = join(read_contract())
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.constant_(model.weight, 5 + world.rank)
model = world.replicate(model)
with world.local_gradients(model):
    model(torch.tensor([[10.0 * (1 + world.rank)]])).sum().backward()
model(torch.tensor([[1.0 + world.rank]])).sum().backward()
numbers = torch.tensor([1 << 40, world.rank])
average = torch.tensor([1.0 + world.rank])
world.average([average])
world.barrier()
answer = {"place": [world.rank, world.size, world.local_rank], "sum": world.sum(numbers).tolist(),
          "average": average.item(), "agree": world.agree(world.rank == 0), "weight": model.weight.item()
          if world.size == 1 else model.module.weight.item(), "gradient": next(model.parameters()).grad.item()}
if world.rank == 0:
    print(json.dumps(answer))
leave(world)
"""


def test_processes_add_average_and_agree(environment):
    assert processes(2, CONTAINERS / "resnet", environment, SHARED) == {
        "place": [0, 2, 0],
        "sum": [1 << 41, 1],  # whole numbers stay exact
        "average": 1.5,
        "agree": True,  # the first process's word, though the second thinks otherwise
        "weight": 5,  # of the first process
        "gradient": (11 + 22) / 2,
    }


def test_a_thread_that_wants_the_interpreter_at_the_very_end_cannot_fail_the_run(environment):
    teardown = "import atexit, os; atexit.register(os.abort)\n"  # as that thread does, but each time
    assert processes(2, CONTAINERS / "resnet", environment, teardown + SHARED)["place"] == [0, 2, 0]


def test_one_process_has_no_group_and_does_not_import_the_compiler(environment):
    code = SHARED.replace("leave(world)", "import sys; sys.exit('torch._dynamo' in sys.modules)")
    assert processes(1, CONTAINERS / "resnet", environment, code) == {
        **{"place": [0, 1, 0], "sum": [1 << 40, 0], "average": 1, "agree": True, "weight": 5, "gradient": 11},
    }


def test_slurms_variables_say_the_same_as_torchruns(common, monkeypatch):
    step = {"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "16", "SLURM_JOB_ID": "1230007"}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "")  # so that monkeypatch removes what is set below
        monkeypatch.delenv(name)
    for name, value in {**step, "SLURM_STEP_NODELIST": "gpu[07-08]"}.items():
        monkeypatch.setenv(name, value)
    assert common.distributed._place() == (9, 16, 1)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("gpu07", "20007")


def test_a_batch_script_that_is_no_step_is_one_process(common, monkeypatch):
    for name, value in {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "8"}.items():
        monkeypatch.setenv(name, value)
    assert common.distributed._place() == (0, 1, 0)


@pytest.mark.parametrize(
    ("hosts", "first"),
    [("login1", "login1"), ("gpu[003-007,9],login1", "gpu003"), ("a-1,b-2", "a-1"), ("r[1,3]n[10-12]", "r1n10")],
)
def test_the_first_host_of_slurms_list(common, hosts, first):
    assert common.distributed.first_host(hosts) == first


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"DGXNGPU": 4}, 2, "DGXNNODES=1 DGXNGPU=4: expected 4 processes, found 1"),
        ({"DGXNGPU": 1}, 3, "process 0 of this node has no GPU"),
        ({"DGXNGPU": "all"}, 2, "DGXNGPU=all: expected something like 0"),
        ({"MLPERF_RULESET": "next"}, 2, "MLPERF_RULESET=next: expected something like 4.0.0"),
        ({"SEED": -1}, 2, "SEED=-1"),
    ],
)
def test_what_the_launcher_got_wrong_is_named(common, contract, capsys, monkeypatch, changes, status, said):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(SystemExit) as end:
        common.distributed.join(contract(**changes))
    assert end.value.code == status
    assert said in capsys.readouterr().err


def test_several_nodes_without_srun_are_refused_before_anything_starts(environment):
    environment |= {"DGXNNODES": 2, "DGXNGPU": 8}
    text = os.environ | {name: str(value) for name, value in environment.items()}
    done = subprocess.run([CONTAINERS / "resnet" / "run_and_time.sh"], env=text, capture_output=True, text=True)
    assert done.returncode == 2
    assert "DGXNNODES=2 DGXNGPU=8: expected srun with 16 tasks, found 1" in done.stderr


# The end of a run

STUCK = """
import time
from common.contract import read_contract
from common.distributed import join
from common.log import Log
contract = read_contract()
world = join(contract)
log = Log(contract, world.rank)
with log.timed():
    time.sleep(1000 * world.rank)
    world.barrier()  # the first process waits in a library for the second
"""


@pytest.mark.parametrize("count", [1, 2])
def test_sigterm_ends_a_run_that_waits_in_a_library(environment, tmp_path, count):
    code = STUCK if count == 2 else STUCK.replace("1000 * world.rank", "1000")
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python", sys.executable]
    command = [sys.executable, *(launcher if count == 2 else []), "-c", code]
    text = os.environ | {name: str(value) for name, value in environment.items()}
    run = subprocess.Popen(command, cwd=CONTAINERS / "resnet", env=text, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 120
        while not records(tmp_path / "logs") and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(0.5)  # let the first process reach the barrier
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) != 0
    finally:
        run.kill()
    log = records(tmp_path / "logs")
    assert [record["key"] for record in log] == ["run_start", "run_stop"]
    assert log[-1]["metadata"]["status"] == "aborted"


FORKED = """
import os, signal, time
from common.contract import read_contract
from common.log import Log
with Log(read_contract()).timed() as outcome:
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    os.kill(child, signal.SIGTERM)
    signaled = os.WTERMSIG(os.waitpid(child, 0)[1])
    time.sleep(0.2)
    outcome.reached = signaled == signal.SIGTERM
"""


def test_a_loader_that_is_told_to_end_does_not_end_the_run(environment, tmp_path):
    text = os.environ | {name: str(value) for name, value in environment.items()}
    subprocess.run([sys.executable, "-c", FORKED], cwd=CONTAINERS / "resnet", env=text, check=True, timeout=60)
    assert records(tmp_path / "logs")[-1]["metadata"]["status"] == "success"


LOADED_AHEAD = """
import itertools, os, torch
from common import loading
class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        print(os.getpid(), flush=True)
        yield from itertools.count()
loader = torch.utils.data.DataLoader(Numbers(), batch_size=None, num_workers=1, worker_init_fn=loading.end_with_parent)
items = loading.items(loader)  # held, or the loader would end its worker
next(items)
os._exit(0)
"""


def test_a_loader_ends_with_its_process_however_that_one_ends(tmp_path):
    with (tmp_path / "worker").open("w") as out:
        subprocess.run(
            [sys.executable, "-c", LOADED_AHEAD], cwd=CONTAINERS / "resnet", stdout=out, check=True, timeout=60
        )
    worker = Path("/proc", (tmp_path / "worker").read_text().strip())
    end = time.monotonic() + 3  # by itself a worker looks after its process every 5 seconds
    while worker.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not worker.exists()


# Rehearsal

ROUNDS = {
    "resnet": ["3.1.0", "4.0.0"],
    "rnnt": ["3.0.0", "3.1.0"],
    "unet3d": ["3.1.0", "4.0.0"],
    "bert": ["3.1.0", "4.0.0", "4.1.0", "5.0.0"],
}


def rehearse(benchmark: str, *arguments: str, **changes: object) -> subprocess.CompletedProcess:
    hidden = ("MLPERF_", "DGX", "SEED", "DATADIR")
    text = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    text |= {name: str(value) for name, value in changes.items()}
    text["PATH"] = f"{os.path.dirname(sys.executable)}:{text['PATH']}"  # noqa: PTH120
    command = [CONTAINERS / benchmark / "run_and_time.sh", *arguments]
    return subprocess.run(command, env=text, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(("benchmark", "ruleset"), [(name, each) for name in ROUNDS for each in ROUNDS[name]])
def test_the_official_checker_accepts_a_rehearsal_and_it_says_what_it_is(tmp_path, benchmark, ruleset):
    done = rehearse(benchmark, "--log-only", "--round", ruleset, LOGDIR=tmp_path)
    assert done.returncode == 0, done.stderr
    log = records(tmp_path)
    assert (log[0]["key"], log[0]["value"]) == ("podium_rehearsal", True)
    assert accepted(tmp_path / "mllog.txt", ruleset)
    times = [record["time_ms"] for record in log if record["key"] != "cache_clear"]
    assert times == sorted(times) and times[-1] - times[0] > 5 * 60_000


def test_the_rehearsal_of_eight_gpus_splits_the_batch_in_eight(tmp_path):
    changes = {"DGXNGPU": 8, "GRADIENT_ACCUMULATION_STEPS": 1, "LOGDIR": tmp_path}
    done = rehearse("resnet", "--log-only", "--round", "4.0.0", **changes)
    assert done.returncode == 0, done.stderr
    assert {record["key"]: record["value"] for record in records(tmp_path)}["model_bn_span"] == 1632 // 8


@pytest.mark.parametrize(
    ("arguments", "place", "said"),
    [
        (["--log-only", "--round", "5.0.0"], "logs", "invalid choice: '5.0.0'"),
        (["--log-only"], "logs", "--round"),
        (["--round", "4.0.0"], "logs", "--log-only"),
        (["--log-only", "--round", "4.0.0"], "runs/logs", "outside of runs/"),
        (["--log-only", "--round", "4.0.0"], "real", "expected no log, or a rehearsal's"),
    ],
)
def test_a_rehearsal_that_could_be_taken_for_a_run_is_refused(tmp_path, arguments, place, said):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "mllog.txt").write_text(':::MLLOG {"key": "init_start"}\n')
    done = rehearse("resnet", *arguments, LOGDIR=tmp_path / place)
    assert done.returncode == 2
    assert said in done.stderr
    assert (tmp_path / "real" / "mllog.txt").read_text() == ':::MLLOG {"key": "init_start"}\n'


# Memory


def test_the_memory_of_a_step_is_weights_three_times_and_what_backward_needs(common):
    class Squares(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = torch.nn.Linear(100, 50)

        def forward(self, x):
            return self.dense(x) ** 2

    few, more = (common.memory.training_bytes(Squares(), (count, 100), bf16=False) for count in (8, 16))
    weights = (100 * 50 + 50) * 4
    kept = (8 * 100 + 8 * 50) * 4  # the dense layer's input, the square's
    assert more - few == kept
    assert few - kept == pytest.approx(3 * weights, rel=0.35)  # forward may keep the weights too


# Steps

STEPPING = """
import json, os
from common.contract import read_contract
from common.distributed import join, leave
from common.steps import watched
world = join(read_contract())
taken = []
try:
    for epoch in range(2):
        for step in watched(range(5), 32):
            taken.append(step)
except SystemExit as end:
    taken.append(end.code)
gathered = world.gather(taken)
if world.rank == 0:
    print(json.dumps(gathered))
leave(world)
"""


def test_all_processes_stop_at_the_same_step_and_the_first_one_writes_what_steps_took(environment):
    logs = environment["LOGDIR"]
    asked = {"LOG_STEPS": 1, "STOP_AFTER_SAMPLES": 200}  # reached by the seventh step of 32, in the second epoch
    taken = processes(2, CONTAINERS / "resnet", environment | asked, STEPPING)
    assert taken == [[0, 1, 2, 3, 4, 0, 1, 1]] * 2
    rows = [line.split() for line in (logs / "steps.txt").read_text().splitlines()]
    assert [int(samples) for _, samples, _ in rows] == [32] * 7
    assert all(0 <= float(seconds) < 60 and int(memory) > 1e6 for seconds, _, memory in rows)


def test_steps_are_passed_through_untouched_when_nobody_asks(environment):
    assert processes(1, CONTAINERS / "resnet", environment, STEPPING) == [[0, 1, 2, 3, 4] * 2]
    assert not (environment["LOGDIR"] / "steps.txt").exists()


def test_each_implementation_counts_its_steps():
    for name in ("bert", "resnet", "rnnt", "unet3d"):
        text = (CONTAINERS / name / "train.py").read_text()
        assert text.count("in watched(") == 1, f"{name} must pass its training loop through common.steps"
