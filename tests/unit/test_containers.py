"""The images' recipes: one for all four but for names, and what of the requirements a base is taken to bring."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import REPOSITORY

CONTAINERS = REPOSITORY / "containers"
OURS = ("bert", "resnet", "rnnt", "unet3d")
MISSING = CONTAINERS / "common" / "missing.py"


def recipe(name: str) -> list[str]:
    """A Dockerfile's lines without what must differ: the benchmark's name and its description."""
    lines = (CONTAINERS / name / "Dockerfile").read_text().replace(name, "NAME").splitlines()
    return [line for line in lines if "image.description" not in line]


@pytest.mark.parametrize("name", OURS)
def test_the_four_images_are_made_alike(name):
    assert recipe(name) == recipe("resnet")


def missing(tmp_path, text: str) -> list[str]:
    path = tmp_path / "requirements.txt"
    path.write_text(text)
    answer = subprocess.run([sys.executable, MISSING, path], capture_output=True, text=True, check=True)
    return answer.stdout.split()


def test_what_a_base_brings_stays_in_whatever_version(tmp_path):
    assert missing(tmp_path, "numpy==0.0.1\nno-such-package==1.0 # pinned\n") == ["no-such-package==1.0"]


def test_included_requirements_are_looked_at_too(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "requirements.txt").write_text("PyYAML==6.0.4\nno-such-package==1.0\n")
    assert missing(tmp_path, "-r common/requirements.txt\n") == ["no-such-package==1.0"]
    assert missing(tmp_path, "PyYAML==6.0.4\n") == []
