"""What a published tree holds: styles, odd trees, images, refusals; nothing is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

import published
from podium.errors import BadInput
from podium.reproduce import discover, image, match
from podium.reproduce.folder import Folder


def put(root: Path, **texts: str) -> Path:
    """Write files; `__` in a name stands for a dot, the text is written as it is."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (root / name.replace("__", ".")).write_text(text)
    return root


def found(root: Path) -> dict[str, discover.Implementation]:
    """The implementations of the tree by their path."""
    for submitter in root.iterdir():
        (submitter / "results").mkdir(exist_ok=True)
    return {item.path: item for item in discover.discover(root).implementations}


@pytest.mark.parametrize("style", ["docker", "slurm", "wrapper", "plain"])
def test_each_style_is_known_by_its_files(tmp_path, style):
    published.code(tmp_path, style)
    ways = {item.style.name for item in found(tmp_path).values()}
    assert style in ways
    assert not any(item.refused for item in found(tmp_path).values())


DOCKER_RUN = "docker run --device /dev/kfd x sleep infinity\n"
CASES = {
    "amd": {"run_with_docker__sh": DOCKER_RUN, "config_one__sh": "", "Dockerfile": "FROM rocm/x:1\n"},
    "apptainer": {"run__slurm": "#SBATCH -w node[1-2]\nsingularity exec --nv x.sif ./run_and_time.sh\n",
                  "config_one__sh": "", "Dockerfile": "FROM nvcr.io/nvidia/mxnet:21.05-py3\n"},
    "host": {"run_8node__sh": "source activate env\nmpirun -hosts a,b python train.py\n"},
    "plain": {"run_and_time__sh": "python train.py\n"},
    "none": {"README__md": "how to run"},
}  # fmt: skip


@pytest.mark.parametrize(("style", "files"), CASES.items())
def test_other_styles_are_known_too(tmp_path, style, files):
    put(tmp_path / "acme/benchmarks/resnet/implementations/x", **files)
    (item,) = found(tmp_path).values()
    assert item.style.name == style


REFUSED = {
    "one company's cluster": "python3 main.py --${INTERNAL}_job_name=coordinator\n",
    "Graphcore": "python3 create_submission.py --pod 16\n",
    "ModelArts": "cd modelarts\npython start_task.py 256px16\n",
    "every container of the node": "docker ps -q | xargs -r docker stop\n",
}


@pytest.mark.parametrize(("why", "script"), REFUSED.items())
def test_what_nobody_can_run_is_refused_with_the_reason(tmp_path, why, script):
    put(tmp_path / "acme/benchmarks/bert/implementations/x", run_and_time__sh=script)
    (item,) = found(tmp_path).values()
    assert why in item.refused


@pytest.mark.parametrize(
    "place",
    [
        "benchmark/resnet/implementations/mxnet",
        "benchmarks/resnet/mxnet",
        "benchmarks/resnet",
        "benchmarks/implementations/one/resnet",
        "benchmarks/resnet/rcnn/implementations/one",
        "benchmarks/resnet/implementations/one/training5.1/nemo",
    ],
)
def test_code_in_odd_places_is_found_once_as_code_of_its_benchmark(tmp_path, place):
    put(
        tmp_path / "acme" / place,
        run__sub="srun --container-image=x true\n",
        config_one__sh="",
        Dockerfile="FROM a/b\n",
    )
    items = found(tmp_path)
    assert [item.benchmark for item in items.values()] == ["resnet"]
    assert list(items) == [f"acme/{place}"]


def test_scripts_of_a_library_among_the_code_are_no_implementations(tmp_path):
    home = tmp_path / "acme/benchmarks/resnet/implementations/mxnet"
    put(home, run__sub="srun --container-image=x true\n", Dockerfile="FROM a/b\n")
    put(home / "apex/examples/docker", Dockerfile="FROM a/b\n", run_and_time__sh="")
    assert list(found(tmp_path)) == ["acme/benchmarks/resnet/implementations/mxnet"]


def test_a_wrapper_names_the_code_and_the_config_that_it_starts(tmp_path):
    published.code(tmp_path, "wrapper")
    item = found(tmp_path)["acme/benchmarks/resnet/implementations/one"]
    assert (item.style.name, item.style.config, item.code.name) == ("wrapper", "config_one.sh", "mxnet")


