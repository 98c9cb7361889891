"""The history and its index: written once, two at a time, damaged, lost, and made again."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nights import record
from podium.errors import BadEnvironment, BadInput
from podium.nightly import history, index
from podium.nightly.history import Mark


def fill(root, nights=3, runs=2):
    for night in range(nights):
        for number in range(runs):
            history.write(root, record(f"2026-11-{night + 1:02}", number, 0.25 + night / 100), {"driver": "1"})


def test_a_record_comes_back_as_it_was_and_writing_it_again_changes_nothing(tmp_path):
    one = record("2026-11-30", 0, 0.25)
    path = history.write(tmp_path, one, {"driver": "1"})
    before = path.stat()
    assert history.read(path) == one
    assert history.write(tmp_path, one, {"driver": "1"}) == path
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


@pytest.mark.parametrize("text", ["2026-13-01", "yesterday", "2026-11-30.", "2026-11-30.x", "../../etc", ""])
def test_what_is_no_night_is_refused(text):
    with pytest.raises(BadInput, match="no night is called"):
        history.night_name(text)


@given(st.dates(), st.integers(2, 9999))
def test_nights_are_ordered_by_date_then_number(date, number):
    name = f"{date.isoformat()}.{number}"
    assert history.night_name(name) == name
    assert history.order(date.isoformat()) < history.order(name) < history.order(f"{date.isoformat()}.{number + 1}")


def test_the_index_has_all_runs_and_grows_by_what_is_new(tmp_path):
    fill(tmp_path)
    found = index.refresh(tmp_path)
    assert (len(found.runs), found.nights()) == (6, ["2026-11-01", "2026-11-02", "2026-11-03"])
    assert {(place, value) for place, metric, value in found.measures if metric == "step"} == {
        (0, 0.25), (1, 0.25), (2, 0.26), (3, 0.26), (4, 0.27), (5, 0.27)
    }  # fmt: skip
    history.write(tmp_path, record("2026-11-04", 0, 0.3), {})
    assert len(index.refresh(tmp_path).runs) == 7
    assert index.refresh(tmp_path) == index.refresh(tmp_path, anew=True)


@pytest.mark.parametrize("spoil", ["lost", "empty", "cut", "other", "garbage"])
def test_an_index_that_is_lost_or_damaged_is_made_again(tmp_path, spoil):
    fill(tmp_path)
    whole = index.refresh(tmp_path)
    path = tmp_path / index.NAME
    if spoil == "lost":
        path.unlink()
    elif spoil == "other":
        with sqlite3.connect(path) as base:
            base.execute("PRAGMA user_version = 99")
    else:
        content = path.read_bytes()
        path.write_bytes({"empty": b"", "cut": content[:5000], "garbage": b"\0" * 200 + content[200:]}[spoil])
    assert index.refresh(tmp_path) == whole


@pytest.mark.parametrize(
    "spoil", [lambda text: text[: len(text) // 2], lambda text: b"", lambda text: text[:-9] + b"9" + text[-8:]]
)
def test_a_damaged_record_is_named_and_the_others_count(tmp_path, spoil):
    fill(tmp_path)
    path = next((tmp_path / "history" / "2026-11-02").iterdir())
    path.write_bytes(spoil(path.read_bytes()))
    found = index.refresh(tmp_path)
    assert len(found.runs) == 5
    assert found.problems == (f"history/2026-11-02/{path.name}: damaged: its content is not what its name says",)


def test_a_night_that_is_there_twice_counts_once(tmp_path):
    fill(tmp_path)
    one = history.read(next((tmp_path / "history" / "2026-11-02").iterdir()))
    history.write(tmp_path, replace(one, notes=("restored from a backup",)), {})
    found = index.refresh(tmp_path)
    assert len(found.runs) == 6
    assert len(found.problems) == 1 and "the run is there twice" in found.problems[0]


def test_a_record_that_was_there_and_is_gone_is_told(tmp_path):
    fill(tmp_path)
    index.refresh(tmp_path)
    path = next((tmp_path / "history" / "2026-11-02").iterdir())
    path.unlink()
    for _ in range(2):
        found = index.refresh(tmp_path)
        assert found.problems == (f"history/2026-11-02/{path.name}: {index.GONE}",)


def test_where_nothing_can_be_written_the_index_is_made_in_memory(tmp_path, monkeypatch):
    fill(tmp_path)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(index.tempfile, "mkstemp", full)
    assert len(index.refresh(tmp_path).runs) == 6
    assert not (tmp_path / index.NAME).exists()
    unwritten = index.with_records(
        index.refresh(tmp_path), [record("2026-11-09", 0, 0.5), record("2026-11-01", 0, 0.25)]
    )
    assert len(unwritten.runs) == 7 and unwritten.nights()[-1] == "2026-11-09"


def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(history.files.os, "fsync", full)
    with pytest.raises(BadEnvironment, match="cannot write"):
        history.write(tmp_path, record("2026-11-30", 0, 0.25), {"driver": "1"})
    assert list(history.paths(tmp_path)) == []
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_two_nights_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_writes, args=(tmp_path, offset)) for offset in (0, 20)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert all(one.exitcode == 0 for one in both)
    assert len(index.refresh(tmp_path).runs) == 40


def _writes(root, offset):
    for number in range(offset, offset + 20):
        history.write(root, record("2026-11-30", number, 0.25), {"driver": "1"})
        index.refresh(root)


def test_killed_at_any_moment_a_writer_leaves_whole_records_and_a_readable_index(tmp_path):
    code = (
        "import sys; from pathlib import Path; from nights import record; from podium.nightly import history, index\n"
        "root = Path(sys.argv[1]); start = int(sys.argv[2]); print('ready', flush=True)\n"
        "for number in range(start, start + 10000):\n"
        "    history.write(root, record('2026-11-30', number, 0.25), {}); index.refresh(root)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for turn in range(4):
        words = [sys.executable, "-c", code, str(tmp_path), str(turn * 10_000)]
        writer = subprocess.Popen(words, stdout=subprocess.PIPE, env=environment)
        writer.stdout.readline()
        known = len(list(history.paths(tmp_path)))
        deadline = time.monotonic() + 30
        while len(list(history.paths(tmp_path))) < known + 3 + turn and time.monotonic() < deadline:
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        found = index.refresh(tmp_path)
        assert found.problems == ()
        assert len(found.runs) == len(list(history.paths(tmp_path))) >= known + 3


def test_marks_come_in_the_order_in_which_they_were_made_and_a_damaged_one_is_named(tmp_path):
    for number, kind in enumerate((history.VOID, history.LEVEL)):
        night = f"2026-11-{20 - number}"
        history.write_mark(tmp_path, Mark(kind, night, None, None, None, "cooling", f"2026-12-0{number + 1}"))
    found, problems = history.marks(tmp_path)
    assert ([mark.kind for mark in found], problems) == ([history.VOID, history.LEVEL], [])
    path = next((tmp_path / "marks").iterdir())
    path.write_text("{}")
    found, problems = history.marks(tmp_path)
    assert len(found) == 1 and "damaged" in problems[0]


def test_an_environment_that_was_edited_is_none(tmp_path):
    path = history.write(
        tmp_path, record("2026-11-30", 0, 0.25, environment=history.files.hash_json({"a": 1})), {"a": 1}
    )
    digest = history.read(path).environment
    assert history.environment(tmp_path, digest) == {"a": 1}
    (tmp_path / "environments" / f"{digest}.json").write_text('{"a": 2}')
    assert history.environment(tmp_path, digest) is None
