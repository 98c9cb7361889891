"""Dockerfiles before they are built, the command lines of builds, and what failed builds say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium import config as configuration
from podium import plan
from podium.errors import BadEnvironment, BadInput
from podium.images import build, container, dockerfile, lock
from podium.images.watch import Said, cause, watch
from support import REPOSITORY, SCRIPTED, first_plan

DIGEST = "example.org/base@sha256:" + "a" * 64


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "Dockerfile"
    path.write_text(text)
    return path


def test_instructions_are_joined_and_comments_left_out():
    text = "# one\nARG BASE=x\nFROM ${BASE}\nRUN a \\\n  # two\n  && b\nRUN <<EOF\nFROM nothing\nEOF\nUSER 1\n"
    assert [(item.line, item.text) for item in dockerfile.instructions(text)] == [
        (2, "ARG BASE=x"),
        (3, "FROM ${BASE}"),
        (4, "RUN a && b"),
        (7, "RUN <<EOF"),
        (10, "USER 1"),
    ]


def test_bases_are_what_is_built_on_and_copied_from():
    text = (
        "ARG BASE\nARG TOOL=tools:1\nFROM ${BASE} AS source\nFROM --platform=linux/amd64 ${TOOL}\n"
        "COPY --from=source /a /b\n"
        "COPY --from=other:2 /a /b\nRUN --mount=type=bind,from=source,source=/w,target=/w true\nCOPY --from=0 /a /b\n"
    )
    assert [name for _, name in dockerfile.bases(text, {"BASE": "mine:3"})] == ["mine:3", "tools:1", "other:2"]
    assert next(dockerfile.bases(text, {}))[1] == "${BASE}"


@given(st.text(max_size=300))
def test_no_text_breaks_the_parser(text):
    list(dockerfile.bases(text, {}))
    dockerfile.declared(text)


def test_a_tag_alone_is_refused_in_the_closed_division_and_named_with_its_line(tmp_path):
    path = written(tmp_path, "ARG BASE\nFROM ${BASE}\nUSER 1000\n")
    dockerfile.check(path, {"BASE": "example.org/base:1"}, by_digest=False)
    dockerfile.check(path, {"BASE": DIGEST}, by_digest=True)
    with pytest.raises(BadInput, match="a tag alone") as error:
        dockerfile.check(path, {"BASE": "example.org/base:1"}, by_digest=True)
    assert f"{path}:2" in error.value.thing and "skopeo inspect" in error.value.next


def test_a_closed_config_with_a_tag_builds_nothing(write_config, tmp_path):
    path = write_config(
        submission={"org": "tests", "division": "closed", "round": "3.1.0", "status": "onprem"},
        systems={"host": {"nodes": 1, "gpus_per_node": 0, "engine": "docker"}},
        images={"base": "example.org/base:1"},
    )
    config = configuration.load(path)
    with pytest.raises(BadInput, match="a tag alone"):
        build.build(config, first_plan(config))
    assert not plan.image_file(config, first_plan(config)).exists()


def test_an_open_base_and_a_secret_in_a_layer_are_refused(tmp_path):
    with pytest.raises(BadInput, match="the base image is open"):
        dockerfile.check(written(tmp_path, "ARG BASE\nFROM ${BASE}\n"), {}, by_digest=False)
    with pytest.raises(BadInput, match="HF_TOKEN would be readable"):
        dockerfile.check(written(tmp_path, f"FROM {DIGEST}\nARG HF_TOKEN\n"), {}, by_digest=False)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("FROM a:latest", "changes unseen"),
        ("ADD https://example.org/x /x", "not checked"),
        ("RUN curl -s https://example.org | bash", "run unseen"),
        ("RUN pip install torch", "without a version"),
        ("RUN pip install git+https://example.org/x.git", "without a commit"),
        ("RUN sudo true", "root already"),
        ("USER root", "user is root"),
    ],
)
def test_advice(tmp_path, line, words):
    text = line if line.startswith("FROM") else f"FROM {DIGEST}\n{line}\n"
    assert any(words in told for told in dockerfile.check(written(tmp_path, text), {}, by_digest=False))


@pytest.mark.parametrize("benchmark", ["resnet", "rnnt", "unet3d", "bert"])
def test_our_own_need_no_advice(benchmark):
    path = REPOSITORY / "containers" / benchmark / "Dockerfile"
    assert dockerfile.check(path, {"BASE": DIGEST}, by_digest=True) == []
    assert container.context(path.parent) == REPOSITORY / "containers"


def test_the_context_is_where_the_dockerignore_is(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    assert container.context(folder) == folder
    (tmp_path / ".dockerignore").write_text("")
    assert container.context(folder) == tmp_path
    (folder / ".dockerignore").write_text("")
    assert container.context(folder) == folder


RECIPE = container.Recipe(
    dockerfile=Path("/c/x/Dockerfile"),
    context=Path("/c"),
    tag="localhost/podium/b-x:latest",
    arguments={"BASE": DIGEST},
    secrets={"token": Path("/home/me/token")},
    offline=True,
    cached=False,
)


def test_the_command_lines_of_builds():
    common = [
        *(
            "--file=/c/x/Dockerfile",
            "--tag=localhost/podium/b-x:latest",
            "--iidfile=/tmp/id",
            f"--build-arg=BASE={DIGEST}",
        ),
        *("--secret=id=token,src=/home/me/token", "--network=none", "--no-cache"),
    ]
    assert container.command("docker", RECIPE, Path("/tmp/id")) == [
        "docker",
        "build",
        *common,
        "--progress=plain",
        "/c",
    ]
    assert container.command("podman", RECIPE, Path("/tmp/id")) == [
        *("podman", "build", *common),
        *("--format=docker", "--layers", "--force-rm", "--pull=never", "/c"),
    ]


BUILDKIT = """#5 [2/3] RUN pip install torch==99
#5 1.0 ERROR: No matching distribution found for torch==99
#5 ERROR: executor failed running [/bin/sh -c pip install torch==99]: exit code: 1
------
 > [2/3] RUN pip install torch==99:
