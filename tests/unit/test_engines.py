"""Engines: the command line of a run in each, and what each refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from podium.errors import BadInput
from podium.images import engines, lock
from podium.images.engines import Mount, Run, enroot, request, store

IMAGE = lock.Image(
    engine="docker",
    reference="oci:sha256:" + "a" * 64,
    implementation="/srv/images/resnet/resnet/implementation",
    venv="/srv/images/venvs/0123",
    python="3.11.2",
    commit=None,
    dirty=False,
    requirements=(),
    packages={},
    files={},
    id="sha256:" + "b" * 64,
    tag="podium/resnet-resnet:latest",
    workdir="/workspace/resnet",
    exports={
        "sif": lock.Export("/images/resnet.sif", 10, "c" * 64),
        "sqsh": lock.Export("/images/resnet.sqsh", 10, "d" * 64),
    },
)
RUN = Run(
    image=IMAGE,
    config="tiny",
    environment={"SEED": "7", "DATADIR": "/data", "LOGDIR": "/logs"},
    mounts=(Mount(Path("/srv/in"), "/data"), Mount(Path("/srv/out"), "/logs", read_only=False)),
    name="podium-0123456789abcdef",
)
START = ["bash", "-euc", 'set -a; . "configs/$1.env"; set +a; shift; exec env "$@"', "run", "tiny"]
INSIDE = [*START, "SEED=7", "DATADIR=/data", "LOGDIR=/logs", "./run_and_time.sh"]


@pytest.fixture(autouse=True)
def caller(monkeypatch):
    """An ordinary user, whoever runs the tests."""
    monkeypatch.setattr(request, "caller", lambda: (1001, 100))


def command(engine: str, **changes) -> list[str]:
    return engines.of(engine).command(dataclasses.replace(RUN, **changes))


def test_docker():
    assert command("docker") == [
        *("docker", "run", "--rm", "--init", "--pull=never", "--no-healthcheck", "--entrypoint="),
        *("--name=podium-0123456789abcdef", "--label=podium.run=podium-0123456789abcdef"),
        *("--workdir=/workspace/resnet", "--stop-timeout=30", "--network=host", "--shm-size=64g"),
        *("--read-only", "--tmpfs=/tmp:rw,exec,mode=1777"),
        "--mount=type=bind,source=/srv/in,target=/data,readonly",
        "--mount=type=bind,source=/srv/out,target=/logs",
        "--user=1001:100",
        IMAGE.id,
        *INSIDE,
    ]


def test_podman_rootless_keeps_the_callers_id_and_as_root_does_not(monkeypatch):
    common = command("docker")[2 : -len(INSIDE) - 2]
    assert command("podman") == [
        *("podman", "run", *common, "--userns=keep-id", "--user=1001:100", IMAGE.id, *INSIDE),
    ]
    monkeypatch.setattr(request, "caller", lambda: (0, 0))
    assert "--userns=keep-id" not in command("podman")


def test_apptainer():
    assert command("apptainer") == [
        *("apptainer", "exec", "--cleanenv", "--no-eval", "--pid", "--no-mount=home,cwd", "--pwd=/workspace/resnet"),
        *("--bind=/srv/in:/data:ro", "--bind=/srv/out:/logs:rw"),
        *("/images/resnet.sif", *INSIDE),
    ]


def test_enroot():
    assert command("enroot") == [
        *("enroot", "start"),
        "--mount=/srv/in:/data:none:x-create=auto,bind,ro",
        "--mount=/srv/out:/logs:none:x-create=auto,bind,rw",
        *("/images/resnet.sqsh", "env", "--chdir=/workspace/resnet", *INSIDE),
    ]


def test_pyxis():
    assert enroot.srun_flags(RUN) == [
        "--container-image=/images/resnet.sqsh",
        "--container-workdir=/workspace/resnet",
        "--container-mounts=/srv/in:/data:ro,/srv/out:/logs:rw",
        *("--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint"),
        "--container-readonly",
    ]
    assert engines.start(RUN) == INSIDE


def test_process_names_mounted_folders_as_the_host_does():
    image = dataclasses.replace(IMAGE, engine="process")
    assert command("process", image=image, gpus=(0, 1)) == [
        *("env", "--ignore-environment", "--chdir=/srv/images/resnet/resnet/implementation"),
        *("HOME=/nonexistent", "LANG=C.UTF-8", "PATH=/srv/images/venvs/0123/bin:/usr/bin:/bin"),
        *START,
        *("SEED=7", "DATADIR=/srv/in", "LOGDIR=/srv/out", "CUDA_VISIBLE_DEVICES=0,1"),
        "VIRTUAL_ENV=/srv/images/venvs/0123",
        "PATH=/srv/images/venvs/0123/bin:/usr/local/bin:/usr/bin:/bin",
        *("PYTHONNOUSERSITE=1", "./run_and_time.sh"),
    ]


@pytest.mark.parametrize(
    ("engine", "devices", "words"),
    [
        ("docker", "nvidia", ['--gpus="device=0,3"']),
        ("docker", "cdi", ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=3"]),
        (
            "docker",
            "rocm",
            [
                *("--device=/dev/kfd", "--device=/dev/dri/renderD128", "--device=/dev/dri/renderD131"),
                *("--group-add=video", "--group-add=render"),
            ],
        ),
        ("docker", "gaudi", ["--runtime=habana", "--env=HABANA_VISIBLE_DEVICES=0,3", "--cap-add=sys_nice"]),
        ("podman", "nvidia", ["--device=nvidia.com/gpu=0", "--device=nvidia.com/gpu=3"]),
        ("podman", "gaudi", ["--device=habana.ai/gaudi=0", "--device=habana.ai/gaudi=3"]),
        ("apptainer", "nvidia", ["--nv", "--env=CUDA_VISIBLE_DEVICES=0,3"]),
        ("apptainer", "rocm", ["--rocm", "--env=HIP_VISIBLE_DEVICES=0,3"]),
        ("enroot", "nvidia", ["--env=NVIDIA_VISIBLE_DEVICES=0,3"]),
        ("enroot", "gaudi", ["--env=HABANA_VISIBLE_DEVICES=0,3"]),
    ],
)
def test_accelerators_get_in_as_their_makers_have_it(engine, devices, words):
    with_gpus, without = command(engine, gpus=(0, 3), devices=devices), command(engine)
    assert [word for word in with_gpus if word not in without] == words


def test_what_a_run_may_ask_beside():
    told = command(
        "docker",
        network=False,
        read_only=False,
        host_memory=True,
        nodes=("/dev/infiniband",),
        limits={"memlock": -1, "stack": 67108864},
        cores=(2, 3),
        user=(5, 6),
        workdir="/elsewhere",
        config=None,
        words=("python3", "-m", "common.selftest"),
        stop_seconds=5,
    )
    for word in (
        *("--network=none", "--ipc=host", "--device=/dev/infiniband", "--ulimit=memlock=-1:-1"),
        *("--ulimit=stack=67108864:67108864", "--cpuset-cpus=2,3", "--user=5:6", "--workdir=/elsewhere"),
        "--stop-timeout=5",
    ):
        assert word in told
    assert "--read-only" not in told
    assert told[-7:] == ["env", "SEED=7", "DATADIR=/data", "LOGDIR=/logs", "python3", "-m", "common.selftest"]


@pytest.mark.parametrize("engine", ["process", "enroot"])
def test_a_run_without_network_is_refused_by_engines_that_cannot_do_it(engine):
    with pytest.raises(BadInput) as error:
        command(engine, network=False)
    assert "docker" in error.value.expected


@pytest.mark.parametrize("path", ["relative", "/a,b", "/a:b", '/a"b'])
@pytest.mark.parametrize("engine", ["docker", "podman", "apptainer", "enroot"])
def test_a_path_that_a_command_line_cannot_carry_is_refused(engine, path):
    with pytest.raises(BadInput, match="cannot be mounted"):
        command(engine, mounts=(Mount(Path(path), "/data"),))


def test_the_name_of_a_container_is_that_of_its_attempt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert request.name(Path("runs/host/resnet/3")) == request.name(tmp_path / "runs/host/resnet/3")
    assert request.name(Path("runs/host/resnet/3")) != request.name(Path("runs/host/resnet/4"))


def test_a_container_is_stopped_then_removed():
    assert engines.of("podman").stop("podium-1", 7) == [
        ["podman", "stop", "--time=7", "podium-1"],
        ["podman", "rm", "--force", "--volumes", "podium-1"],
    ]
    assert engines.of("process").stop("podium-1", 7) == []


def test_an_engine_that_is_not_there_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engines.of("docker").available() == engines.Availability(False, "docker is not on the PATH")
    (tmp_path / "docker").write_text(
        "#!/bin/sh\necho first >&2\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n"
    )
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert engines.of("docker").available().why == "Cannot connect to the Docker daemon"
    assert engines.of("process").available().ok


FACTS = {
    "Id": "sha256:" + "1" * 64,
    "Architecture": "amd64",
    "RootFS": {"Type": "layers", "Layers": ["sha256:" + "2" * 64]},
    "Config": {"Env": ["PATH=/bin"], "Cmd": ["bash"], "WorkingDir": "/workspace", "Entrypoint": None, "Labels": {}},
}


def test_an_image_has_the_same_name_in_every_store():
    podman = {**FACTS, "Id": "3" * 64, "Config": {**FACTS["Config"], "User": "", "Entrypoint": []}}
    assert store.content(FACTS) == store.content(podman)
    other = {**FACTS, "RootFS": {"Layers": ["sha256:" + "4" * 64]}}
    assert store.content(FACTS) != store.content(other)


def test_an_image_that_is_not_the_locked_one_is_refused(monkeypatch):
    locked = dataclasses.replace(IMAGE, reference=store.content(FACTS))
    monkeypatch.setattr(store, "inspect", lambda program, name: FACTS if name == locked.tag else None)
    assert engines.of("docker").held(locked).id == FACTS["Id"]
    with pytest.raises(BadInput) as error:
        engines.of("docker").held(IMAGE)
    assert error.value.expected == IMAGE.reference
    assert IMAGE.tag in error.value.found


def test_an_exported_file_that_is_not_the_locked_one_is_refused(tmp_path):
    path = tmp_path / "resnet.sif"
    path.write_bytes(b"image")
    image = dataclasses.replace(IMAGE, exports={"sif": lock.Export(str(path), 5, lock.digest(path))})
    assert engines.of("apptainer").held(image) == image
    path.write_bytes(b"other")
    with pytest.raises(BadInput, match="is not the exported image"):
        engines.of("apptainer").held(image)
    path.unlink()
    with pytest.raises(BadInput):
        engines.of("apptainer").held(image)
    with pytest.raises(BadInput, match=r"no \.sqsh file"):
        engines.of("enroot").held(image)
