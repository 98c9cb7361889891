"""`podium fetch --plan`: what fetching would take, with and without a network."""

from __future__ import annotations

import json
import threading

import pytest

from faulty import serve
from podium import cli
from podium.data import catalog, preview
from podium.data.transfer import Wanted, http
from podium.errors import BadInput

ENTRY = {
    "name": "some",
    "title": "Some set",
    "benchmark": "none",
    "licence": "free",
    "access": "public",
    "footprint": {"raw": 9_000_000, "folder": 8_000_000, "peak": 17_000_000},
}


@pytest.fixture
def server():
    with serve({"big": bytes(9_000_000), "small": b"x"}) as one:
        yield one


@pytest.fixture
def offline(monkeypatch):
    """No name resolves."""

    def fail(*_, **__):
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", fail)


def use(monkeypatch, **facts):
    monkeypatch.setattr(catalog, "entry", lambda name: ENTRY | facts)


def plan(write_config, capsys, *arguments):
    assert cli.main(["fetch", "--plan", *arguments, "--config", str(write_config())]) == 0
    return capsys.readouterr().out


def test_the_whole_catalog_is_planned_without_a_network(write_config, capsys, offline):
    rows = json.loads(plan(write_config, capsys, "--json"))
    assert [row["set"] for row in rows] == catalog.names()
    for row in rows:
        assert row["bytes"] > 0 and row["footprint"]["peak"] >= row["bytes"]
        assert row["free"] > 0
        assert row["hours"] is None and row["hours_at_1_gbit"] >= 0
        assert row["sources"] and not any(source["up"] for source in row["sources"])
    by_name = {row["set"]: row for row in rows}
    assert by_name["imagenet"]["access"] == "login" and "image-net.org/signup" in by_name["imagenet"]["ask"]
    assert by_name["librispeech"]["bytes"] == 61357943031 and by_name["librispeech"]["bytes_exact"]
    assert not by_name["wikipedia"]["bytes_exact"]


def test_a_source_that_answers_gives_size_and_rate_and_so_hours(server, write_config, capsys, monkeypatch):
    sources = [f"{server.url}/big", "file:/nowhere/big"]
    use(monkeypatch, files=[{"path": "big", "bytes": 9_000_000, "sources": sources}])
    (row,) = json.loads(plan(write_config, capsys, "some", "--json"))
    ok, gone = row["sources"]
    assert (ok["says"], ok["bytes"], gone["says"]) == ("ok", 9_000_000, "no such file")
    assert row["hours"] == pytest.approx(9_000_000 / row["bytes_per_second"] / 3600, abs=0.01)
    assert row["bytes_exact"] and row["files"] == 1


def test_for_people_it_says_what_fits_and_whom_to_ask(server, write_config, capsys, monkeypatch):
    facts = {"access": "login", "ask": "Ask Ann."}
    use(monkeypatch, files=[{"path": "small", "sources": [f"{server.url}/small"]}], **facts)
    monkeypatch.setattr(preview.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1_000_000})())
    told = plan(write_config, capsys, "some")
    assert "TOO SMALL by 0.0 GB" in told and "Ask Ann." in told and f"{server.url}: ok" in told


def test_the_files_behind_a_listing_are_probed_too(server, write_config, capsys, monkeypatch):
    server.files |= {"set.uri": f"{server.url}\n".encode(), "set.md5": b"1" * 32 + b"  big\n"}
    use(monkeypatch, listings=[{"listing": f"{server.url}/set"}])
    (row,) = json.loads(plan(write_config, capsys, "some", "--json"))
    assert row["files"] == 1
    assert [source["address"] for source in row["sources"]] == [f"{server.url}/big"]
    server.always = "cloudflare"
    (row,) = json.loads(plan(write_config, capsys, "some", "--json"))
    assert "Cloudflare Access" in row["sources"][0]["says"]


def test_a_source_that_hangs_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(preview, "DEADLINE", 0.2)
    monkeypatch.setattr(http, "SILENCE", 60)
    server.always = "stall@0"
    server.faults[:] = [""]
    answers = preview.probe([f"{server.url}/big"])
    assert answers[f"{server.url}/big"].says == "no answer in 0 s"
    server.released.set()


def test_places_that_do_not_answer_are_left_out_and_a_file_without_any_is_told(server, offline_port, monkeypatch):
    items = [Wanted("big", (f"{offline_port}/big", f"{server.url}/big"), 9)]
    assert preview.answering(items, "do this") == [Wanted("big", (f"{server.url}/big",), 9)]
    with pytest.raises(BadInput, match="no source of other answers") as error:
        preview.answering([*items, Wanted("other", (f"{offline_port}/other",))], "do this")
    assert "Connection refused" in error.value.found


@pytest.fixture
def offline_port():
    """An address where nothing listens."""
    with serve({}) as gone:
        pass
    return gone.url


def test_a_missing_file_does_not_make_its_place_dead(server):
    items = [Wanted("none", (f"{server.url}/none",))]
    assert preview.answering(items, "do this") == items


def test_probes_are_made_side_by_side(monkeypatch):
    """Each waits for the other: one after the other they would never end."""
    both = threading.Barrier(2, timeout=30)

    def look(address):
        both.wait()
        return http.Remote(1, True)

    monkeypatch.setattr(http, "look", look)
    answers = preview.probe(["http://a/x", "http://b/x"], sample=False)
    assert [answer.says for answer in answers.values()] == ["ok", "ok"]
