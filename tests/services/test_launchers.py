"""What every launcher does, whatever is behind it: the same tests for this machine and for Slurm, with and without
accounting."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podium import files
from podium.runs import launchers
from podium.runs.launchers import ENDED, RUNNING, Job, Launcher
from services.slurm_cluster import wait_until


@dataclass
class Launched:
    """A launcher under test, with the module that it is of."""

    launcher: Launcher
    module: Any

    def job(self, folder: Path, script: str, **more: Any) -> Job:
        """A job that runs a line of bash in its own folder."""
        folder.mkdir(exist_ok=True)
        words = ["bash", "-c", f"cd {folder}; {script}"]
        return Job(f"podium-test-{folder.name}-{time.time_ns()}", folder, lambda cores, gpus: words, **more)

    def phase(self, id: str) -> str:
        return self.launcher.states([id])[id].phase

    def ends(self, id: str) -> launchers.State:
        wait_until(lambda: self.phase(id) == ENDED, 60, f"{id} ends")
        return self.launcher.states([id])[id]

    def begins(self, id: str, folder: Path) -> None:
        wait_until(lambda: (folder / "begun").exists(), 60, f"{id} begins")


@pytest.fixture(params=["local", "slurm-plain", "slurm-accounting"])
def launched(request, monkeypatch) -> Launched:
    name, _, kind = request.param.partition("-")
    module = importlib.import_module(f"podium.runs.launchers.{name}")
    if name == "local":
        return Launched(module.Local(), module)
    cluster = request.getfixturevalue(f"{kind}_slurm")
    monkeypatch.setenv("SLURM_CONF", str(cluster.conf))
    cluster.revive()
    return Launched(module.Slurm(module.Options(exclusive=False, poll_seconds=1)), module)


def stored(folder: Path) -> str:
    return files.read_json(folder / launchers.JOB)["id"]


def test_a_job_runs_and_leaves_its_status_its_output_and_its_nodes(launched, tmp_path):
    id = launched.launcher.submit(launched.job(tmp_path / "a", "echo hello; exit 3"))
    assert stored(tmp_path / "a") == id
    assert launched.ends(id).cause == ""
    assert launchers.exit_status(tmp_path / "a") == 3
    assert "hello" in (tmp_path / "a" / launchers.OUTPUT).read_text()
    assert len(launchers.nodes(tmp_path / "a")) == 1


def test_a_job_goes_on_until_it_is_cancelled_and_no_other_is_touched(launched, tmp_path):
    jobs = [launched.job(tmp_path / name, "touch begun; sleep 100") for name in "ab"]
    first, second = (launched.launcher.submit(job) for job in jobs)
    for id, job in zip((first, second), jobs, strict=True):
        launched.begins(id, job.folder)
    assert launched.phase(first) == launched.phase(second) == RUNNING
    launched.launcher.cancel(first)
    launched.ends(first)
    assert launched.phase(second) == RUNNING
    launched.launcher.cancel(second)
    launched.ends(second)
    launched.launcher.cancel(second)  # of a job that has ended: nothing


def test_a_job_whose_id_could_not_be_stored_is_never_there_twice(launched, tmp_path, monkeypatch):
    """The head process dies when the scheduler has the job and `job.json` has not."""
    job = launched.job(tmp_path / "a", "echo run >>runs; sleep 1")
    store, calls = launched.module.store, []

    def dies(*words: Any, **more: Any) -> None:
        if words[2] is not None:
            calls.append(words)
            raise SystemExit
        store(*words, **more)

    monkeypatch.setattr(launched.module, "store", dies)
    with pytest.raises(SystemExit):
        launched.launcher.submit(job)
    assert calls
    monkeypatch.setattr(launched.module, "store", store)
    id = launched.launcher.submit(job)
    launched.ends(id)
    assert (job.folder / "runs").read_text() == "run\n"
    assert stored(job.folder) == id


def test_an_id_that_was_given_out_again_is_another_job(launched, tmp_path):
    """Slurm gives a number out again after a crash, a kernel a pid: the job that has it now is none of ours."""
    job = launched.job(tmp_path / "a", "touch begun; sleep 100")
    id = launched.launcher.submit(job)
    launched.begins(id, job.folder)
    number, slash, name = id.partition("/")
    other = f"{number}/{name}-of-before" if slash else f"{id.rpartition(':')[0]}:1"
    assert launched.phase(other) == ENDED
    launched.launcher.cancel(other)
    assert launched.phase(id) == RUNNING
    launched.launcher.cancel(id)
    launched.ends(id)


def test_a_hanging_python_says_where_it_is_before_it_is_ended(launched, tmp_path):
    job = launched.job(tmp_path / "a", "exec python3 -X faulthandler hang.py")
    text = "import pathlib, time\n\ndef stuck():\n    pathlib.Path('begun').touch()\n    time.sleep(100)\n\nstuck()\n"
    (job.folder / "hang.py").write_text(text)
    id = launched.launcher.submit(job)
    launched.begins(id, job.folder)
    launched.launcher.cancel(id, stacks=True)
    launched.ends(id)
    told = (job.folder / launchers.OUTPUT).read_text()
    assert "in stuck" in told and "hang.py" in told


def test_what_comes_after_a_job_is_done_when_it_was_cancelled_too(launched, tmp_path):
    after = (("touch", str(tmp_path / "tidied")),)
    job = launched.job(tmp_path / "a", "touch begun; exec sleep 100", after=after)
    id = launched.launcher.submit(job)
    launched.begins(id, job.folder)
    launched.launcher.cancel(id)
    launched.ends(id)
    wait_until((tmp_path / "tidied").exists, 20, "tidied up")
