"""Everything that goes wrong around a run on Slurm.

After each: no attempt lost, none twice, the ledger tells the truth, the next command continues. README.md has a table.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

from podium import cli, files, plan
from podium.runs import events, launchers, ledger
from services.slurm_cluster import NODES, wait_until
from support import SCRIPTED, first_plan

SLURM = {"exclusive": False, "poll_seconds": 1, "signal_seconds": 55}


class Site:
    """A work root whose runs go to Slurm; `commands` of podium run in processes of their own."""

    def __init__(self, config):
        self.config = config
        self.folder = plan.result_folder(config, first_plan(config))
        self.words = ["run", "--system", "host", "--benchmark", "resnet", "--config", str(config.path), "--attempt"]

    def start(self, number: int = 0, program: str = "from podium.cli import main; raise SystemExit(main())"):
        log = (self.config.root / "head.log").open("ab")
        command = [sys.executable, "-c", program, *self.words, str(number)]
        environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def run(self, number: int = 0) -> int:
        return cli.main([*self.words, str(number)])

    def home(self, number: int = 0):
        return self.folder / str(number)

    def under_way(self, number: int = 0) -> str:
        """Wait until a run trains; returns its job's number."""
        log = self.home(number) / "logs" / "mllog.txt"
        wait_until(lambda: log.exists() and "block_stop" in log.read_text(), 60, "the run trains")
        return files.read_json(self.home(number) / launchers.JOB)["id"].partition("/")[0]

    def outcomes(self) -> list[tuple[int, str]]:
        return [(item.number, item.outcome) for item in ledger.attempts(self.folder)]

    def record(self, number: int = 0) -> dict:
        return files.read_json(self.home(number) / "run.json")

    def is_true(self) -> None:
        """The ledger holds, and every log is of one run alone."""
        assert ledger.problems(self.folder) == []
        for item in ledger.attempts(self.folder):
            log = self.home(item.number) / "logs" / "mllog.txt"
            if log.exists():
                assert log.read_text().count('"init_start"') == 1, f"attempt {item.number} ran twice"


@pytest.fixture
def site(prepared, built):
    def make(course: str = "good", minutes: float = 1440, **watch) -> Site:
        system = {"nodes": 1, "gpus_per_node": 0, "launcher": "slurm", "slurm": SLURM}
        result = {"system": "host", "benchmark": "resnet", "implementation": str(SCRIPTED), "config": course}
        result["time_limit_minutes"] = minutes
        return Site(built(prepared(course, systems={"host": system}, results=[result], watch=watch)))

    return make


def test_a_run_is_recorded_and_each_thing_that_happened_is_an_event(slurm, site):
    place = site("brief")
    assert place.run() == 0
    record = place.record()
    assert (record["outcome"], record["launcher"], record["nodes"]) == ("converged", "slurm", ["n1"])
    assert place.run() == 0
    assert place.outcomes() == [(0, "converged")]
    told = [json.loads(line)["event"] for line in (place.config.root / "runs" / events.NAME).read_text().splitlines()]
    assert told == ["submitted", "started", "ended", "recorded"]


KILLED = """
import os, signal, sys
from podium.cli import main

folder, moment = sys.argv.pop(1), int(sys.argv.pop(1))

def watch(event, args):
    global moment
    mine = args and isinstance(args[0], str | os.PathLike) and os.fspath(args[0]).startswith(folder)
    if mine or event == "subprocess.Popen":
        moment -= 1
        if moment == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
sys.exit(main())
"""


def test_the_head_process_killed_at_ten_random_moments(slurm_alone, site):
    """A moment is one of the process's own dealings with files and programs, drawn anew for each start."""
    place = site("brief")
    seed = int(os.environ.get("KILL_SEED", random.randrange(1 << 32)))
    print(f"KILL_SEED={seed}")
    draw, kills, number = random.Random(seed), 0, 0
    while kills < 10:
        words = [str(place.config.root / "runs"), str(draw.randint(1, 40))]
        command = [sys.executable, "-c", KILLED, *words, *place.words, str(number)]
        head = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": ":".join(sys.path)}, capture_output=True, text=True
        )
        if head.returncode == -signal.SIGKILL:
            kills += 1
        else:
            assert head.returncode == 0, head.stderr
            number += 1
    for unfinished in range(number, 5):
        assert place.run(unfinished) == 0
    assert place.outcomes() == [(item, "converged") for item in range(5)]
    place.is_true()


