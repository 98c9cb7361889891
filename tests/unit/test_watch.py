"""Runs under watch: what their logs tell while they grow, who asks the scheduler, what the end is taken for."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium import files
from podium.runs import events, table
from podium.runs.finish import judge
from podium.runs.follow import Follower
from podium.runs.launchers import RUNNING, State, board
from podium.runs.watch import Ending
from podium.verdict.reading import logs


def line(key, value=None, when=0, **metadata) -> str:
    record = {"time_ms": when, "event_type": "POINT_IN_TIME", "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(record)}\n"


@pytest.fixture
def log(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "mllog.txt"


def test_a_growing_log_is_read_once_and_never_half_a_line(log):
    follower = Follower(log.parents[1])
    follower.look()
    assert follower.text() == "not started"
    text = (
        line("run_start", when=5000) + line("train_loss", 3.5, epoch_num=1) + line("eval_accuracy", 0.25, epoch_num=1)
    )
    log.write_text(text[:-30])
    follower.look()
    assert (follower.started, follower.loss, follower.quality) == (5000, 3.5, None)
    log.write_text(text + "Epoch 2\n" + line("tracked_stats", {"throughput": 812.5}, samples_count=640))
    follower.look()
    assert follower.text() == "quality 0.25 at 1, loss 3.5, 812.5 samples/s"
    assert follower.samples == 640


def test_what_goes_to_the_file_and_to_the_output_counts_once(log):
    blocks = "".join(line("block_start", when=1000 * n) + line("block_stop", when=1000 * n + 500) for n in range(4))
    log.write_text(blocks)
    (log.parents[1] / "output.log").write_text(blocks)
    follower = Follower(log.parents[1])
    follower.look()
    assert follower.blocks == [0.5] * 4


@pytest.mark.parametrize(("later", "share"), [([1.0] * 4, 1.0), ([1.0, 2.0, 2.0, 2.0], 0.5)])
def test_throughput_is_held_against_the_first_blocks(log, later, share):
    begun, text = 0.0, ""
    for seconds in [1.0, 1.0, 1.0, *later]:
        text += line("block_start", when=begun * 1000) + line("block_stop", when=(begun + seconds) * 1000)
        begun += seconds
    log.write_text(text)
    follower = Follower(log.parents[1])
    follower.look()
    assert follower.fallen() == pytest.approx(share)


@pytest.mark.parametrize("text", [line("train_loss", float("nan")), "step 7 loss: nan\n", '{"loss": -inf}\n'])
def test_a_loss_that_is_no_number_is_seen(log, text):
    log.write_text(line("run_start") + text)
    follower = Follower(log.parents[1])
    follower.look()
    assert follower.not_a_number


def test_a_loss_that_recovers_is_forgiven(log):
    log.write_text(line("run_start") + line("train_loss", float("nan")) + line("train_loss", 2.0))
    follower = Follower(log.parents[1])
    follower.look()
    assert follower.not_a_number is None and follower.loss == 2.0


@given(st.binary())
def test_any_bytes_can_be_followed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    (folder / "output.log").write_bytes(b':::MLLOG {"key": ' + data + b"\n")
    Follower(folder).look()


class Scheduler:
    """A launcher that counts how often it is asked, and for what."""

    interval = 60.0

    def __init__(self):
        self.asked = []

    def states(self, ids):
        self.asked.append(list(ids))
        return {id: State(RUNNING) for id in ids}


def waiting(runs: Path, count: int) -> list[str]:
    for number in range(count):
        home = runs / "system" / "resnet" / str(number)
        home.mkdir(parents=True)
        files.write_json(home / "job.json", {"launcher": "slurm", "id": f"{number}/name"})
    return [f"{number}/name" for number in range(count)]


def test_one_asks_for_all_and_the_others_read_the_answer(tmp_path):
    ids, scheduler = waiting(tmp_path, 20), Scheduler()
    files.write_json(tmp_path / "system" / "resnet" / "7" / "run.json", {})
    assert {board.state(scheduler, "slurm", tmp_path, id).phase for id in ids if id != "7/name"} == {RUNNING}
    assert len(scheduler.asked) == 1 and len(scheduler.asked[0]) == 19, "not for the one that is recorded"


@pytest.mark.parametrize("age", [61, -3600])
def test_an_old_answer_is_asked_anew_and_one_from_the_future_too(tmp_path, age):
    [id], scheduler = waiting(tmp_path, 1), Scheduler()
    board.state(scheduler, "slurm", tmp_path, id)
    path = tmp_path / ".states-slurm.json"
    files.write_json(path, {**files.read_json(path), "time": time.time() - age})
    board.state(scheduler, "slurm", tmp_path, id)
    assert len(scheduler.asked) == 2


def ended(tmp_path: Path, text: str, cause: str = "") -> tuple[str, str]:
    path = tmp_path / "result.txt"
    path.write_text(text)
    (tmp_path / "output.log").write_text(text)
    follower = Follower(tmp_path)
    follower.look()
    return judge(logs.read(path), Ending(cause, "told", follower))


START, STOP = line("run_start", when=1), line("run_stop", when=60_001, status="success")
MISSED = line("run_stop", when=60_001, status="aborted")


@pytest.mark.parametrize(
    ("text", "cause", "outcome"),
    [
        (START + STOP, "", ("converged", "run_stop success")),
        (START + STOP, "node failed", ("converged", "run_stop success")),
        (START + MISSED, "", ("not_converged", "run_stop aborted")),
        (START, "", ("failed", "no run_stop in the log")),
        ("", "", ("failed", "no run_start in the log")),
        (START, "node failed", ("failed", "node failed")),
        (START, "hang", ("failed", "hang")),
        (START, "time is up", ("not_converged", "time is up")),
        ("", "time limit", ("failed", "time limit")),
        (START + line("train_loss", float("nan")), "", ("not_converged", "train_loss is nan")),
        (START + line("train_loss", float("nan")), "node failed", ("failed", "node failed")),
        (START, "cancelled", ("cancelled", "cancelled")),
    ],
)
def test_the_machine_s_failures_are_told_from_the_training_s_by_evidence(tmp_path, text, cause, outcome):
    assert ended(tmp_path, text, cause) == outcome


def test_events_are_whole_lines_in_order(tmp_path):
    for number in range(3):
        events.tell(tmp_path, "started", attempt=number, nodes=["n1"])
    lines = [json.loads(text) for text in (tmp_path / events.NAME).read_text().splitlines()]
    assert [item["attempt"] for item in lines] == [0, 1, 2]
    assert {"time", "event", "attempt", "nodes"} == set(lines[0])


def test_the_table_shows_what_is_known_and_metrics_are_escaped():
    rows = [
        {
            "system": 'a"b',
            "benchmark": "resnet",
            "run": 0,
            "attempt": 0,
            "state": "running",
            "quality": 0.5,
            "job": "7/x",
        },
        {"system": "a", "benchmark": "resnet", "run": 1, "state": "wanted"},
    ]
    head, first, second = table.text(rows).splitlines()
    assert head.split() == ["system", "benchmark", "run", "attempt", "state", "job", "quality"]
    assert first.endswith("7/x  0.5") and second.endswith("wanted")
    metrics = table.prometheus(rows)
    assert 'podium_attempt_quality{system="a\\"b",benchmark="resnet",run="0",attempt="0"} 0.5' in metrics
    assert metrics.count("# TYPE") == 2
