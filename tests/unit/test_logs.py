"""The MLLOG parser: what counts as a record, what is broken, and that no content makes it fall over."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from podium.verdict import logs


def mllog(key: str, value=None, time_ms: int = 0, **metadata) -> str:
    record = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return f":::MLLOG {json.dumps(record | {'metadata': metadata})}"


RUN = [
    mllog("init_start", time_ms=1_000),
    mllog("seed", 7),
    mllog("global_batch_size", 32),
    mllog("run_start", time_ms=61_000),
    "0: " + mllog("eval_accuracy", 0.25, 91_000, epoch_num=1),
    "training goes on",
    mllog("eval_accuracy", 0.75, 121_000, epoch_num=2),
    mllog("run_stop", time_ms=181_000, status="success"),
]


def test_a_run_is_summarised():
    run = logs.summarise(logs.parse(RUN))
    assert (run.status, run.minutes, run.seed, run.batch_size, run.converged) == ("success", 2.0, 7, 32, True)
    assert [(item.epoch, item.value, item.minutes) for item in run.evaluations] == [(1, 0.25, 0.5), (2, 0.75, 1.0)]
    assert run.broken == ()


def test_the_last_token_of_a_line_counts():
    item = logs.parse_line(mllog("lost") + mllog("kept"), 1)
    assert item.key == "kept"


def test_broken_lines_are_named_by_number():
    lines = ["", ":::MLLOG {half", ":::MLLOG 3", ':::MLLOG {"key": "x"}', mllog("x") + " trailing"]
    broken = logs.summarise(logs.parse(lines)).broken
    assert [item.line for item in broken] == [2, 3, 4, 5]
    assert "value, time_ms, metadata" in broken[2].why


def test_a_log_without_run_stop_has_no_minutes():
    run = logs.summarise(logs.parse(RUN[:-1]))
    assert (run.status, run.minutes, run.converged) == (None, None, False)


def test_an_evaluation_without_a_number_is_no_point():
    run = logs.summarise(logs.parse([mllog("eval_accuracy", None, epoch_num=1), mllog("eval_accuracy", 0.5)]))
    assert run.evaluations == ()


def test_every_byte_can_be_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(bytes(range(256)) + b"\n" + RUN[3].encode() + b"\r\n" + RUN[-1].encode())
    run = logs.read(path)
    assert run.minutes == 2.0


@given(st.lists(st.sampled_from(RUN)), st.data())
def test_mutated_logs_never_raise(lines, data):
    text = "\n".join(lines)
    if text:
        place = data.draw(st.integers(0, len(text) - 1))
        text = text[:place] + data.draw(st.text(max_size=4)) + text[place + data.draw(st.integers(0, 9)) :]
    logs.summarise(logs.parse(text.split("\n")))
