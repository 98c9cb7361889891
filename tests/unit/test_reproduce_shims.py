"""What becomes of the calls of foreign scripts: pure translations, for every engine, with their refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.reproduce.shims import broker, docker, others, slurm
from podium.reproduce.shims.policy import Answer, Call, Containers, Execute, Policy, Shut

POLICY = Policy(
    engine="docker",
    image="acme/resnet:1",
    code="/w/code",
    workdir="/workspace/resnet",
    read=("/data/imagenet", "/w/code"),
    write=("/w/logs",),
    always={"SEED": "7"},
    prefix="podium-1-",
    slurm=True,
)
RUN = (
    "run --rm --init --detach --net=host --uts=host --ipc=host --security-opt=seccomp=unconfined --privileged "
    "--ulimit=stack=67108864 --name=language_model --volume=/data/imagenet:/data -v /w/logs:/results "
    "acme/resnet:1 sleep infinity"
)


def call(text: str, **environment: str) -> Call:
    return Call(tuple(text.split()), environment, "/w/code")


def started(policy: Policy = POLICY) -> Containers:
    containers = Containers()
    docker.translate(call(f"docker {RUN}"), policy, containers)
    return containers


def test_a_container_gets_our_isolation_whatever_it_asks_for():
    outcome = docker.translate(call(f"nvidia-docker {RUN}"), POLICY, Containers())
    assert isinstance(outcome, Execute)
    words = set(outcome.words)
    assert {"--network=none", "--security-opt=no-new-privileges", "--name=podium-1-language_model"} <= words
    assert {"--volume=/data/imagenet:/data:ro", "--volume=/w/logs:/results:rw", "--env=SEED=7"} <= words
    assert not {"--privileged", "--net=host", "--ipc=host", "--security-opt=seccomp=unconfined"} & words
    assert outcome.words[-3:] == ("acme/resnet:1", "sleep", "infinity")


def test_network_memory_and_accelerators_come_from_the_policy():
    policy = replace(POLICY, network=True, gpus=8, memory_gigabytes=64)
    outcome = docker.translate(call(f"docker {RUN}"), policy, Containers())
    assert {"--network=host", "--gpus=all", "--memory=64g"} <= set(outcome.words)


def test_accelerators_get_in_and_no_other_device():
    wanted = "--device /dev/kfd --device /dev/dri --group-add video --gpus=all --shm-size=8g"
    other = "--device=/dev/sda --device /dev/dri/../sda --runtime=runc"
    asked = call(f"docker run {wanted} {other} acme/resnet:1 true")
    words = set(docker.translate(asked, POLICY, Containers()).words)
    assert {"--device=/dev/kfd", "--device=/dev/dri", "--group-add=video", "--gpus=all", "--shm-size=8g"} <= words
    assert not any("sda" in word or "runc" in word for word in words)


@pytest.mark.parametrize(
    "words",
    [
        "run -v /:/host acme/resnet:1 true",
        "run -v /data/imagenet/../../etc:/data acme/resnet:1 true",
        "run --mount type=bind,source=/root,target=/r acme/resnet:1 true",
        "run --volume=relative:/r acme/resnet:1 true",
        "run -v /w/logsbeside:/r acme/resnet:1 true",
        "run other/image:latest true",
        "run",
        "exec somebody_elses true",
        "swarm init",
        "cp x:/ /",
    ],
)
def test_what_goes_beyond_the_run_is_refused_and_not_executed(words):
    outcome = docker.translate(call(f"docker {words}"), POLICY, Containers())
    assert isinstance(outcome, Answer)
    assert outcome.status != 0
    assert outcome.text.startswith("podium: ")


def test_exec_loses_its_terminal_and_takes_variables_from_the_caller():
    asked = call("docker exec -it --env=BATCHSIZE --env=LR=0.1 --env=SEED language_model ./run_and_time.sh",
                 BATCHSIZE="48", SEED="2021")  # fmt: skip
    outcome = docker.translate(asked, POLICY, started())
    expected = "docker exec --interactive --env=BATCHSIZE=48 --env=LR=0.1 --env=SEED=7 podium-1-language_model"
    assert outcome == Execute((*expected.split(), "./run_and_time.sh"))


def test_without_docker_a_container_is_our_sandbox_with_its_mounts():
    policy = replace(POLICY, engine="process")
    outcome = docker.translate(call("docker exec -it language_model ./run_and_time.sh"), policy, started(policy))
    assert isinstance(outcome, Shut)
    inside = outcome.inside
    assert inside.command == ("./run_and_time.sh",)
    assert inside.workdir == "/workspace/resnet"
    assert ("/w/code", "/workspace/resnet") in inside.read
    assert ("/data/imagenet", "/data") in inside.read
    assert inside.write == (("/w/logs", "/results"),)
    assert inside.environment["SEED"] == "7"
    assert not inside.network


def test_only_containers_of_the_run_are_removed():
    containers = started()
    assert docker.translate(call("docker container rm -f other"), POLICY, containers) == Answer("")
    outcome = docker.translate(call("docker container rm -f language_model"), POLICY, containers)
    assert outcome == Execute(("docker", "rm", "--force", "--volumes", "podium-1-language_model"))
    assert containers.known == {}


def test_the_checker_in_the_image_is_left_out_as_done():
    asked = call("docker exec -it language_model python3 -m mlperf_logging.compliance_checker --ruleset 2.1.0 x.log")
    outcome = docker.translate(asked, POLICY, started())
    assert isinstance(outcome, Answer)
    assert outcome.status == 0


def test_a_step_of_srun_shares_the_allocation_and_keeps_pyxis_bounds():
    policy = replace(POLICY, engine="enroot")
    asked = call(
        "srun -l --mpi=pmix --ntasks=16 --ntasks-per-node=8 --container-image=acme/resnet:1 "
        "--container-name=m_1 --container-mounts=/data/imagenet:/data,/w/logs:/results:rw ./run_and_time.sh"
    )
    outcome = slurm.srun(asked, policy, Containers())
    assert isinstance(outcome, Execute)
    text = " ".join(outcome.words)
    assert text.startswith("srun --overlap -l --mpi=pmix --ntasks=16 --ntasks-per-node=8 ")
    assert "--container-mounts=/data/imagenet:/data:ro,/w/logs:/results:rw" in text
    assert "--container-name=podium-1-m_1" in text
    assert text.endswith("env SEED=7 ./run_and_time.sh")


def test_without_pyxis_a_step_is_our_sandbox_and_mpi_is_not_asked_for():
    policy = replace(POLICY, engine="process")
    asked = call("srun --mpi=pmix -n 1 --container-name=m_1 --container-mounts=/data/imagenet:/data ./x", BATCHSIZE="4")
    outcome = slurm.srun(asked, policy, Containers())
    assert isinstance(outcome, Shut)
    assert outcome.before == ("srun", "--overlap", "-n1")
    assert outcome.inside.environment["BATCHSIZE"] == "4"


def test_what_scripts_run_on_nodes_without_a_container_is_shut_in_too():
    outcome = slurm.srun(call("srun --ntasks=2 bash -c sync", PATH="/w/shims"), POLICY, Containers())
    assert isinstance(outcome, Shut)
    assert outcome.before == ("srun", "--overlap", "--ntasks=2")
    assert outcome.inside.command == ("bash", "-c", "sync")


@pytest.mark.parametrize("words", ["ibv_devinfo --list", "nvidia-smi topo -m", "all_reduce_perf_mpi -b 21M"])
def test_checks_of_another_site_are_left_out(words):
    outcome = slurm.srun(call(f"srun -N1 -n1 --container-name=m {words}"), POLICY, Containers())
    assert isinstance(outcome, Answer)
    assert outcome.status == 0


@pytest.mark.parametrize(
    "words", ["--container-image=other:1 true", "--container-image=acme/resnet:1 --container-mounts=/:/host true", ""]
)
def test_steps_beyond_the_run_are_refused(words):
    outcome = slurm.srun(call(f"srun {words}"), replace(POLICY, engine="enroot"), Containers())
    assert isinstance(outcome, Answer)
    assert outcome.status != 0


def test_outside_of_a_job_there_are_no_steps():
    policy = replace(POLICY, slurm=False, engine="process")
    for words in ("srun true", "scontrol show job 1"):
        outcome = broker.TRANSLATORS[words.split()[0]](call(words), policy, Containers())
        assert isinstance(outcome, Answer)
        assert outcome.status == 1


def test_scontrol_only_answers_questions():
    policy = POLICY
    assert isinstance(slurm.scontrol(call("scontrol update JobId=1"), policy, Containers()), Answer)
    assert slurm.scontrol(call("scontrol show hostnames n[1-2]"), policy, Containers()) == Execute(
        ("scontrol", "show", "hostnames", "n[1-2]")
    )
    assert "Command=/w/code/run.sub" in slurm.scontrol(call("scontrol show job 1"), policy, Containers()).text


@pytest.mark.parametrize("words", ["/sbin/sysctl vm.drop_caches=3", "modprobe amdgpu", "bash -c x", "rm -rf /", ""])
def test_nobody_gets_our_rights_by_sudo(words):
    outcome = others.sudo(call(f"sudo {words}"), POLICY, Containers())
    assert isinstance(outcome, Answer)
    assert outcome.status == 0


def test_docker_by_sudo_is_docker():
    outcome = others.sudo(call("sudo docker run -v /:/host acme/resnet:1 true"), POLICY, Containers())
    assert isinstance(outcome, Answer)
    assert outcome.status == 125


def test_apptainer_keeps_its_binds_within_the_run():
    policy = replace(POLICY, engine="apptainer", gpus=4)
    outcome = others.apptainer(
        call("singularity exec --nv -B /data/imagenet:/data,/w/logs:/results --pwd /workspace /mnt/their.sif ./x"),
        policy, Containers(),
    )  # fmt: skip
    assert isinstance(outcome, Execute)
    assert outcome.words[:5] == ("apptainer", "exec", "--containall", "--no-eval", "--nv")
    assert outcome.words[-2:] == ("acme/resnet:1", "./x")
    assert {"--bind=/data/imagenet:/data:ro", "--pwd=/workspace", "--network=none"} <= set(outcome.words)
    refused = others.apptainer(call("singularity exec -B /home:/h acme/resnet:1 ./x"), policy, Containers())
    assert isinstance(refused, Answer)


WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12), max_size=8)


@given(st.sampled_from(sorted(broker.TRANSLATORS)), WORDS)
def test_any_call_has_an_outcome_that_mounts_nothing_else(name, words):
    for engine in ("docker", "process", "enroot", "apptainer"):
        policy = replace(POLICY, engine=engine)
        outcome = broker.TRANSLATORS[name](Call((name, *words), {}, "/w/code"), policy, Containers())
        if isinstance(outcome, Execute):
            assert not any(word.startswith(("--volume=", "--bind=")) for word in outcome.words)


@given(st.sampled_from(["run", "exec", "rm"]), WORDS)
def test_any_docker_call_has_an_outcome(verb, words):
    outcome = docker.translate(Call(("docker", verb, *words), {}, "/"), POLICY, started())
    assert isinstance(outcome, Answer | Execute | Shut)
