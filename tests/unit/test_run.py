"""`podium run`: one run launched, watched, recorded; and every way in which it does not end well."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from podium import cli, files, manifest, plan
from podium.errors import BadEnvironment, BadInput
from podium.runs import devices, ledger
from podium.runs.launchers import RUNNING, Job, local
from podium.runs.run import run
from support import first_plan


def folder_of(config):
    return plan.result_folder(config, first_plan(config))


def test_a_run_is_recorded_once(prepared, built):
    config = built(prepared())
    attempt = run(config, first_plan(config), 0)
    record = attempt.record
    assert (record["outcome"], record["quality"], record["exit_status"]) == ("converged", 0.9, 0)
    home = folder_of(config) / "0"
    assert files.hash_file(home / "result.txt") == record["log"]["sha256"]
    assert {path.name for path in home.iterdir()} >= {
        "run.json",
        "result.txt",
        "environment.json",
        "job.json",
        "job.sh",
    }
    assert run(config, first_plan(config), 0).record == record
    assert len(ledger.attempts(folder_of(config))) == 1


def test_a_removed_run_gets_a_new_number_although_its_folder_is_made_again(prepared, built):
    config = built(prepared())
    first = run(config, first_plan(config), 0)
    folder = plan.result_folder(config, first_plan(config))
    shutil.rmtree(folder / str(first.number))
    (folder / str(first.number)).mkdir()  # as Snakemake does, for the stamp
    again = run(config, first_plan(config), 0)
    assert (again.number, again.seed != first.seed) == (first_plan(config).attempts, True)


def test_identity_comes_from_the_config_whatever_the_env_file_says(prepared, built):
    config = built(prepared("placeholder"))
    run(config, first_plan(config), 0)
    log = (folder_of(config) / "0" / "result.txt").read_text()
    assert '"submission_org", "value": "tests"' in log
    assert "PLACEHOLDER" not in log


def test_a_run_that_misses_its_target_is_a_record_and_status_1(prepared, built, capsys):
    config = built(prepared("never"))
    words = ["run", "--system", "host", "--benchmark", "resnet", "--attempt", "0", "--config", str(config.path)]
    assert cli.main(words) == 1
    assert "did not converge" in capsys.readouterr().err
    assert files.read_json(folder_of(config) / "0" / "stamp.json")["outcome"] == "not_converged"
    assert cli.main(words) == 1
    assert len(ledger.attempts(folder_of(config))) == 1, "it must not be launched again in the hope of a better one"


def test_a_log_without_run_stop_is_no_run_and_the_next_start_takes_a_new_number(prepared, built):
    config = built(prepared("silent"))
    with pytest.raises(BadEnvironment) as error:
        run(config, first_plan(config), 1)
    assert "run_stop" in error.value.expected
    assert "exit status 7" in error.value.found
    assert "the machine is gone" in error.value.found
    with pytest.raises(BadEnvironment):
        run(config, first_plan(config), 1)
    assert [item.number for item in ledger.attempts(folder_of(config))] == [1, 5]
    assert not (folder_of(config) / "1" / "stamp.json").exists()


def test_a_training_past_its_time_limit_is_ended_and_has_missed_its_target(prepared, built):
    config = prepared("slow")
    result = {**_result(config), "time_limit_minutes": 0.02}
    config = built(prepared("slow", results=[result]))
    attempt = run(config, first_plan(config), 0)
    assert (attempt.outcome, attempt.record["cause"]) == ("not_converged", "time is up")
    assert not _alive(folder_of(config) / "0")


def _result(config):
    item = config.results[0]
    return {
        "system": item.system,
        "benchmark": item.benchmark,
        "implementation": str(item.implementation),
        "config": item.config,
    }


def _id(home):
    return files.read_json(home / "job.json")["id"]


def _alive(home):
    return local.Local().states([_id(home)])[_id(home)].phase == RUNNING


def _started(config, number=0):
    """`podium run` in a process of its own, once the run it launched is under way."""
    words = ["run", "--system", "host", "--benchmark", "resnet", "--attempt", str(number), "--config", str(config.path)]
    head = subprocess.Popen(
        [sys.executable, "-m", "podium", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    log = folder_of(config) / str(number) / "logs" / "mllog.txt"
    deadline = time.monotonic() + 30
    while not (log.exists() and "block_stop" in log.read_text()):
        assert time.monotonic() < deadline and head.poll() is None, "the run did not start"
        time.sleep(0.05)
    return head


def test_a_killed_head_process_finds_its_run_again(prepared, built, monkeypatch):
    config = built(prepared("slow"))
    head = _started(config)
    head.kill()
    head.wait()
    assert _alive(folder_of(config) / "0"), "the run must outlive the process that launched it"
    pid = _id(folder_of(config) / "0").split(":")[2]
    sleeper = int(subprocess.run(["pgrep", "-s", pid, "sleep"], capture_output=True, text=True, check=True).stdout)
    os.kill(sleeper, signal.SIGTERM)  # the training's long wait is over
    with pytest.raises(BadEnvironment):  # `set -e` in the script ends it without run_stop
        run(config, first_plan(config), 0)
    assert len(ledger.attempts(folder_of(config))) == 1, "launched twice"


def test_a_head_process_told_to_stop_ends_its_run_and_records_it(prepared, built):
    config = built(prepared("slow"))
    head = _started(config)
    head.terminate()
    assert head.wait(timeout=40) == 3
    assert ledger.attempts(folder_of(config))[0].outcome == "cancelled"
    assert not _alive(folder_of(config) / "0")


def test_nothing_starts_when_the_id_could_not_be_stored(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(local, "store", broken)
    job = Job("name", tmp_path, lambda cores, gpus: ["touch", str(tmp_path / "started")])
    with pytest.raises(OSError, match="disk full"):
        local.Local().submit(job)
    deadline = time.monotonic() + 10
    while list(tmp_path.glob("exit_status*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (tmp_path / "started").exists()


def test_data_that_is_missing_or_changed_is_refused(prepared, built, write_config):
    config = built(prepared())
    data = plan.layout_folder(config, config.dataset("imagenet"))
    (data / "train.rec").write_bytes(b"half")
    with pytest.raises(BadInput, match="is not what was prepared"):
        run(config, first_plan(config), 0)
    (data / "manifest.json").unlink()
    with pytest.raises(BadInput, match="is not prepared"):
        run(config, first_plan(config), 0)
    assert ledger.attempts(folder_of(config)) == []


@pytest.mark.parametrize(
    "counts, name, found",
    [
        ({"subset": True}, "imagenet/recordio is a subset", "take: 5"),
        ({"official": False, "form": "dump"}, "imagenet/recordio is not official", "made of the form dump"),
    ],
)
def test_what_is_not_the_published_set_is_refused_in_the_closed_division_alone(prepared, built, counts, name, found):
    who = {"org": "tests", "division": "closed", "round": "3.1.0", "status": "research"}
    config = built(prepared(submission=who))
    data = plan.layout_folder(config, config.dataset("imagenet"))
    manifest.write(data, manifest.of_folder(data, counts=counts, params={"take": 5}))
    with pytest.raises(BadInput, match=name) as error:
        run(config, first_plan(config), 0)
    assert error.value.found.startswith(found)
    assert ledger.attempts(folder_of(config)) == []
    open_config = replace(config, submission=replace(config.submission, division="open"))
    assert run(open_config, first_plan(open_config), 0).outcome == "converged"


def test_an_image_whose_files_were_changed_is_refused(prepared, built):
    config = built(prepared())
    image = files.read_json(plan.image_file(config, first_plan(config)))
    script = next(iter(sorted(name for name in image["files"] if name.endswith(".sh"))))
    path = plan.image_file(config, first_plan(config)).parent / "implementation" / script
    path.write_text(path.read_text() + "# faster\n")
    with pytest.raises(BadInput, match="is not the locked one"):
        run(config, first_plan(config), 0)


def test_another_config_starts_new_attempts_and_keeps_the_old(prepared, built):
    config = built(prepared("good"))
    run(config, first_plan(config), 0)
    other = built(prepared("never"))
    attempt = run(other, first_plan(other), 0)
    assert attempt.number == 5
    assert (folder_of(config) / "0" / "run.json").exists()
    assert [item.outcome for item in ledger.attempts(folder_of(config))] == ["converged", "not_converged"]


def test_runs_side_by_side_hold_cores_of_their_own(tmp_path):
    first = devices.take_cores(1, tmp_path)
    second = devices.take_cores(1, tmp_path)
    available = len(os.sched_getaffinity(0))
    assert len(first.numbers) == 1
    assert not set(first.numbers) & set(second.numbers)
    assert devices.take_cores(available + 1, tmp_path).numbers == (), "with too few free cores a run shares them all"
    for lock in (*first.locks, *second.locks):
        os.close(lock)


def test_the_record_is_valid_json_with_the_facts_of_the_design(prepared, built):
    config = built(prepared())
    run(config, first_plan(config), 0)
    record = json.loads((folder_of(config) / "0" / "run.json").read_text())
    assert {"seed", "image", "data", "nodes", "job", "started", "stopped", "outcome", "previous"} <= set(record)
