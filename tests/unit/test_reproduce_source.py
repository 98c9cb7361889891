"""A results tree in a folder, an archive, a repository; and those that try to leave theirs."""

from __future__ import annotations

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import published
from podium.errors import BadEnvironment, BadInput
from podium.reproduce import discover, source


@pytest.fixture
def round_(tmp_path: Path) -> Path:
    """A round of two submitters with two systems each."""
    root = tmp_path / "training_results_v3.0"
    for name in ("acme", "zenith"):
        submitter = published.code(root, "docker", submitter=name)
        for system in ("one", "two"):
            published.results(submitter, system=system)
    return root


def seen(place: str, *wanted: str | None) -> tuple[int, int]:
    with source.opened(place, *wanted) as root:
        found = discover.discover(root)
        return len(found.implementations), len(found.results)


def test_a_folder_is_looked_at_where_it_is(round_):
    with source.opened(str(round_)) as root:
        assert root == round_


@pytest.mark.parametrize("form", ["tar.gz", "tar.xz", "zip"])
@pytest.mark.parametrize("top", ["", "training_results_v3.0-main/"])
def test_of_an_archive_only_the_needed_parts_are_unpacked(round_, tmp_path, form, top):
    path = tmp_path / f"round.{form}"
    if form == "zip":
        with zipfile.ZipFile(path, "w") as packed:
            for item in sorted(round_.rglob("*")):
                packed.write(item, top + item.relative_to(round_).as_posix())
    else:
        with tarfile.open(path, f"w:{form[4:]}") as packed:
            packed.add(round_, top or ".")
    assert seen(str(path)) == (2, 4)
    assert seen(str(path), "acme", "two", "resnet") == (1, 1)


@pytest.fixture
def repository(round_) -> Path:
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "round"],
    ):
        subprocess.run(["git", "-C", str(round_), *words], check=True)
    return round_


def test_of_a_repository_only_the_needed_paths_are_fetched(repository):
    assert seen(f"file://{repository}") == (2, 4)
    assert seen(f"file://{repository}", "zenith", "one", "resnet") == (1, 1)


def test_a_repository_may_be_one_submitters(round_):
    subprocess.run(["git", "-C", str(round_ / "acme"), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(round_ / "acme"), "add", "-A"], check=True)
    author = ["-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run(["git", "-C", str(round_ / "acme"), *author, "commit", "-qm", "tree"], check=True)
    assert seen(f"file://{round_ / 'acme'}", None, "one", "resnet") == (1, 1)


def test_a_bare_repository_is_read_without_a_copy(repository, tmp_path):
    subprocess.run(["git", "clone", "-q", "--bare", str(repository), str(tmp_path / "bare")], check=True)
    assert seen(str(tmp_path / "bare"), "acme", None, None) == (1, 2)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "acme/../../evil", "acme\\..\\evil"])
def test_a_name_that_leaves_the_archive_refuses_the_whole(tmp_path, name):
    path = tmp_path / "round.tar"
    with tarfile.open(path, "w") as packed:
        item = tarfile.TarInfo(name)
        item.size = 4
        packed.addfile(item, io.BytesIO(b"evil"))
    with pytest.raises(BadInput, match="hostile or broken"), source.opened(str(path)):
        pass
    assert not list(tmp_path.rglob("evil*"))


def test_links_and_devices_of_an_archive_are_not_made(tmp_path, round_):
    path = tmp_path / "round.tar"
    with tarfile.open(path, "w") as packed:
        packed.add(round_, ".")
        for kind, name in ((tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "hard"), (tarfile.CHRTYPE, "device")):
            item = tarfile.TarInfo(f"acme/benchmarks/resnet/{name}")
            item.type, item.linkname = kind, "/etc/passwd"
            packed.addfile(item)
    with source.opened(str(path)) as root:
        assert not any(item.is_symlink() or item.name in ("link", "hard", "device") for item in root.rglob("*"))


def test_what_is_no_tree_says_what_would_be(tmp_path):
    with pytest.raises(BadInput, match="no results tree"), source.opened(str(tmp_path / "nothing")):
        pass
    (tmp_path / "broken.tar.gz").write_bytes(b"no archive")
    with pytest.raises(BadInput, match="cannot be read"), source.opened(str(tmp_path / "broken.tar.gz")):
        pass
    with pytest.raises(BadEnvironment, match="git cannot read"), source.opened(f"file://{tmp_path}/none.git"):
        pass