def test_a_wrapper_may_start_the_bare_contract_beside_it(tmp_path):
    home = tmp_path / "acme/benchmarks/resnet/implementations"
    put(home / "resnet", run_and_time__sh="python train.py\n", requirements__txt="numpy\n",
        Dockerfile="ARG BASE\nFROM ${BASE}\n")  # fmt: skip
    put(home / "resnet/configs", tiny__env="A=1\n")
    put(home / "host", run_and_time__sh='cd "$(dirname "$0")/../resnet"\n. configs/tiny.env\nexec ./run_and_time.sh\n')
    wrapper = found(tmp_path)["acme/benchmarks/resnet/implementations/host"]
    assert (wrapper.style.name, wrapper.code.name, wrapper.style.config) == ("wrapper", "resnet", "configs/tiny.env")
    code = found(tmp_path)["acme/benchmarks/resnet/implementations/resnet"]
    for item in (wrapper, code):
        assert (item.refused, item.style.engine) == ("", "process")
        assert "leaves its base open" in item.style.notes[-1]


def test_a_folder_that_only_names_a_system_stands_for_the_code_beside_it(tmp_path):
    published.code(tmp_path, "docker")
    put(tmp_path / "acme/benchmarks/resnet/implementations/two", README__md="our system")
    item = found(tmp_path)["acme/benchmarks/resnet/implementations/two"]
    assert item.code.name == "mxnet"
    assert "is assumed" in item.style.notes[0]


def test_the_config_that_made_a_result_is_told_by_its_sizes_more_than_by_its_name(tmp_path):
    configs = published.code(tmp_path, "plain") / "benchmarks/resnet/implementations/one/configs"
    published.results(tmp_path / "acme", system="big")
    put(configs, big__env="DGXNNODES=8\nGLOBAL_BATCH_SIZE=13056\n", tiny__env="GLOBAL_BATCH_SIZE=3264\n")
    tree = discover.discover(tmp_path)
    choice = match.choose(tree.results[0], tree.implementations, 3264)
    assert (choice.config, choice.reasons) == ("configs/tiny.env", ("global batch size 3264",))


def test_a_wrapper_that_changes_out_of_the_tree_is_refused(tmp_path):
    home = tmp_path / "acme/benchmarks/resnet/implementations/x"
    put(home, run_and_time__sh="cd ../../../../../../../etc\nsource config_a.sh\n./run_with_docker.sh\n")
    (item,) = found(tmp_path).values()
    assert "not in the tree" in item.refused


DOCKERFILES = {
    "FROM nvcr.io/nvidia/pytorch:23.04-py3": ("build", {}),
    "ARG FROM_IMAGE_NAME=nvcr.io/nvidian/mxnet:21.05-py3\nFROM ${FROM_IMAGE_NAME} AS base\nFROM base": (
        "build",
        {"nvcr.io/nvidian/mxnet:21.05-py3": "nvcr.io/nvidia/mxnet:21.05-py3"},
    ),
    "FROM gitlab-master.nvidia.com:5005/dl/dgx/pytorch:21.05-py3-stage AS devel": (
        "build",
        {"gitlab-master.nvidia.com:5005/dl/dgx/pytorch:21.05-py3-stage": "nvcr.io/nvidia/pytorch:21.05-py3"},
    ),
    "FROM gitlab-master.nvidia.com:5005/dl/mlperf/optimized:hugectr": ("missing", None),
    "ARG BASE\nFROM $BASE": ("missing", None),
    "RUN true": ("missing", None),
}


@pytest.mark.parametrize(("text", "expected"), DOCKERFILES.items())
def test_a_private_base_is_replaced_by_its_public_twin_or_refuses_the_image(tmp_path, text, expected):
    put(tmp_path / "x", Dockerfile=text + "\n")
    answer = image.of(Folder(tmp_path, Path("x")), "tag")
    assert answer.kind == expected[0]
    assert (answer.replaced or {}) == (expected[1] or {})


def test_an_image_without_a_dockerfile_is_pulled_where_the_scripts_name_a_public_one(tmp_path):
    put(tmp_path / "x", README__md="CONT=<your image>\nexport CONT=rocm/amd-mlperf:llama2_70b_training_5.1\n")
    assert image.of(Folder(tmp_path, Path("x")), "t").reference == "rocm/amd-mlperf:llama2_70b_training_5.1"
    put(tmp_path / "y", run__sh="CONT=/mnt/home/image.sif\n")
    assert image.of(Folder(tmp_path, Path("y")), "t").kind == "missing"


def test_a_result_has_its_description_and_its_numbers(tmp_path):
    published.results(published.code(tmp_path, "docker"), number_of_nodes="2", accelerators_per_node=8)
    (item,) = discover.discover(tmp_path).results
    assert (item.nodes, item.gpus, len(item.result.logs), item.trouble) == (2, 8, 5, ())


def test_a_part_of_a_tree_is_refused(tmp_path):
    folder = published.results(published.code(tmp_path, "docker"))
    with pytest.raises(BadInput, match="a part of a tree"):
        discover.discover(folder)
