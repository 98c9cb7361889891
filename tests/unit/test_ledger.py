"""The ledger: numbers and seeds are never given twice, and every edit shows."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from podium import files
from podium.errors import BadInput
from podium.runs import ledger


def finish(folder, attempt, outcome="converged", log="log"):
    path = folder / str(attempt.number) / "result.txt"
    path.write_text(log)
    facts = {"outcome": outcome, "minutes": 1.0, "log": {"bytes": len(log), "sha256": files.hash_file(path)}}
    return ledger.close(folder, attempt, facts)


def test_attempts_keep_their_launch_order_whatever_ends_first(tmp_path):
    first, second = (ledger.launch(tmp_path, number, "f", 5) for number in (0, 1))
    finish(tmp_path, second)
    finish(tmp_path, first)
    attempts = ledger.attempts(tmp_path)
    assert [item.number for item in attempts] == [0, 1]
    assert attempts[0].record["previous"] == files.hash_file(tmp_path / "1" / "run.json")
    assert ledger.problems(tmp_path) == []


def test_a_failed_attempt_is_kept_and_its_run_gets_a_new_number(tmp_path):
    failed = finish(tmp_path, ledger.launch(tmp_path, 2, "f", 5), "failed")
    again = ledger.launch(tmp_path, 2, "f", 5)
    more = ledger.launch(tmp_path, 2, "f", 5)
    assert (failed.number, again.number, more.number) == (2, 5, 6)
    assert (tmp_path / "2" / "run.json").exists()
    assert len({failed.seed, again.seed, more.seed}) == 3


def test_many_at_once_get_numbers_of_their_own(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        attempts = list(pool.map(lambda number: ledger.launch(tmp_path, number, "f", 40), range(40)))
    assert sorted(item.number for item in attempts) == list(range(40))
    assert len(ledger.attempts(tmp_path)) == 40
    assert ledger.problems(tmp_path) == []


def two_runs(folder):
    for number in range(2):
        finish(folder, ledger.launch(folder, number, "f", 5))


def edit_log(folder):
    (folder / "0" / "result.txt").write_text("faster")


def edit_record(folder):
    path = folder / "0" / "run.json"
    path.write_text(path.read_text().replace('"minutes": 1.0', '"minutes": 0.5'))


def drop_line(folder):
    path = folder / ledger.NAME
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[1:]))


def edit_line(folder):
    path = folder / ledger.NAME
    lines = path.read_text().splitlines()
    line = json.loads(lines[0])
    lines[0] = json.dumps({**line, "seed": 1})
    path.write_text("\n".join(lines) + "\n")


def remove_log(folder):
    (folder / "0" / "result.txt").unlink()


@pytest.mark.parametrize("edit", [edit_log, edit_record, drop_line, edit_line, remove_log])
def test_every_edit_shows(tmp_path, edit):
    two_runs(tmp_path)
    assert ledger.problems(tmp_path) == []
    edit(tmp_path)
    assert ledger.problems(tmp_path)


def test_a_removed_attempt_stays_in_the_ledger_and_is_named(tmp_path):
    two_runs(tmp_path)
    shutil.rmtree(tmp_path / "0")
    assert [item.outcome for item in ledger.attempts(tmp_path)] == ["open", "converged"]
    assert ledger.problems(tmp_path) == []
    assert len(ledger.removed(tmp_path)) == 1
    assert ledger.launch(tmp_path, 0, "f", 5).number == 5


def test_how_many_runs_are_planned_is_decided_before_the_first(tmp_path):
    ledger.launch(tmp_path, 0, "f", 5)
    with pytest.raises(BadInput, match="10 attempts are wanted") as error:
        ledger.launch(tmp_path, 5, "f", 10)
    assert error.value.expected.startswith("5,")
    assert ledger.launch(tmp_path, 0, "of another image", 10).number == 10
