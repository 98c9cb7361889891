"""The list of files that MLCommons' storage publishes, from a server on this machine."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from podium import config as configuration
from podium.data import listing
from podium.errors import BadInput

ONE, TWO = "1" * 32, "2" * 32


@pytest.fixture
def site(tmp_path):
    """Publish files in a folder; returns the folder and the address of its listing `set`."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "set.uri").write_text(f"{address}/bucket/\n")
    (tmp_path / "set.md5").write_text(f"{ONE}  ./results/part-0\n{TWO} *results/eval.txt\n")
    yield tmp_path, f"{address}/set"
    server.shutdown()
    server.server_close()


def entry(address: str, **facts: object) -> dict:
    return {"listings": [{"listing": address} | facts], "files": [{"path": "eval.txt", "bytes": 9, "md5": TWO}]}


def test_a_listing_gives_names_hashes_and_addresses(site):
    _, address = site
    base = address.removesuffix("set")
    assert listing.listed(entry(address)) == [
        {"path": "part-0", "md5": ONE, "sources": [f"{base}bucket/results/part-0"]},
        {"path": "eval.txt", "bytes": 9, "md5": TWO, "sources": [f"{base}bucket/results/eval.txt"]},
    ]


def test_only_the_named_files_are_taken(site):
    assert [item["path"] for item in listing.listed(entry(site[1], only=["eval.txt"]))] == ["eval.txt"]


@pytest.mark.parametrize(
    "name, content, found",
    [
        ("set.uri", "<html>\n</html>", "'<html>\\n</html>'"),
        ("set.md5", "<html>", "'<html>'"),
        ("set.md5", f"{ONE}  ./results/part-0\n", "none named eval.txt"),
        ("set.md5", f"{ONE}  eval.txt\n", ONE),
    ],
)
def test_a_listing_that_is_none_or_of_another_set_is_refused(site, name, content, found):
    folder, address = site
    (folder / name).write_text(content)
    with pytest.raises(BadInput) as error:
        listing.listed(entry(address))
    assert error.value.found == found


def test_a_missing_listing_is_refused(site):
    with pytest.raises(BadInput, match=r"other\.uri") as error:
        listing.listed(entry(site[1].replace("set", "other")))
    assert error.value.found == "HTTP 404"


def test_the_entry_of_wikipedia_has_the_form(monkeypatch):
    facts = configuration.catalog("datasets/wikipedia")
    names = [f"part-{number:05d}-of-00500" for number in range(500)] + ["eval.txt", "eval.md5"]
    known = {item["path"]: item["md5"] for item in facts["files"]}
    texts, inputs = (item["listing"] for item in facts["listings"])
    published = {
        texts: [(f"results/{name}", name) for name in names],
        inputs: [("vocab.txt", "vocab.txt"), ("License", "x")],
    }
    monkeypatch.setattr(
        listing, "_read", lambda name: [(path, known.get(file, ONE), path) for path, file in published[name]]
    )
    assert sorted(item["path"] for item in listing.listed(facts)) == sorted([*names, "vocab.txt"])
