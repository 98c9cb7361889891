"""Slurm without Slurm: the script of an attempt, the words of squeue and sacct, what is believed of whom."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium import files
from podium.config import System
from podium.errors import BadEnvironment, BadInput
from podium.runs.launchers import ENDED, PENDING, RUNNING, UNKNOWN, Job, sacct, sbatch, slurm
from podium.runs.launchers.sbatch import Options


def job(folder: Path = Path("/srv/a"), **more) -> Job:
    return Job("podium-resnet-0-abc", folder, lambda cores, gpus: ["run", "it's", "@RANK@"], **more)


def directives(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_the_script_says_everything_that_the_site_asks_for():
    site = Options(account="acc", partition="gpu", qos="high", reservation="mlperf", constraint="h100", memory="0")
    text = sbatch.script(
        job(gpus=8, nodes=2, tasks=8, threads=12, minutes=59.5, avoid=("n7",)), site, ("pmix", "none"), None
    )
    assert directives(text) == [
        "--job-name=podium-resnet-0-abc",
        "--nodes=2",
        "--ntasks-per-node=8",
        "--cpus-per-task=12",
        "--gpus-per-node=8",
        "--exclusive",
        "--mem=0",
        "--time=61",
        "--signal=B:TERM@60",
        "--no-requeue",
        "--output=/srv/a/output.log",
        "--open-mode=append",
        "--account=acc",
        "--partition=gpu",
        "--qos=high",
        "--reservation=mlperf",
        "--constraint=h100",
        "--exclude=n7",
    ]
    numbers = "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --cpus-per-task=12 --gpus-per-node=8"
    assert f"{numbers} --kill-on-bad-exit=1 --mpi=$mpi" in text
    assert 'for mpi in pmix none; do srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi="$mpi" true' in text


def test_gres_takes_the_place_of_gpus_and_the_configuration_of_slurm_is_kept():
    text = sbatch.script(job(gpus=8), Options(gres="gpu:h100:8", exclusive=False), (), "/etc/other/slurm.conf")
    assert "--gres=gpu:h100:8" in directives(text) and "--exclusive" not in directives(text)
    assert "--gpus-per-node" not in text and "--mpi" not in text
    assert "export SLURM_CONF=/etc/other/slurm.conf" in text


@pytest.mark.parametrize("after", [(), (("docker", "rm", "a name"),)])
@pytest.mark.parametrize("nodes", [1, 2])
def test_the_script_is_bash(nodes, after, tmp_path):
    path = tmp_path / "job.sh"
    path.write_text(sbatch.script(job(Path("/srv/with space/100%"), nodes=nodes, after=after), Options(), (), None))
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=True).stderr == ""
    assert "--output=/srv/with space/100%%/output.log" in path.read_text()


@pytest.mark.parametrize(
    "word", ["--array=0-3", "--requeue", "-N4", "--hetjob", ":", "--output=x", "-o", "--time=5", "--wrap=true", "-t5"]
)
def test_what_the_script_decides_is_refused_with_the_reason(word):
    with pytest.raises(BadInput, match="slurm.extra") as error:
        sbatch.check(Options(extra=("--licenses=a", word)), "config.yaml: systems.x")
    assert error.value.found in sbatch.REFUSED.values()


@pytest.mark.parametrize(
    "word", ["--licenses=a:2", "--switches=1", "--mail-type=END", "--nodelist=n[1-2]", "--ntasks-per-gpu=1"]
)
def test_everything_else_is_passed_on(word):
    sbatch.check(Options(extra=(word,)), "config.yaml: systems.x")
    assert word in directives(sbatch.script(job(), Options(extra=(word,)), (), None))


def test_the_types_of_mpi_are_tried_best_first():
    old = "MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4\n"
    assert sbatch.mpi_types(old) == ("pmix", "pmi2", "none")
    assert sbatch.mpi_types("srun: MPI types are...\nsrun: cray_shasta\nsrun: pmi2\nsrun: none\n") == ("pmi2", "none")
    assert sbatch.mpi_types("srun: error: no such option") == ()


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("123\n", "123"),
        ("123;cluster\n", "123"),
        ("site: 2 of 9 jobs\n77\n", "77"),
        ("Submitted batch job\n", None),
        ("", None),
    ],
)
def test_the_number_of_a_job_is_found_among_what_sites_print(answer, number):
    assert sbatch.job_number(answer) == number


@pytest.mark.parametrize(
    ("word", "phase", "cause"),
    [
        ("COMPLETED", ENDED, ""),
        ("CANCELLED by 0", ENDED, "cancelled"),
        ("CANCELLED+", ENDED, "cancelled"),
        ("TIMEOUT", ENDED, "time limit"),
        ("NODE_FAIL", ENDED, "node failed"),
        ("OUT_OF_MEMORY", ENDED, "out of memory"),
        ("PREEMPTED", ENDED, "preempted"),
        ("COMPLETING", RUNNING, ""),
        ("SUSPENDED", RUNNING, ""),
        ("CONFIGURING", PENDING, ""),
        ("A_WORD_OF_NEXT_YEAR", RUNNING, ""),
    ],
)
def test_states_mean_what_slurm_means_by_them(word, phase, cause):
    state = sacct.state(word, "None")
    assert (state.phase, state.cause) == (phase, cause)


@given(st.text())
def test_any_answer_can_be_read(answer):
    sacct.rows(answer)
    sbatch.job_number(answer)
    sbatch.mpi_types(answer)


def test_jobs_of_others_and_lines_of_the_site_are_passed_over():
    answer = (
        "Welcome|to|the|cluster\n12|RUNNING|None|a|b\n13_[1-4]|PENDING|Priority|array\n14|PENDING|(Resources)|mine\n"
    )
    assert [(row.number, row.name) for row in sacct.rows(answer)] == [("12", "a|b"), ("14", "mine")]


class Commands:
    """Slurm's commands, answering as told; `asked` are the calls."""

    def __init__(self, monkeypatch, **answers):
        self.answers, self.asked = answers, []
        monkeypatch.setattr(slurm, "_ask", self)
        monkeypatch.setattr(slurm.time, "sleep", lambda seconds: None)

    def __call__(self, words):
        self.asked.append(words)
        answer = self.answers.get(words[0], (1, "", "no"))
        return answer.pop(0) if isinstance(answer, list) else answer


