"""The archive: the same bytes from the same tree, its forms and hashes, force in the receipt, and back to a tree."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import subprocess
import tarfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from finished import described
from podium import cli, files, manifest, plan
from podium.errors import BadEnvironment, BadInput, Findings
from podium.package import archive, blocks, inspect, layout, seal, unpack

PASSWORD = "correct horse"


@pytest.fixture
def packed(tmp_path, work_root):
    config = work_root(tmp_path / "work")
    described(config)
    layout.pack(config)
    return config


@given(some.binary(max_size=50), some.integers(0, 3), some.integers(1, 4))
def test_blocks_are_gzip_and_the_same_by_any_number_of_threads(piece, times, threads):
    data = piece * 40_000 * times
    made = []
    for count in (1, threads):
        target = io.BytesIO()
        writer = blocks.Writer(target, count)
        for start in range(0, len(data), 700_001):
            writer.write(data[start : start + 700_001])
        writer.close()
        made.append(target.getvalue())
    assert gzip.decompress(made[0]) == data
    assert made[0] == made[1]


def test_the_same_tree_gives_the_same_bytes_on_any_number_of_cores(packed, monkeypatch):
    first = archive.archive(packed)
    monkeypatch.setattr(blocks.os, "sched_getaffinity", lambda pid: {0})
    for path in plan.tree_folder(packed).rglob("*"):
        path.touch()
    assert archive.archive(packed)["sha256"] == first["sha256"]
    layout.pack(packed)
    assert archive.archive(packed)["sha256"] == first["sha256"], "packed anew from the same inputs"


def test_what_other_tools_see_in_it(packed):
    receipt = archive.archive(packed)
    target = archive.archive_file(packed)
    for name in ("sha1", "sha256"):
        assert receipt[name] == hashlib.new(name, target.read_bytes()).hexdigest()
        subprocess.run([f"{name}sum", "--check", f"{target.name}.{name}"], cwd=target.parent, check=True)
    assert receipt["tar_sha256"] == hashlib.sha256(gzip.decompress(target.read_bytes())).hexdigest()
    listed = subprocess.run(["tar", "tzf", target], capture_output=True, text=True, check=True).stdout.split()
    assert len(listed) == receipt["files"] and all(name.startswith("tests/") for name in listed)
    with tarfile.open(target) as tar:
        assert {(item.uid, item.mtime, item.uname) for item in tar} == {(0, 0, "")}
    assert receipt["label"].startswith("demo")


def test_findings_stop_the_archive_and_force_is_in_the_receipt(packed):
    (packed.root / "systems" / "host.json").write_text("{}")
    layout.pack(packed)
    with pytest.raises(Findings) as error:
        archive.archive(packed)
    assert "descriptions" in error.value.found
    assert not archive.archive_file(packed).exists()
    receipt = archive.archive(packed, force=True)
    assert receipt["forced"] and "descriptions" in receipt["inspection"]["stopped_by"]
    described(packed)


def test_force_where_nothing_was_found_is_no_force(packed):
    assert not archive.archive(packed, force=True)["forced"]


@pytest.mark.parametrize("spoil", ["space in a name", "hidden", "lint"])
def test_every_checker_is_asked_about_the_tree(packed, spoil):
    tree = plan.tree_folder(packed)
    code = tree / "benchmarks" / "resnet" / "implementations" / "scripted"
    if spoil == "lint":
        (code / "Dockerfile").write_text("FROM example/base:1\n")
    else:
        (code / {"space in a name": "a file", "hidden": ".env"}[spoil]).write_text("")
    files.write_json(layout.manifest_file(packed), manifest.of_folder(tree).as_json())
    stopped = inspect.inspect(packed)["stopped_by"]
    assert ("lint" if spoil == "lint" else "repository") in stopped


def test_the_inspection_leaves_the_tree_as_it_is(packed):
    before = manifest.of_folder(plan.tree_folder(packed))
    inspect.inspect(packed)
    assert manifest.of_folder(plan.tree_folder(packed)) == before
    assert not list(plan.tree_folder(packed).parent.glob(".*")), "the copy is gone"


def test_a_disk_that_fills_up_leaves_the_last_archive(packed, monkeypatch):
    receipt = archive.archive(packed)

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks.Writer, "write", full)
    with pytest.raises(BadEnvironment, match="cannot write"):
        archive.archive(packed)
    target = archive.archive_file(packed)
    assert files.hash_file(target) == receipt["sha256"] == files.read_json(archive.receipt_file(packed))["sha256"]
    assert {path.name for path in target.parent.iterdir()} == {
        *(f"tests.tar.gz{end}" for end in ("", ".sha1", ".sha256")),
        "receipt.json",
    }
    assert not [path for path in target.parent.parent.iterdir() if path.name.startswith(".archive")]


@pytest.mark.parametrize("form", seal.OPTIONS)
def test_an_encrypted_archive_opens_as_the_official_script_opens_it(packed, form, tmp_path):
    config = replace(packed, package=replace(packed.package, encrypt=form))
    receipt = archive.archive(config, secret=PASSWORD)
    folder = archive.archive_file(config).parent
    name = "mlperf_submission_tests"
    # What pack_submission.sh --unpack compares and runs; it asks for the password on the terminal.
    line = subprocess.run(["sha1sum", f"{name}.tar.gz"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert line == (folder / f"{name}.sha1").read_text()
    (tmp_path / "out").mkdir()
    command = f"openssl enc -d -aes256 {' '.join(seal.OPTIONS[form])} -in {name}.tar.gz -pass env:P"
    command += f" | tar --extract --gzip --file - -C {tmp_path}/out"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "P": PASSWORD},
        check=True,
        stderr=subprocess.DEVNULL,
    )
    tree = manifest.of_folder(tmp_path / "out" / "tests")
    assert tree.sha256 == receipt["tree"]
    assert receipt["encrypted"]["form"] == form


@pytest.mark.parametrize("form", ["none", *seal.OPTIONS])
def test_unpacking_gives_the_tree_back(packed, form, tmp_path, monkeypatch):
    monkeypatch.setenv(seal.VARIABLE, PASSWORD)
    config = replace(packed, package=replace(packed.package, encrypt=form))
    receipt = archive.archive(config, secret=PASSWORD)
    name = (receipt["encrypted"] or receipt)["archive"]
    words = ["unpack", str(archive.archive_file(config).with_name(name)), "--to", str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    assert cli.main(words) == 0
    assert manifest.of_folder(tmp_path / "out" / "tests").sha256 == receipt["tree"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"tests"}
    assert cli.main(words) == 2, "never over a tree that is there"


def test_a_wrong_password_a_damaged_and_a_foreign_archive_are_refused(packed, tmp_path):
    config = replace(packed, package=replace(packed.package, encrypt="pbkdf2"))
    archive.archive(config, secret=PASSWORD)
    sealed = archive.archive_file(config).with_name("mlperf_submission_tests.tar.gz")
    with pytest.raises(BadInput, match="does not open"):
        unpack.unpack(sealed, tmp_path, "wrong")
    plain = archive.archive_file(config)
    plain.write_bytes(plain.read_bytes()[:-200])
    with pytest.raises(BadInput, match="is not what was archived"):
        unpack.unpack(plain, tmp_path)
    for name in ("sha1", "sha256"):
        plain.with_name(f"{plain.name}.{name}").unlink()
    with pytest.raises(BadInput, match="cannot be unpacked"):
        unpack.unpack(plain, tmp_path)
    outside = tmp_path / "evil.tar.gz"
    with tarfile.open(outside, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    with pytest.raises(BadInput, match="cannot be unpacked"):
        unpack.unpack(outside, tmp_path / "to")
    assert not (tmp_path / "outside").exists()


def test_no_password_is_an_error_before_anything_is_written(packed, monkeypatch, capsys):
    monkeypatch.delenv(seal.VARIABLE, raising=False)
    packed.path.write_text(packed.path.read_text() + "package: {encrypt: official}\n")
    assert cli.main(["archive", "--config", str(packed.path)]) == 2
    assert "--password-file" in capsys.readouterr().err
    assert not archive.archive_file(packed).exists()