def test_the_node_is_gone_in_mid_run(slurm_accounted, site):
    place = site("slow")
    head = place.start()
    place.under_way()
    slurm_accounted.kill_node(place_of(place))
    assert head.wait(timeout=90) == 3
    assert (place.record()["outcome"], place.record()["cause"]) == ("failed", "node failed")
    again = continued(place, "brief")
    assert again.run() == 0
    place.is_true()


def place_of(place: Site) -> str:
    [node] = launchers.nodes(place.home())
    return node


def continued(place: Site, course: str) -> Site:
    """The same work root, whose training now takes another course: for a next command that need not take 30 s."""
    path = plan.image_file(place.config, first_plan(place.config)).parent / "implementation" / "configs"
    shutil.copy(path / f"{course}.env", path / "slow.env")
    image = files.read_json(path.parents[1] / "image.json")
    image["files"]["configs/slow.env"] = files.hash_file(path / "slow.env")
    files.write_json(path.parents[1] / "image.json", image)
    return place


def test_the_node_is_drained_in_mid_run(slurm_alone, site):
    place = site("brief")
    head = place.start()
    place.under_way()
    slurm_alone("scontrol", "update", f"nodename={place_of(place)}", "state=drain", "reason=test")
    assert head.wait(timeout=30) == 0, "a drained node lets its jobs end"
    assert place.run(1) == 0, "the next goes to the other node"
    assert launchers.nodes(place.home(1)) != launchers.nodes(place.home(0))
    place.is_true()


def test_the_controller_is_away_when_a_run_ends_and_when_one_is_submitted(slurm_alone, site):
    place = site("brief")
    head = place.start()
    place.under_way()
    slurm_alone.stop("slurmctld")
    assert head.wait(timeout=30) == 0, "the run ends without a word from Slurm"
    second = place.start(1)
    wait_until(lambda: "waiting for slurmctld" in (place.config.root / "head.log").read_text(), 30, "it waits")
    slurm_alone.start("slurmctld")
    assert second.wait(timeout=60) == 0
    assert place.outcomes() == [(0, "converged"), (1, "converged")]
    place.is_true()


def test_the_controller_forgets_everything_and_gives_the_numbers_out_again(slurm_alone, site):
    place = site("slow")
    head = place.start()
    number = place.under_way()
    slurm_alone.stop("slurmctld", signal.SIGKILL)
    shutil.rmtree(slurm_alone.folder / "state")
    (slurm_alone.folder / "state").mkdir()
    slurm_alone.start("slurmctld")
    for node in NODES:  # they would come back by themselves in a minute
        slurm_alone.stop(node)
        slurm_alone.start(node)
    assert head.wait(timeout=60) == 3
    assert (place.record()["outcome"], place.record()["cause"]) == ("failed", "lost")
    slurm_alone.revive()
    again = continued(place, "brief")
    numbers = {
        slurm_alone("sbatch", "--parsable", "--output=/dev/null", "--wrap", "true").strip()
        for _ in range(int(number) + 1)
    }
    assert number in numbers, "numbers are given out again"
    assert again.run() == 0
    place.is_true()


def test_accounting_is_away(slurm_accounted, site):
    place = site("brief")
    head = place.start()
    place.under_way()
    slurm_accounted.stop("slurmdbd", signal.SIGKILL)
    assert head.wait(timeout=30) == 0
    assert place.run(1) == 0
    slurm_accounted.start("slurmdbd")
    assert place.run(2) == 0
    place.is_true()


def test_the_time_limit_is_hit_while_nobody_watches(slurm, site):
    """A training that went on until its time was up has missed its target; it is not launched again."""
    place = site("slow", minutes=0.05)
    head = place.start()
    place.under_way()
    head.kill()
    head.wait()
    number = files.read_json(place.home() / launchers.JOB)["id"].partition("/")[0]
    slurm("scancel", "--signal=TERM", "--batch", number)  # as --signal=B:TERM@55 does when the time is nearly up
    wait_until(lambda: launchers.exit_status(place.home()) is not None, 60, "the run has ended")
    assert place.run() == 1
    assert (place.record()["outcome"], place.record()["cause"]) == ("not_converged", "time limit")
    assert place.run() == 1
    assert place.outcomes() == [(0, "not_converged")]
    place.is_true()