def test_one_call_for_all_jobs_and_sacct_only_for_those_that_the_controller_forgot(monkeypatch):
    commands = Commands(
        monkeypatch,
        squeue=(0, "1|RUNNING|None|a\n2|PENDING|Priority|b\n", ""),
        sacct=(0, "3|CANCELLED by 5|None|c\n4|RUNNING|None|d\n3|COMPLETED|None|older\n", ""),
    )
    states = slurm.Slurm(Options()).states(["1/a", "2/b", "3/c", "4/d"])
    assert [states[id].phase for id in states] == [RUNNING, PENDING, ENDED, ENDED]
    assert (states["3/c"].cause, states["4/d"].cause) == ("cancelled", "lost")
    assert [words[0] for words in commands.asked] == ["squeue", "sacct"]
    commands.asked.clear()
    slurm.Slurm(Options()).states(["1/a", "2/b"])
    assert [words[0] for words in commands.asked] == ["squeue"]


def test_nothing_is_known_while_nobody_answers(monkeypatch):
    Commands(monkeypatch, squeue=(1, "", "slurm_load_jobs error: Unable to contact slurm controller"))
    assert slurm.Slurm(Options()).states(["1/a"])["1/a"].phase == UNKNOWN


def test_a_lost_answer_is_looked_up_before_sbatch_is_asked_again(monkeypatch, tmp_path):
    away = (1, "", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation")
    silent = (1, "", "Unable to contact slurm controller (connect failure)")
    found = (0, "9|PENDING|None|podium-resnet-0-abc\n8|PENDING|None|another\n", "")
    commands = Commands(monkeypatch, sbatch=[away], squeue=[silent, found])
    assert slurm.Slurm(Options()).submit(job(tmp_path)) == "9/podium-resnet-0-abc"
    assert [words[0] for words in commands.asked].count("sbatch") == 1
    assert files.read_json(tmp_path / "job.json")["id"] == "9/podium-resnet-0-abc"


def test_a_refusal_is_told_in_slurms_words_and_an_endless_outage_ends(monkeypatch, tmp_path):
    refusal = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    Commands(monkeypatch, sbatch=(1, "", refusal))
    with pytest.raises(BadInput) as error:
        slurm.Slurm(Options()).submit(job(tmp_path))
    assert "Invalid account" in error.value.found
    Commands(monkeypatch, sbatch=(1, "", "timed out"), squeue=(1, "", "timed out"))
    with pytest.raises(BadEnvironment, match="Slurm does not answer"):
        slurm.Slurm(Options(outage_hours=1e-6)).submit(job(tmp_path / "."))


def test_a_claimed_attempt_is_never_submitted_again(monkeypatch, tmp_path):
    (tmp_path / "claim").symlink_to("55")
    files.write_json(tmp_path / "job.json", {"id": None})
    commands = Commands(monkeypatch)
    assert slurm.Slurm(Options()).submit(job(tmp_path)) == "55/podium-resnet-0-abc"
    assert commands.asked == []


def test_the_variables_of_an_allocation_around_podium_are_not_passed_on(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_CONF", "/conf")
    status, out, _ = slurm._ask(["env"])
    assert status == 0 and "SLURM_JOB_ID" not in out and "SLURM_CONF=/conf" in out
    with pytest.raises(BadEnvironment, match="no sbatch-of-nowhere"):
        slurm._ask(["sbatch-of-nowhere"])


def test_the_options_of_a_system_are_those_of_the_config():
    system = System(
        "x", 1, 8, "slurm", "process", "nvidia", 1, {"partition": "gpu", "extra": ["--licenses=a"]}, {}, {}, {}
    )
    assert slurm.options(system, Path("c.yaml")) == Options(partition="gpu", extra=("--licenses=a",))


def test_what_comes_before_stands_between_the_claim_and_the_training():
    tried = job(nodes=2, tasks=2, before=("look",), trial=lambda cores, gpus: ["all-reduce", "@RANK@"])
    lines = sbatch.script(tried, Options(), (), None).splitlines()
    steps = [line for line in lines if line.startswith("srun ")]
    assert steps[0].startswith("srun --nodes=2 --ntasks=2 --ntasks-per-node=1 look </dev/null || { echo 66")
    text = "\n".join(lines)
    assert text.index("ln -s") < text.index("look") < text.index("all-reduce") < text.index("it'\"'\"'s")


def test_a_container_is_tidied_up_by_the_name_that_its_task_gave_it():
    text = sbatch.script(job(nodes=2, after=(("docker", "rm", "podium-x-@RANK@"),)), Options(), (), None)
    assert "docker rm podium-x-$RANK >/dev/null" in text
