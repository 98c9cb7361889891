"""The list of files that MLCommons' storage publishes, from a server on this machine."""

from __future__ import annotations

import hashlib

import pytest

from faulty import serve
from podium.data import catalog, listing
from podium.data.transfer import Wanted, access, line
from podium.errors import BadInput

ONE, TWO, THREE = "1" * 32, "2" * 32, "3" * 32


@pytest.fixture
def site():
    """A server with the listing `set` of three files, of which the storage does not know one's md5."""
    lines = f"{ONE}  ./results/part-0\n{TWO} *results/eval.txt\n{' ' * 32}  b/a name.bin\n"
    with serve({"set.md5": lines.encode()}) as server:
        server.files["set.uri"] = f"{server.url}/bucket/\n".encode()
        yield server


def listed(site, known=(), **facts):
    return listing.listed([{"listing": f"{site.url}/set"} | facts], list(known))


def test_a_listing_gives_names_hashes_and_addresses(site):
    assert listed(site, [Wanted("eval.txt", ("https://elsewhere/eval.txt",), 9, {"md5": TWO})]) == [
        Wanted("part-0", (f"{site.url}/bucket/results/part-0",), None, {"md5": ONE}),
        Wanted("eval.txt", (f"{site.url}/bucket/results/eval.txt", "https://elsewhere/eval.txt"), 9, {"md5": TWO}),
        Wanted("a name.bin", (f"{site.url}/bucket/b/a%20name.bin",)),
    ]


def test_folders_are_kept_below_another_where_that_is_asked_for(site):
    assert [item.path for item in listed(site, into="x")] == [
        "x/results/part-0",
        "x/results/eval.txt",
        "x/b/a name.bin",
    ]


def test_only_the_named_files_are_taken(site):
    assert [item.path for item in listed(site, only=["results/eval.txt"])] == ["eval.txt"]


def test_a_list_may_be_pinned_whatever_its_order(site):
    lines = site.files["set.md5"].decode().splitlines(keepends=True)
    sha256 = hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()
    site.files["set.md5"] = "".join(reversed(lines)).encode()
    assert len(listed(site, sha256=sha256)) == 3
    site.files["set.md5"] = "".join(lines).replace(ONE, THREE).encode()
    with pytest.raises(BadInput) as error:
        listed(site, sha256=sha256)
    assert sha256 in error.value.expected


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
    site.files[name] = content.encode()
    with pytest.raises(BadInput) as error:
        listed(site, [Wanted("eval.txt", (), None, {"md5": TWO})])
    assert error.value.found == found


def test_another_number_of_files_is_refused(site):
    with pytest.raises(BadInput) as error:
        listed(site, files=2)
    assert (error.value.expected, error.value.found) == ("2 files", "3")


def test_a_missing_listing_is_refused(site):
    del site.files["set.md5"]
    with pytest.raises(BadInput, match=r"set\.md5") as error:
        listed(site)
    assert error.value.found == "HTTP 404 Not Found"


def test_a_listing_behind_a_login_says_what_to_set_and_asks_nobody(site, monkeypatch):
    monkeypatch.setitem(access.TOKENS, "127.0.0.1", access.TOKENS["mlcommons-storage.org"])
    for variable in ("CF_ACCESS_CLIENT_ID", "CF_ACCESS_CLIENT_SECRET", "CF_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    site.always = "cloudflare"
    with pytest.raises(BadInput) as error:
        listed(site)
    assert "set CF_ACCESS_CLIENT_ID and CF_ACCESS_CLIENT_SECRET, or CF_ACCESS_TOKEN" in error.value.found
    site.always = ""
    monkeypatch.setenv("CF_ACCESS_TOKEN", "mine")
    assert len(listed(site)) == 3
    assert site.headers[-1]["cf-access-token"] == "mine"


def test_a_passing_fault_of_the_storage_is_waited_out(site, monkeypatch):
    monkeypatch.setattr(line.time, "sleep", lambda seconds: None)
    site.faults[:] = ["503", "", "cut@3", "", ""]
    assert len(listed(site)) == 3


@pytest.mark.parametrize("name", [name for name in catalog.names() if "listings" in catalog.entry(name)])
def test_the_listings_of_the_catalog_name_every_file_that_it_knows(name, monkeypatch):
    """With a stand-in for each list that has as many files as the entry says, and those that it names."""
    facts = catalog.entry(name)
    named = {item.path: item.hashes.get("md5", ONE) for item in catalog.known(facts)}

    def read(address, sha256):
        item = next(item for item in facts["listings"] if item["listing"] == address)
        paths = item.get("only", list(named))
        paths = paths + [f"more-{number}" for number in range(item.get("files", len(paths)) - len(paths))]
        return [(path, named.get(path, named.get(path.rpartition("/")[2], ONE)), f"https://x/{path}") for path in paths]

    monkeypatch.setattr(listing, "_read", read)
    items = catalog.wanted(facts)
    assert {item.path for item in items} >= named.keys()
    assert len(items) >= sum(item.get("files", 0) for item in facts["listings"])
