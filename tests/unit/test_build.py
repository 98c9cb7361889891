"""Images: requirements, the folder contract, the lock, and what a failed build says."""

from __future__ import annotations

import pytest

from podium import files, plan
from podium.errors import BadEnvironment, BadInput
from podium.images import build, environment, lock
from support import SCRIPTED, first_plan


def test_requirements_follow_includes_and_lose_comments(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "base.txt").write_text("numpy==2.4.6  # arrays\n\n")
    (tmp_path / "requirements.txt").write_text("# mine\n-r common/base.txt\ntorch==2.13.0\nnumpy==2.4.6\n")
    assert environment.read_requirements(tmp_path / "requirements.txt") == ("numpy==2.4.6", "torch==2.13.0")


@pytest.mark.parametrize("missing", ["run_and_time.sh", "requirements.txt", "configs/good.env"])
def test_a_folder_that_breaks_the_contract_is_refused(tmp_path, missing):
    for name in {"run_and_time.sh", "requirements.txt", "configs/good.env"} - {missing}:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(BadInput) as error:
        build._check_contract(tmp_path, "good")
    assert error.value.expected == missing


def test_the_lock_names_content_not_documents(prepared, built):
    config = built(prepared())
    image = lock.read(plan.image_file(config, first_plan(config)))
    assert image.reference == lock.reference(image.packages, image.python, image.files)
    assert image.reference == lock.reference(image.packages, image.python, {**image.files, "README.md": "other"})
    assert image.reference != lock.reference(image.packages, image.python, {**image.files, "train.py": "other"})
    assert image.reference != lock.reference({**image.packages, "torch": "9"}, image.python, image.files)


def test_building_again_changes_nothing(prepared, built):
    config = built(prepared())
    path = plan.image_file(config, first_plan(config))
    before = path.read_bytes()
    assert build.build(config, first_plan(config)).as_json()["files"] == lock.contents(SCRIPTED)
    assert path.read_bytes() == before


def test_a_snapshot_holds_linked_folders_as_files(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "log.py").write_text("")
    implementation = tmp_path / "implementation"
    implementation.mkdir()
    (implementation / "common").symlink_to("../common")
    (implementation / ".hidden").write_text("")
    assert set(lock.contents(implementation)) == {"common/log.py"}


def test_a_failed_installation_tells_its_last_lines_and_a_cause(tmp_path):
    log = tmp_path / "pip.log"
    log.write_bytes(b"")
    words = "ERROR: No matching distribution found for torch==99"
    with pytest.raises(BadEnvironment) as error:
        environment._logged(["bash", "-c", f"echo {words!r}; exit 1"], log)
    assert "a pinned version is not to be had" in error.value.found
    assert words in error.value.found


def test_an_interrupted_environment_is_made_again(prepared, tmp_path):
    config = prepared()
    requirements = ()
    venv = environment.environment(config.root, requirements, cpu_only=True)
    (venv / environment.MARK).unlink()
    (venv / "bin" / "python").unlink()
    assert environment.environment(config.root, requirements, cpu_only=True) == venv
    assert (venv / "bin" / "python").exists()
    assert files.read_json(venv / environment.MARK)["requirements"] == []


@pytest.mark.parametrize(
    ("variable", "answers", "index"),
    [
        ("https://mirror.example/torch", True, "https://mirror.example/torch"),
        ("default", True, None),
        ("", True, environment.TORCH_CPU_INDEX),
        ("", False, None),
    ],
)
def test_the_index_of_torch(monkeypatch, variable, answers, index):
    import requests

    def head(url, timeout):
        assert timeout == 3
        if not answers:
            raise requests.ConnectionError
        return type("Answer", (), {"ok": True})()

    monkeypatch.setenv(environment.TORCH_INDEX_VARIABLE, variable)
    monkeypatch.setattr(requests, "head", head)
    assert environment.torch_index() == index