@pytest.mark.parametrize("watched", [True, False])
def test_somebody_else_cancels_the_job(slurm, site, watched):
    place = site("slow")
    head = place.start()
    number = place.under_way()
    if not watched:
        head.kill()
        head.wait()
    slurm("scancel", number)
    assert (head.wait(timeout=60) if watched else place.run()) == 3
    assert (place.record()["outcome"], place.record()["cause"]) == ("cancelled", "cancelled")
    assert "CANCELLED" in place.record()["told"]
    assert continued(place, "brief").run() == 0
    place.is_true()


def test_podium_cancel_ends_exactly_the_runs_it_names(slurm, site):
    place = site("slow")
    heads = [place.start(number) for number in range(2)]
    for number in range(2):
        place.under_way(number)
    words = ["--system", "host", "--benchmark", "resnet", "--config", str(place.config.path)]
    assert cli.main(["cancel", *words, "--attempt", "0"]) == 0
    assert heads[0].wait(timeout=30) == 3
    assert heads[1].poll() is None
    heads[1].kill()
    heads[1].wait()
    assert cli.main(["cancel", *words]) == 0, "whoever waited for it is gone: it records the end itself"
    assert sorted(place.outcomes()) == [(0, "cancelled"), (1, "cancelled")]
    assert slurm("squeue", "-h", "--states=running,pending").strip() == ""


def test_the_disk_is_full(slurm_alone, site):
    place = site("full")
    runs = place.config.root / "runs"
    runs.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "podium-tests", str(runs)], check=True)
    try:
        assert place.run() == 3
        (place.home() / "logs" / "ballast").unlink(missing_ok=True)
        assert place.run() == 3, "it is recorded now, or fails anew"
        (place.home(5) / "logs" / "ballast").unlink(missing_ok=True)
        assert {outcome for _, outcome in place.outcomes()} <= {"failed", "open"}
        assert (0, "failed") in place.outcomes()
        place.is_true()
    finally:
        subprocess.run(["umount", str(runs)], check=True)


def test_the_log_is_half_written(slurm, site):
    place = site("half")
    assert place.run() == 3
    assert (place.record()["outcome"], place.record()["cause"]) == ("failed", "no run_stop in the log")
    assert place.record()["exit_status"] == 137
    assert place.run() == 3
    assert place.outcomes() == [(0, "failed"), (5, "failed")]
    place.is_true()


STEPPED = """
import time
real = time.time
begun = time.monotonic()
time.time = lambda: real() + (STEP if time.monotonic() - begun > 1.5 else 0)
from podium.cli import main
raise SystemExit(main())
"""


@pytest.mark.parametrize("step", [86400, -86400])
def test_the_clock_is_set(slurm_alone, site, step):
    place = site("brief", minutes=5, hang_minutes=1, on_hang="cancel")
    head = place.start(program=STEPPED.replace("STEP", str(step)))
    assert head.wait(timeout=30) == 0
    assert place.outcomes() == [(0, "converged")]
    place.is_true()


def test_a_loss_that_is_no_number_ends_the_run_and_counts_as_missed(slurm_alone, site):
    place = site("nan", on_nan="cancel")
    assert place.run() == 1
    assert (place.record()["outcome"], place.record()["cause"]) == ("not_converged", "train_loss is nan")


def test_a_job_that_the_site_refuses_is_bad_input_and_nothing_is_lost(slurm_alone, monkeypatch, site, capsys):
    monkeypatch.setitem(SLURM, "partition", "nowhere")
    place = site("brief")
    assert place.run() == 2
    assert "invalid partition" in capsys.readouterr().err
    monkeypatch.delitem(SLURM, "partition")
    place = site("brief")
    for name in ("job.json", "job.sh"):
        (place.home() / name).unlink()
    assert place.run() == 0
    assert place.outcomes() == [(0, "converged")]
