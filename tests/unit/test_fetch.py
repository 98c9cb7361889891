"""Fetching: only the right bytes become a data file, and what went wrong at each source is told."""

from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from podium import cli, manifest, plan
from podium import config as configuration
from podium.data import fetch
from podium.data.fetch import Refused, Wanted
from podium.errors import BadEnvironment, BadInput

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def server(tmp_path):
    """An HTTP server on loopback whose answers a test can spoil; counts requests and honours Range."""

    class Handler(http.server.BaseHTTPRequestHandler):
        faults: list[str] = []
        ranges: list[str | None] = []

        def do_GET(self):
            wanted = self.headers.get("Range")
            Handler.ranges.append(wanted)
            fault = Handler.faults.pop(0) if Handler.faults else ""
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
            if fault.isdigit():
                self.send_error(int(fault))
                return
            body = b"<html>Sign in</html>" if fault == "page" else CONTENT[start:]
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

        def log_message(self, *_):
            pass

    Handler.faults, Handler.ranges = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        Handler.url = f"http://127.0.0.1:{httpd.server_port}/data.bin"
        yield Handler
        httpd.shutdown()


def wanted(*sources, **facts):
    known = {"bytes": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()}
    return Wanted("data.bin", tuple(sources), **(known | facts))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)


def test_a_file_comes_whole(server, tmp_path):
    fetch._fetch_one(tmp_path, wanted(server.url))
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["data.bin"]


def test_a_cut_download_goes_on_where_it_stopped(server, tmp_path):
    server.faults[:] = ["cut", "503"]
    fetch._fetch_one(tmp_path, wanted(server.url))
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={len(CONTENT) // 2}-", f"bytes={len(CONTENT) // 2}-"]


def test_an_error_page_never_becomes_a_data_file(server, tmp_path):
    server.faults[:] = ["page"]
    with pytest.raises(BadInput) as error:
        fetch._fetch_one(tmp_path, wanted(server.url))
    assert "20 found" in error.value.found
    assert list(tmp_path.iterdir()) == []


def test_the_next_source_is_tried_and_what_each_said_is_told(server, tmp_path):
    fetch._fetch_one(tmp_path, wanted("file:/nowhere/data.bin", server.url))
    assert (tmp_path / "data.bin").exists()
    server.faults[:] = ["404"]
    with pytest.raises(BadInput) as error:
        fetch._fetch_one(tmp_path / "again", wanted("file:/nowhere/data.bin", server.url))
    assert "no such file" in error.value.found
    assert "HTTP 404" in error.value.found


@pytest.mark.parametrize("fact", [{"sha256": "0" * 64}, {"sha256": None, "md5": "0" * 32}, {"bytes": 1}])
def test_a_wrong_hash_or_size_is_refused(server, tmp_path, fact):
    with pytest.raises(BadInput, match="no source gives data.bin"):
        fetch._fetch_one(tmp_path, wanted(server.url, **fact))
    assert list(tmp_path.iterdir()) == []


def test_a_local_file_that_is_gone_is_refused(tmp_path):
    with pytest.raises(Refused, match="no such file"):
        fetch._local(f"file:{tmp_path}/none", tmp_path / "part")


def load(write_config, source):
    path = write_config(data={"sets": {"imagenet": {"source": source, "layout": "recordio"}}})
    return configuration.load(path)


def test_a_folder_with_a_manifest_is_held_to_it(tmp_path, write_config):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(CONTENT)
    manifest.write(source, manifest.of_folder(source))
    config = load(write_config, f"file:{source}")
    content = fetch.fetch(config, config.dataset("imagenet"))
    assert [entry.path for entry in content.files] == ["a.tar"]
    (source / "a.tar").write_bytes(CONTENT[:-1] + b"x")
    (plan.raw_folder(config, "imagenet") / "a.tar").unlink()
    with pytest.raises(BadInput) as error:
        fetch.fetch(config, config.dataset("imagenet"))
    assert "sha256" in error.value.expected


def test_a_file_already_there_with_other_content_is_fetched_again(tmp_path, write_config):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(CONTENT)
    manifest.write(source, manifest.of_folder(source))
    config = load(write_config, f"file:{source}")
    raw = plan.raw_folder(config, "imagenet")
    raw.mkdir(parents=True)
    (raw / "a.tar").write_bytes(CONTENT[::-1])
    fetch.fetch(config, config.dataset("imagenet"))
    assert (raw / "a.tar").read_bytes() == CONTENT


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
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(CONTENT)
    config = load(write_config, f"file:{source}")
    monkeypatch.setattr("podium.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 10})())
    with pytest.raises(BadEnvironment, match="disk too small"):
        fetch.fetch(config, config.dataset("imagenet"))
    assert not (plan.raw_folder(config, "imagenet") / "a.tar").exists()


def test_a_place_where_nothing_may_be_written_is_status_3(tmp_path, write_config, capsys):
    """/sys takes no new folder from anybody, root included."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(CONTENT)
    sets = {"imagenet": {"source": f"file:{source}", "layout": "recordio"}}
    path = write_config(data={"root": "/sys/podium", "sets": sets})
    assert cli.main(["fetch", "imagenet", "--config", str(path)]) == 3
    assert "permission to write" in capsys.readouterr().err


def test_a_file_that_does_not_belong_in_raw_is_named(tmp_path, write_config):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.tar").write_bytes(CONTENT)
    config = load(write_config, f"file:{source}")
    raw = plan.raw_folder(config, "imagenet")
    raw.mkdir(parents=True)
    (raw / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="does not belong"):
        fetch.fetch(config, config.dataset("imagenet"))
    assert (raw / "notes.txt").read_text() == "mine"
