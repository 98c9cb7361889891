"""Files that are whole or absent, and manifests that tell every difference."""

from __future__ import annotations

import errno
import json

import pytest

from podium import files, manifest
from podium.errors import BadEnvironment, BadInput


def test_a_failed_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.writing(path, "w") as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_replacing_leaves_the_old_folder(tmp_path):
    folder = tmp_path / "tree"
    with files.replacing(folder) as fresh:
        (fresh / "a").write_text("old")
    with pytest.raises(RuntimeError), files.replacing(folder) as fresh:
        (fresh / "a").write_text("half")
        raise RuntimeError
    assert (folder / "a").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["tree"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "free space"),
        (errno.EACCES, "permission"),
        (errno.EROFS, "can be written"),
        (errno.EDQUOT, "quota"),
    ],
)
def test_what_the_system_refuses_is_explained(tmp_path, number, words):
    with pytest.raises(BadEnvironment) as error, files.explained(tmp_path / "x"):
        raise OSError(number, "no")
    assert words in error.value.expected
    assert error.value.code == 3


def test_another_error_of_the_system_stays_what_it_is(tmp_path):
    with pytest.raises(IsADirectoryError), files.explained(tmp_path):
        raise IsADirectoryError(errno.EISDIR, "no")


def test_a_disk_too_small_says_how_much_is_needed(tmp_path):
    with pytest.raises(BadEnvironment) as error:
        files.need_space(tmp_path / "not" / "there" / "yet", 10**18, "the data")
    assert "1000000000.00 GB" in error.value.expected


def folder_with_manifest(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).write_text(name)
    content = manifest.of_folder(tmp_path, counts={"files": 3})
    manifest.write(tmp_path, content)
    return content


def test_a_manifest_comes_back_as_it_was_written(tmp_path):
    content = folder_with_manifest(tmp_path)
    assert manifest.read(tmp_path) == content
    assert manifest.differences(tmp_path, content) == []


def test_every_difference_is_told(tmp_path):
    content = folder_with_manifest(tmp_path)
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_text("B")
    (tmp_path / "sub" / "c").write_text("longer")
    (tmp_path / "stray").write_text("")
    told = manifest.differences(tmp_path, content)
    assert len(told) == 4
    assert [
        words for words in ("a: missing", "stray: not in", "sub/c: 5 bytes") if not any(words in line for line in told)
    ] == []
    assert len(manifest.differences(tmp_path, content, "quick")) == 3


def test_an_edited_and_a_broken_manifest_are_refused(tmp_path):
    folder_with_manifest(tmp_path)
    path = tmp_path / manifest.NAME
    value = json.loads(path.read_text())
    value["files"][0]["bytes"] = 99
    path.write_text(json.dumps(value))
    with pytest.raises(BadInput, match="was edited"):
        manifest.read(tmp_path)
    path.write_text("{")
    with pytest.raises(BadInput, match="cannot be read"):
        manifest.read(tmp_path)


def test_a_nested_file_called_manifest_is_content(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / manifest.NAME).write_text("{}")
    assert [entry.path for entry in manifest.of_folder(tmp_path).files] == [f"sub/{manifest.NAME}"]
