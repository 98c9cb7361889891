"""Fetching: only the right bytes become a data file, whatever a server does; what went wrong at each source is told."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading

import pytest

from faulty import serve
from podium import cli, manifest, plan
from podium import config as configuration
from podium.config import Transfer
from podium.data import catalog, fetch
from podium.data.transfer import Wanted, access, gather, http, line, segments
from podium.data.transfer.gather import gather as bring
from podium.errors import BadEnvironment, BadInput
from support import REPOSITORY

CONTENT = random.Random(1).randbytes(1 << 20)
SHA256, MD5 = hashlib.sha256(CONTENT).hexdigest(), hashlib.md5(CONTENT).hexdigest()
TRANSFER = Transfer(connections=4, megabytes_per_second=None)


@pytest.fixture
def server():
    with serve({"data.bin": CONTENT}) as one:
        yield one


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """No test waits: the pauses that would have been made, as (failures in a row, seconds the server asked for)."""
    made = []
    monkeypatch.setattr(line.Line, "pause", lambda self, failures, after: made.append((failures, after)))
    monkeypatch.setattr(line.time, "sleep", made.append)
    return made


def wanted(*sources, **facts):
    known = {"bytes": len(CONTENT), "hashes": {"sha256": SHA256}}
    return Wanted("data.bin", sources, **(known | facts))


def get(folder, *items):
    return bring(folder / "raw", items, TRANSFER, "test", "do this")


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def whole(folder):
    """Whether the file is there with the right content, and nothing is left of the way to it."""
    return (folder / "raw/data.bin").read_bytes() == CONTENT and names(folder / "raw") == ["data.bin"]


# What comes


def test_a_file_comes_whole_and_with_all_its_digests(server, tmp_path):
    (entry,) = get(tmp_path, wanted(f"{server.url}/data.bin", hashes={"md5": MD5}))
    assert whole(tmp_path)
    assert (entry.path, entry.bytes, entry.sha256) == ("data.bin", len(CONTENT), SHA256)
    assert json.loads((tmp_path / ".raw.jsonl").read_text())["hashes"] == {"sha256": SHA256, "md5": MD5}


def test_parts_are_asked_for_side_by_side(server, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT", 300_000)
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)
    asked = ["bytes=0-299999", "bytes=300000-599999", "bytes=600000-899999", "bytes=900000-1048575"]
    assert sorted(server.ranges[1:]) == asked


def test_several_files_and_folders(server, tmp_path):
    server.files |= {f"{number}/part": CONTENT[:number] for number in range(5)}
    items = [Wanted(f"{number}/part", (f"{server.url}/{number}/part",), number) for number in range(5)]
    entries = get(tmp_path, *items)
    assert [(tmp_path / "raw" / entry.path).stat().st_size for entry in entries] == [0, 1, 2, 3, 4]


def test_what_is_there_and_right_is_neither_fetched_nor_hashed_again(server, tmp_path, monkeypatch):
    item = wanted(f"{server.url}/data.bin")
    first = get(tmp_path, item)
    asked = len(server.ranges)
    monkeypatch.setattr(gather, "_hash", lambda *_: pytest.fail("it was hashed again"))
    assert get(tmp_path, item) == first
    assert len(server.ranges) == asked


def test_a_file_that_was_changed_on_disk_is_fetched_again(server, tmp_path):
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    (tmp_path / "raw/data.bin").write_bytes(CONTENT[::-1])
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)


def test_a_torn_record_costs_a_hash_and_no_more(server, tmp_path):
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    record, asked = tmp_path / ".raw.jsonl", len(server.ranges)
    record.write_bytes(record.read_bytes()[:-30])
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert len(server.ranges) == asked


# What goes wrong on the way, and is mended


def test_a_cut_file_goes_on_where_it_stopped(server, tmp_path, pauses):
    server.faults[:] = ["", "cut@400000", "503", "cut@7", "429 after 9"]
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)
    assert server.ranges[1:] == [f"bytes={at}-1048575" for at in (0, 400_000, 400_000, 400_007, 400_007)]
    assert pauses == [(1, None), (2, None), (1, None), (2, 9.0)]


@pytest.mark.parametrize("fault", ["503", "429 after 2", "500", "cut@0", "redirect", "norange"])
def test_a_passing_fault_is_waited_out(server, tmp_path, fault):
    server.faults[:] = ["", fault, fault, ""]
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)


def test_pauses_grow_and_are_never_the_same_for_all(monkeypatch):
    waits = []
    monkeypatch.undo()
    with line.line(TRANSFER, lambda count: None) as way:
        monkeypatch.setattr(way.ended, "wait", lambda seconds: waits.append(seconds))
        for failures in range(1, 9):
            way.pause(failures, None)
        way.pause(1, 30.0)
    limits = [min(line.LONGEST_PAUSE, 2.0 ** (n - 1)) for n in range(1, 9)]
    assert all(limit / 2 <= wait <= limit for wait, limit in zip(waits, limits, strict=False))
    assert waits[-1] == 30.0
    assert len(set(waits)) == len(waits)


def test_a_retry_after_may_be_a_date_and_a_long_one_is_left_for_the_next_source(server, tmp_path, pauses):
    server.faults[:] = ["", "503 after Wed, 21 Oct 2015 07:28:00 GMT"]
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert pauses == [(1, 0.0)]
    server.faults[:] = ["503 after 86400"]
    with pytest.raises(BadInput) as error:
        get(tmp_path / "again", wanted(f"{server.url}/data.bin"))
    assert "a pause of 86400 s" in error.value.found


def test_a_silent_server_is_given_up_in_time(server, tmp_path, monkeypatch):
    monkeypatch.setattr(http, "SILENCE", 0.2)
    server.faults[:] = ["", "stall@500", "stall@0"]
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)
    assert server.ranges[2:] == ["bytes=500-1048575", "bytes=500-1048575"]


def test_a_trickle_is_as_good_as_nothing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "SLOW_FOR", 0.0)
    monkeypatch.setattr(segments, "SLOWEST", 1e12)
    with pytest.raises(BadInput) as error:
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert "slower than" in error.value.found


def test_a_server_without_ranges_gives_the_whole_file(server, tmp_path):
    server.always = "norange"
    server.faults[:] = ["norange", "cut@1000"]
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)
    assert server.ranges == ["bytes=0-0", None, "bytes=0-0", None]


def test_a_file_without_a_length_is_taken_where_something_proves_it(server, tmp_path):
    server.always = "nolength"
    get(tmp_path, wanted(f"{server.url}/data.bin", bytes=None))
    assert whole(tmp_path)
    with pytest.raises(BadInput) as error:
        get(tmp_path / "again", wanted(f"{server.url}/data.bin", bytes=None, hashes={}))
    assert "nobody says how long it is" in error.value.found


def test_a_label_of_compression_changes_nothing(server, tmp_path):
    server.always = "gzip"
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)


def test_a_file_that_changes_on_resume_is_never_half_of_each(server, tmp_path):
    server.faults[:] = ["", "cut@400000", "changed"]
    new = CONTENT[::-1]
    get(tmp_path, wanted(f"{server.url}/data.bin", hashes={}))
    assert (tmp_path / "raw/data.bin").read_bytes() == new


def test_one_that_keeps_changing_is_refused(server, tmp_path):
    server.always = "changed"
    with pytest.raises(BadInput) as error:
        get(tmp_path, wanted(f"{server.url}/data.bin", hashes={}))
    assert "changes while it is read" in error.value.found
    assert names(tmp_path / "raw") == []


# What must never become a data file


@pytest.mark.parametrize(
    "fault, said",
    [
        ("page", "a page (text/html)"),
        ("cloudflare", "behind a login (Cloudflare Access)"),
        ("404", "HTTP 404"),
        ("403", "HTTP 403"),
        ("410", "HTTP 410"),
        ("badrange", "it says 'bytes 7-"),
        ("flip@77", f"sha256 {SHA256} expected"),
        ("loop", "Exceeded 30 redirects"),
        ("502", "HTTP 502 Bad Gateway (6 tries)"),
    ],
)
@pytest.mark.parametrize("first", [[], [""]], ids=["at once", "after the first answer"])
def test_a_fault_that_stays_is_told_and_leaves_no_file(server, tmp_path, fault, said, first):
    server.faults[:], server.always = first, fault
    with pytest.raises(BadInput, match="no source gives data.bin") as error:
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert said in error.value.found
    assert SHA256 in error.value.expected
    assert "data.bin" not in names(tmp_path / "raw")


@pytest.mark.parametrize("facts", [{"hashes": {"sha256": "0" * 64}}, {"hashes": {"md5": "0" * 32}}, {"bytes": 1}])
def test_a_wrong_hash_or_size_is_refused(server, tmp_path, facts):
    with pytest.raises(BadInput, match="no source gives data.bin"):
        get(tmp_path, wanted(f"{server.url}/data.bin", **facts))
    assert names(tmp_path / "raw") == []


def test_where_nothing_is_published_a_file_must_begin_like_its_kind(server, tmp_path):
    server.files["scan.nii.gz"] = b'{"error": "quota exceeded"}'
    with pytest.raises(BadInput) as error:
        get(tmp_path, Wanted("scan.nii.gz", (f"{server.url}/scan.nii.gz",)))
    assert 'a .gz file expected, this begins with b\'{"error"' in error.value.found
    server.files["scan.nii.gz"] = b"\x1f\x8b and so on"
    get(tmp_path, Wanted("scan.nii.gz", (f"{server.url}/scan.nii.gz",)))


def test_bare_numbers_may_be_called_npy(server, tmp_path):
    server.files["node_feat.npy"] = bytes(4096)
    get(tmp_path, Wanted("node_feat.npy", (f"{server.url}/node_feat.npy",)))
    assert (tmp_path / "raw" / "node_feat.npy").read_bytes() == bytes(4096)


def test_the_next_source_goes_on_with_what_the_first_gave(server, tmp_path):
    server.files["mirror"] = CONTENT
    server.faults[:] = ["", "cut@400000", "404"]
    get(tmp_path, wanted("file:/nowhere/data.bin", f"{server.url}/data.bin", f"{server.url}/mirror"))
    assert whole(tmp_path)
    assert server.ranges[-1] == "bytes=400000-1048575"
    assert server.paths[-1] == "mirror"


def test_without_a_published_hash_sources_are_not_mixed(server, tmp_path):
    server.files["mirror"] = CONTENT[::-1]
    server.faults[:] = ["", "cut@400000", "404"]
    get(tmp_path, wanted(f"{server.url}/data.bin", f"{server.url}/mirror", hashes={}))
    assert (tmp_path / "raw/data.bin").read_bytes() == CONTENT[::-1]


def test_a_wrong_beginning_from_an_earlier_try_is_thrown_away(server, tmp_path):
    server.files["bad"] = CONTENT[::-1]
    server.faults[:] = ["", "cut@400000", "404"]
    get(tmp_path, wanted(f"{server.url}/bad", f"{server.url}/data.bin"))
    assert whole(tmp_path)
    assert server.ranges[-1] == "bytes=0-1048575"


@pytest.mark.parametrize("left", [100, 0, None])
def test_a_part_file_that_is_shorter_than_its_record_is_thrown_away(server, tmp_path, left):
    server.faults[:], server.always = ["", "cut@400000"], "404"
    with pytest.raises(BadInput):
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    part, server.always = tmp_path / "raw/.data.bin.part", ""
    if left is None:
        part.unlink()
    else:
        os.truncate(part, left)
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)


def test_what_each_source_said_is_told_and_so_is_every_file(server, tmp_path):
    items = [
        Wanted(f"{number}", ("file:/nowhere", f"{server.url}/{number}"), 5, {"sha256": SHA256}) for number in range(3)
    ]
    with pytest.raises(BadInput, match="3 of 4 files have no source") as error:
        get(tmp_path, wanted(f"{server.url}/data.bin"), *items)
    assert error.value.found.count("file:/nowhere: no such file") == 3
    assert error.value.found.count("HTTP 404") == 3
    assert error.value.next == "do this"
    assert whole(tmp_path)


def test_after_many_failures_the_rest_is_not_tried(server, tmp_path):
    items = [Wanted(f"{number}", (f"{server.url}/{number}",)) for number in range(300)]
    with pytest.raises(BadInput, match="the rest was not tried"):
        get(tmp_path, *items)
    assert len(server.paths) < 100


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "a/../../outside", ""])
def test_a_list_cannot_write_elsewhere(server, tmp_path, path):
    with pytest.raises(BadInput, match="cannot be brought"):
        get(tmp_path, Wanted(path, (f"{server.url}/data.bin",)))


def test_two_files_of_one_name_are_refused(server, tmp_path):
    with pytest.raises(BadInput, match="cannot be brought"):
        get(tmp_path, wanted(f"{server.url}/data.bin"), wanted(f"{server.url}/data.bin"))


# The machine


def test_the_speed_limit_holds(server, tmp_path, monkeypatch):
    waits = []
    with line.line(Transfer(4, 2.0), lambda count: None) as way:
        monkeypatch.setattr(way.ended, "wait", lambda seconds: waits.append(seconds))
        segments.bring(f"{server.url}/data.bin", tmp_path / ".part", None, {"sha256": SHA256}, ("sha256",), way)
    assert max(waits) == pytest.approx(len(CONTENT) / 2e6, rel=0.3)


def test_a_full_disk_is_said(server, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segments.os, "pwrite", full)
    with pytest.raises(BadEnvironment, match="cannot write") as error:
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert error.value.found == "No space left on device"


def test_what_an_earlier_try_left_counts_as_space(server, tmp_path, monkeypatch):
    server.faults[:], server.always = ["", "cut@800000"], "404"
    with pytest.raises(BadInput):
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    server.always = ""
    monkeypatch.setattr("podium.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 400_000})())
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert whole(tmp_path)


def test_a_local_source_that_cannot_be_read_or_is_gone(tmp_path):
    with pytest.raises(BadInput) as error:
        get(tmp_path, wanted(f"file:{tmp_path}/none"))
    assert "no such file" in error.value.found


# Who asks


def test_a_token_is_sent_to_its_host_alone_and_never_passed_on(server, tmp_path, monkeypatch):
    monkeypatch.setitem(access.TOKENS, "127.0.0.1", access.TOKENS["mlcommons-storage.org"])
    for name in ("CF_ACCESS_CLIENT_ID", "CF_ACCESS_CLIENT_SECRET", "CF_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server.faults[:] = ["cloudflare"]
    with pytest.raises(BadInput) as error:
        get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert "set CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET, or CF_ACCESS_TOKEN" in error.value.found
    monkeypatch.setenv("CF_ACCESS_CLIENT_ID", "me")
    assert access.headers(server.url) == {}
    monkeypatch.setenv("CF_ACCESS_CLIENT_SECRET", "mine")
    get(tmp_path, wanted(f"{server.url}/data.bin"))
    assert server.headers[-1]["CF-Access-Client-Secret"] == "mine"
    server.faults[:], server.always = [], "redirect"
    with pytest.raises(BadInput, match="no source") as error:
        get(tmp_path / "again", wanted(f"{server.url}/data.bin"))
    assert "HTTP 302" in error.value.found
    assert access.headers("https://example.org/x") == {}
    assert access.headers("https://notmlcommons-storage.org/x") == {}


def test_a_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    server.files["http://data.example/data.bin"] = CONTENT
    get(tmp_path, wanted("http://data.example/data.bin"))
    assert server.paths[0] == "http://data.example/data.bin"


# A whole set


def load(write_config, source, **data):
    sets = {"imagenet": {"source": source, "layout": "recordio"}}
    return configuration.load(write_config(data={"sets": sets, **data}))


def make_source(folder):
    folder.mkdir()
    (folder / "a.tar").write_bytes(CONTENT)
    manifest.write(folder, manifest.of_folder(folder))
    return folder


def publish(server, folder):
    """Put a folder on the server; its address."""
    for path in folder.rglob("*"):
        server.files[f"mirror/{path.relative_to(folder)}"] = path.read_bytes()
    return f"{server.url}/mirror"


def test_a_folder_with_a_manifest_is_held_to_it(tmp_path, write_config):
    source = make_source(tmp_path / "source")
    config = load(write_config, f"file:{source}")
    content = fetch.fetch(config, config.dataset("imagenet"))
    raw = plan.raw_folder(config, "imagenet")
    assert content.sha256 == manifest.of_folder(raw).sha256 == manifest.read(raw).sha256
    (source / "a.tar").write_bytes(CONTENT[:-1] + b"x")
    (raw / "a.tar").unlink()
    with pytest.raises(BadInput) as error:
        fetch.fetch(config, config.dataset("imagenet"))
    assert "sha256" in error.value.expected


def test_the_marks_of_a_folder_and_of_a_mirror_stay_on_what_is_fetched(server, tmp_path, write_config):
    source = make_source(tmp_path / "source")
    counts = {"official": False, "subset": True, "files": 1}
    manifest.write(source, manifest.of_folder(source, counts=counts))
    for place in (f"file:{source}", publish(server, source)):
        config = load(write_config, place)
        content = fetch.fetch(config, config.dataset("imagenet"))
        assert dict(content.counts) == {"official": False, "subset": True}


def test_a_mirror_is_held_to_its_manifest(server, tmp_path, write_config):
    config = load(write_config, publish(server, make_source(tmp_path / "source")))
    assert [entry.path for entry in fetch.fetch(config, config.dataset("imagenet")).files] == ["a.tar"]
    assert manifest.read(plan.raw_folder(config, "imagenet")).files[0].sha256 == SHA256
    server.files["mirror/manifest.json"] = server.files["mirror/manifest.json"].replace(b'"bytes": 1', b'"bytes": 2')
    with pytest.raises(BadInput, match="was edited"):
        fetch.fetch(config, config.dataset("imagenet"))


def test_a_mirror_without_a_manifest_has_what_the_catalog_names(server, write_config):
    config = load(write_config, f"{server.url}/mirror/")
    items = {item.path: item for item in fetch.wanted(config, config.dataset("imagenet"))[0]}
    train = items["ILSVRC2012_img_train.tar"]
    assert train.sources == (f"{server.url}/mirror/ILSVRC2012_img_train.tar",)
    assert (train.bytes, train.hashes["md5"]) == (147897477120, "1d675b47d978889d74fa0da5fadfb00e")


def test_a_set_of_the_catalog_comes_by_its_listing(server, write_config, monkeypatch):
    """An entry as those in the catalog: two files of a listing, one of another place that is known beforehand."""
    lines = f"{MD5}  a/data.bin\n{' ' * 32}  a/note.txt\n"
    server.files |= {"set.uri": f"{server.url}/bucket".encode(), "set.md5": lines.encode(), "other": b"12345"}
    server.files |= {"bucket/a/data.bin": CONTENT, "bucket/a/note.txt": b"note"}
    facts = {
        "name": "imagenet",
        "access": "public",
        "footprint": {"raw": 2_000_000, "peak": 2_000_000},
        "listings": [{"listing": f"{server.url}/set", "into": "."}],
        "files": [{"path": "other.txt", "bytes": 5, "sources": ["http://127.0.0.1:9/other", f"{server.url}/other"]}],
    }
    monkeypatch.setattr(catalog, "entry", lambda name: facts)
    config = load(write_config, "catalog")
    dataset = config.dataset("imagenet")
    monkeypatch.setattr("podium.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_900_000})())
    with pytest.raises(BadEnvironment, match="disk too small"):
        fetch.fetch(config, dataset)
    monkeypatch.undo()
    monkeypatch.setattr(catalog, "entry", lambda name: facts)
    assert [entry.path for entry in fetch.fetch(config, dataset).files] == ["a/data.bin", "a/note.txt", "other.txt"]
    facts["files"][0]["sources"].pop()
    with pytest.raises(BadInput, match=r"no source of other\.txt answers") as error:
        fetch.fetch(config, dataset)
    assert "http://127.0.0.1:9: " in error.value.found


def test_a_missing_an_empty_and_a_gated_source(tmp_path, write_config):
    for source, words in ((f"file:{tmp_path}/none", "is missing"), ("demo", "is missing"), ("catalog", "without you")):
        config = load(write_config, source)
        with pytest.raises(BadInput, match=words):
            fetch.fetch(config, config.dataset("imagenet"))
    (tmp_path / "empty").mkdir()
    config = load(write_config, f"file:{tmp_path}/empty")
    with pytest.raises(BadInput, match="is empty"):
        fetch.fetch(config, config.dataset("imagenet"))


def test_a_disk_too_small_is_said_before_anything_is_fetched(tmp_path, write_config, monkeypatch):
    config = load(write_config, f"file:{make_source(tmp_path / 'source')}")
    monkeypatch.setattr("podium.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(BadEnvironment, match="disk too small"):
        fetch.fetch(config, config.dataset("imagenet"))
    assert not (plan.raw_folder(config, "imagenet") / "a.tar").exists()


def test_a_file_that_does_not_belong_in_raw_is_named(tmp_path, write_config):
    config = load(write_config, f"file:{make_source(tmp_path / 'source')}")
    raw = plan.raw_folder(config, "imagenet")
    raw.mkdir(parents=True)
    (raw / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="does not belong"):
        fetch.fetch(config, config.dataset("imagenet"))
    assert (raw / "notes.txt").read_text() == "mine"


def test_which_set_must_be_said(write_config, capsys):
    path = write_config()
    assert cli.main(["fetch", "--config", str(path)]) == 2
    assert cli.main(["fetch", "imagenet", "kits19", "--config", str(path)]) == 2
    assert "fetch which set?" in capsys.readouterr().err


# Killed, and several at once

SMALL_SEGMENTS = """
import sys
from podium import cli
from podium.data.transfer import segments
segments.SEGMENT, segments.RECORD_EVERY = 1 << 18, 0.02
sys.exit(cli.main(sys.argv[1:]))
"""


def start(config):
    """`podium fetch` as a process of its own, with small segments."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "workflow")}
    command = [sys.executable, "-c", SMALL_SEGMENTS, "fetch", "imagenet", "--config", str(config.path)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def test_killed_at_random_moments_it_ends_with_the_same_bytes(server, tmp_path, write_config):
    """Each run is killed before it has a third of the data: without going on where it stopped it would never end."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    source = tmp_path / "source"
    source.mkdir()
    for name in "abc":
        (source / name).write_bytes(chance.randbytes(4 << 20))
    manifest.write(source, manifest.of_folder(source))
    config = load(write_config, publish(server, source), transfer={"connections": 2, "megabytes_per_second": 20})
    for run in range(30):
        process = start(config)
        limit = server.sent + chance.randrange(2 << 20, 4 << 20)
        server.when_sent = lambda sent, p=process, limit=limit: p.kill() if sent > limit else None
        told = process.communicate()[1]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (seed, run, told)
    assert process.returncode == 0, seed
    assert run >= 2
    raw = plan.raw_folder(config, "imagenet")
    assert manifest.read(raw).sha256 == manifest.read(source).sha256 == manifest.of_folder(raw).sha256
    assert names(raw) == ["a", "b", "c", "manifest.json"]


def test_two_processes_do_not_fetch_twice_and_a_dead_one_frees_the_way(server, tmp_path, write_config):
    source = make_source(tmp_path / "source")
    config = load(write_config, publish(server, source))
    held = threading.Event()
    listed = len(server.files["mirror/manifest.json"])
    server.when_sent = lambda sent: held.set() if sent > listed + 1000 else None
    server.faults[:], server.always = ["", "", ""], "stall@1000"  # two for the manifest, one for the tag of the file
    first = start(config)
    assert held.wait(60)
    server.always = ""
    second = start(config)
    assert "waiting for another podium" in second.stderr.readline()
    first.kill()
    first.wait()
    first.stderr.close()
    assert second.wait(60) == 0
    second.stderr.close()
    assert manifest.read(plan.raw_folder(config, "imagenet")).files[0].sha256 == SHA256


def test_the_second_of_two_finds_what_the_first_fetched(server, tmp_path, write_config):
    config = load(write_config, publish(server, make_source(tmp_path / "source")))
    processes = [start(config) for _ in range(2)]
    for process in processes:
        assert process.wait(120) == 0
        process.stderr.close()
    assert (
        sum(
            path == "mirror/a.tar" and asked != "bytes=0-0"
            for path, asked in zip(server.paths, server.ranges, strict=True)
        )
        == 4
    )


def test_a_place_where_nothing_may_be_written_is_status_3(tmp_path, write_config, capsys):
    """/sys takes no new folder from anybody, root included."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(b"content")
    sets = {"imagenet": {"source": f"file:{source}", "layout": "recordio"}}
    path = write_config(data={"root": "/sys/podium", "sets": sets})
    assert cli.main(["fetch", "imagenet", "--config", str(path)]) == 3
    assert "permission to write" in capsys.readouterr().err