------
"""
PODMAN = """STEP 1/3: FROM base
STEP 2/3: RUN curl https://example.org
curl: (6) Could not resolve host: example.org
Error: building at STEP "RUN curl https://example.org": while running runtime: exit status 6
"""


@pytest.mark.parametrize(
    ("text", "kind", "step", "meaning"),
    [
        (BUILDKIT, BadInput, "RUN pip install torch==99", "a pin is gone"),
        (PODMAN, BadEnvironment, "RUN curl https://example.org", "cannot be reached"),
        ("#1 [1/1] RUN x\nwrite: no space left on device", BadEnvironment, "RUN x", "the disk is full"),
        ("STEP 1/1: RUN x\nexec format error", BadInput, "RUN x", "another architecture"),
        ("pull access denied, repository: denied: requested access", BadEnvironment, "the first", "a login"),
        ("something else", BadInput, "the first", "see the last lines"),
    ],
)
def test_a_failed_build_says_its_step_and_cause(tmp_path, text, kind, step, meaning):
    error = container.failure(Said(1, text), RECIPE, tmp_path / "log")
    assert type(error) is kind
    assert step in error.expected and meaning in error.found
    assert text.splitlines()[-1] in error.found


def test_only_what_changes_an_image_changes_the_name_of_its_inputs(tmp_path):
    recipe = container.Recipe(tmp_path / "Dockerfile", tmp_path, "t", {"BASE": "a", "COMMIT": "1"}, {})
    name = container.inputs(recipe, {"train.py": "1", "README.md": "1"})
    later = container.Recipe(tmp_path / "Dockerfile", tmp_path, "t", {"BASE": "a", "COMMIT": "2"}, {})
    assert container.inputs(later, {"train.py": "1", "README.md": "2"}) == name
    assert container.inputs(recipe, {"train.py": "2", "README.md": "1"}) != name
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "torch-1.whl").write_bytes(b"x")
    assert container.inputs(recipe, {"train.py": "1", "README.md": "1"}) != name


def test_a_watched_command_keeps_all_it_said(tmp_path):
    said = watch(["bash", "-c", "echo one; echo two >&2; exit 3"], "", "one", tmp_path / "log")
    assert (said.status, said.last(1)) == (3, ["two"])
    assert (tmp_path / "log").read_text() == said.text == "one\ntwo\n"


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "the daemon is down"),
        (
            "permission denied while trying to connect to the Docker daemon socket",
            "no permission to talk to the daemon",
        ),
        ("toomanyrequests: You have reached your pull rate limit", "allows no more"),
        ("received unexpected HTTP status: 503 Service Unavailable", "the registry fails"),
        ("manifest for x@sha256:429 not found: manifest unknown: manifest unknown", "it is not there"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "another architecture"),
        ("filesystem layer verification failed for digest sha256:1", "not the whole"),
    ],
)
def test_causes(words, meaning):
    assert meaning in cause(words, "").meaning


def test_arguments_are_those_that_the_dockerfile_declares(prepared):
    config = prepared(images={"base": DIGEST, "arguments": {"CUDA": 12.4}})
    made = build.recipe(config, first_plan(config), commit="abc", offline=True)
    assert made.arguments == {"BASE": DIGEST, "CUDA": "12.4"}, "COMMIT and PIP_NO_INDEX are declared by others alone"
    assert made.tag == "localhost/podium/resnet-scripted:latest"
    assert lock.contents(SCRIPTED).keys() >= {"Dockerfile"}
