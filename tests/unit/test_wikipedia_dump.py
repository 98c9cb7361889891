"""Wikipedia from a dump: wikitext to text, bzip2 streams to pages, pages to the files that are then prepared."""

import bz2
import re
import shutil
import time
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podium.data import wikipedia
from podium.data.demo import wikipedia as demo
from podium.data.job import Job
from podium.data.tasks import runner
from podium.data.wikipedia import dump, extract
from podium.data.wikipedia.wikitext import VERSION, paragraphs
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk

NAME = "enwiki-20200101-pages-articles-multistream.xml.bz2"
PARAMS = {"max_seq_length": 60, "max_predictions_per_seq": 9, "dupe_factor": 1, "eval_articles": 6, "block_mib": 0.003}

WIKITEXT = {
    "plain": ("One two.\n\nThree.", ["One two.", "Three."]),
    "bold and italic": ("'''One''' ''two'' '''''three'''''.", ["One two three."]),
    "links": ("[[Dog]]s and [[cat|the cats]] of [[Rome (city)|]].", ["Dogs and the cats of Rome."]),
    "a colon that is no language": ("[[CSI: Rome]] and [[:Category:Dogs]].", ["CSI: Rome and Category:Dogs."]),
    "figures with links in them": ("[[File:a.png|thumb|A [[dog]] and a [[cat|c]].]]One.", ["One."]),
    "categories and languages": ("One.\n[[Category:Dogs]]\n[[fr:Chien]]\n[[zh-min-nan:Káu]]", ["One."]),
    "addresses": ("See [http://a.b/c the page], [//a.b] and https://a.b/.", ["See the page, and https://a.b/."]),
    "templates": ("A {{lang|fr|{{small|chien}}}} dog {{{1|{{PAGENAME}}}}}ran.", ["A dog ran."]),
    "a template over lines": ("{{Infobox\n|a = [[b]]\n|c = {{d}}\n}}\nOne.", ["One."]),
    "a template that does not end": ("One {{two.\n\nThree.", ["One two.", "Three."]),
    "ends that did not begin": ("One }} two ]] three |}.", ["One two three |}."]),
    "tables": ("One.\n{| class=x\n! a\n|-\n| b || c\n:{|\n| d\n|}\n|}\nTwo.", ["One.", "Two."]),
    "a table that does not end": ("One.\n{| class=x\n|-\n| b\n\nTwo.", ["One.", "Two."]),
    "footnotes": ('One<ref name="a" />.<ref>{{cite|b=c}} <ref>d</ref></ref> Two<REF>e</REF >.', ["One. Two."]),
    "a footnote that does not end": ("One.<ref>two", ["One.two"]),
    "formulas and lists of figures": ("So <math>\\frac{{a}}{b}</math> is.<gallery>\na.png|b\n</gallery>", ["So is."]),
    "comments": ("One<!-- [[two]] {{ -->.<!-- three", ["One."]),
    "nowiki": ("Write <nowiki>{{x}} ''y'' [[z]]</nowiki> or <nowiki/>.", ["Write {{x}} ''y'' [[z]] or."]),
    "headings, lists and rules": ("== A ==\n* b\n# c\n; d\n: e\n----\nOne.\n=== F ===", ["One."]),
    "tags": ("H<sub>2</sub>O<br /> <span style='a'>is</span> wet.", ["H2O is wet."]),
    "characters": ("A&nbsp;&amp;&#32;B &lt;b&gt; 5&thinsp;m.", ["A & B <b> 5 m."]),
    "switches": ("__NOTOC__\nOne.__FORCETOC__", ["One."]),
    "nothing": ("{{stub}}\n\n()", []),
}


@pytest.mark.parametrize("wikitext, expected", WIKITEXT.values(), ids=WIKITEXT)
def test_wikitext_becomes_text(wikitext, expected):
    assert paragraphs(wikitext) == expected


PIECES = [
    "[[",
    "]]",
    "{{",
    "}}",
    "{{{",
    "}}}",
    "{|",
    "|}",
    "|",
    "\n",
    "'''",
    "<ref>",
    "</ref>",
    "<ref name=a/>",
    "<math>",
]
PIECES += [
    "</math>",
    "<!--",
    "-->",
    "==",
    "*",
    "File:a",
    "a",
    "b c",
    ".",
    " ",
    "<",
    ">",
    "[http://a b]",
    "__A__",
    "&lt;",
]
LEFT = re.compile(r"\{\{|\}\}|\[\[|\]\]|^\{\||<!--|</?(?:ref|math)\b[^<>]*>|'''")


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
@example("<<ref>ref>a</ref>")
@example("[[{|File:a")
@example("File:a|}{{}}}")
def test_markup_in_any_order_leaves_none_behind(wikitext):
    found = paragraphs(wikitext.replace("&lt;", "<"))
    assert not [line for line in found if LEFT.search(line)]
    assert not [line for line in paragraphs(wikitext) if line != line.strip() or "\n" in line or not line]


@given(st.text())
def test_no_text_breaks_the_extractor(wikitext):
    assert all(isinstance(line, str) for line in paragraphs(wikitext))


def test_words_without_markup_come_through():
    prose = "Most people there make salt, glass and paper; some (not all) sell it."
    assert paragraphs(f"{prose}\n\n{prose}") == [prose, prose]


@pytest.mark.parametrize(
    "piece", ["{{", "}}", "[[", "]]", "<ref>", "</ref>", "\n{|", "<!--", "{{a|", "[[a|", "<math>a", "''"]
)
def test_a_long_run_of_one_mark_takes_no_more_than_its_length(piece):
    """No pattern goes over it again and again: that would take minutes."""
    began = time.process_time()
    paragraphs(piece * ((1 << 18) // len(piece)))
    assert time.process_time() - began < 5


# --- dumps


def page(number: int, text: str, title: str = "A title", namespace: int = 0, head: str = "") -> str:
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{namespace}</ns>\n    <id>{number}</id>\n{head}"
        f"    <revision>\n      <id>9{number}</id>\n"
        f'      <text xml:space="preserve">{escape(text)}</text>\n    </revision>\n  </page>\n'
    )


def articles(count: int) -> list[str]:
    """Pages, every fifth of which is no article."""
    nouns = ("salt", "glass", "paper", "cloth", "bread")
    found = []
    for number in range(1, count + 1):
        noun = nouns[number % 5]
        sentences = [f"'''Most''' people there make [[{noun}]] {{{{x|{n}}}}}and glass {n} times." for n in range(6)]
        if number % 10 == 5:
            found.append(page(number, f"#REDIRECT [[{noun}]]", head='    <redirect title="x" />\n'))
        elif number % 10 == 0:
            found.append(page(number, " ".join(sentences), title=f"Talk:{noun}", namespace=1))
        else:
            found.append(page(number, " ".join(sentences) + f"\n\n{{{{stub}}}}\nThe {noun} & more < less."))
    return found


HEAD = '<mediawiki version="0.10">\n  <siteinfo>\n    <dbname>enwiki</dbname>\n  </siteinfo>\n'
TAIL = "</mediawiki>\n"


def multistream(pages: list[str], per_stream: int = 7) -> bytes:
    """As the dumps are: the head, some pages a stream, the tail."""
    groups = ["".join(pages[start : start + per_stream]) for start in range(0, len(pages), per_stream)]
    return b"".join(bz2.compress(part.encode()) for part in (HEAD, *groups, TAIL))


def cut_anywhere(content: str, size: int) -> bytes:
    """As parallel compressors write: streams that end in the middle of pages and tags."""
    data = content.encode()
    return b"".join(bz2.compress(data[start : start + size]) for start in range(0, len(data), size))


def numbers(path: Path, span: int) -> list[int]:
    spans = range(0, path.stat().st_size, span)
    return [page.number for start in spans for page in dump.pages(path, start, start + span)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with a dump of 60 pages and a vocabulary."""
    folder = tmp_path_factory.mktemp("dump")
    demo.make(folder)
    for path in folder.iterdir():
        if path.name != "vocab.txt":
            path.unlink()
    (folder / NAME).write_bytes(multistream(articles(60)))
    return folder


@pytest.mark.parametrize("span", [1, 100, 1000, 1 << 20])
def test_spans_of_any_size_have_each_page_once(whole, span):
    assert numbers(whole / NAME, span) == list(range(1, 61))


@settings(max_examples=40)
@given(size=st.integers(1, 700), span=st.integers(1, 3000))
@example(size=1, span=61)
def test_streams_that_end_anywhere_have_each_page_once(tmp_path_factory, size, span):
    path = tmp_path_factory.mktemp("cut") / NAME
    content = HEAD + "".join(page(n, "a") for n in range(1, 8)) + TAIL
    path.write_bytes(cut_anywhere(content, size))
    assert numbers(path, span) == list(range(1, 8))


def test_a_page_is_read_as_it_was_written(tmp_path):
    text = 'A < b & "c"\n\té &nbsp; \U0001f600'
    path = tmp_path / NAME
    path.write_bytes(multistream([page(7, text, title="A & B", namespace=4), page(8, "")]))
    assert list(dump.pages(path, 0, path.stat().st_size)) == [
        dump.Page(7, "A & B", 4, False, text),
        dump.Page(8, "A title", 0, False, ""),
    ]


def test_deleted_and_empty_texts_are_empty(tmp_path):
    content = page(1, "x").replace('<text xml:space="preserve">x</text>', '<text bytes="0" deleted="deleted" />')
    (tmp_path / NAME).write_bytes(multistream([content]))
    assert [found.text for found in dump.pages(tmp_path / NAME, 0, 10_000)] == [""]


BROKEN = {
    "cut in a stream": (lambda data: data[:-300], "its end in the stream that begins at byte"),
    "cut between streams": (lambda data: data[: data.rfind(b"BZh9")], "it was cut off"),
    "cut in a page": (lambda _: bz2.compress((HEAD + articles(1)[0][:-20]).encode()), "it was cut off"),
    "a byte changed": (
        lambda data: data[:600] + bytes([data[600] ^ 4]) + data[601:],
        "in the stream that begins at byte",
    ),
    "something behind it": (lambda data: data + b"<html>", "Invalid data stream"),
    "an error page": (lambda _: b"<html>404</html>", "Invalid data stream"),
    "an error page, compressed": (lambda _: bz2.compress(b"<html>404</html>"), "<html>404</html>"),
    "no text": (lambda _: bz2.compress(f"{HEAD}<page><title>a</title></page>{TAIL}".encode()), "<title>a</title>"),
    "latin-1": (lambda _: bz2.compress((HEAD + page(1, "é") + TAIL).encode("latin-1")), "can't decode byte 0xe9"),
    "empty": (lambda _: b"", "{}"),
}


@pytest.mark.parametrize("spoil, found", BROKEN.values(), ids=BROKEN)
def test_a_damaged_dump_is_refused(whole, tmp_path, spoil, found):
    (tmp_path / NAME).write_bytes(spoil((whole / NAME).read_bytes()))
    with pytest.raises(BadInput, match="enwiki-20200101") as error, runner(1) as run:
        extract.extract(run, tmp_path / NAME, tmp_path / "to", span=500)
    assert found in error.value.found


def test_a_dump_of_other_pages_alone_is_refused(tmp_path):
    (tmp_path / NAME).write_bytes(multistream([page(1, "One.", namespace=14), page(2, "{{stub}}")]))
    with pytest.raises(BadInput, match="no articles") as error, runner(1) as run:
        extract.extract(run, tmp_path / NAME, tmp_path / "to")
    assert error.value.found == "{'other_namespaces': 1, 'without_text': 1}"


def test_files_of_one_mebibyte_hold_whole_articles(tmp_path, monkeypatch):
    monkeypatch.setattr(extract, "FILE_BYTES", 1500)
    (tmp_path / NAME).write_bytes(multistream(articles(60)))
    with runner(1) as run:
        counts = extract.extract(run, tmp_path / NAME, tmp_path / "to", span=700)
    assert counts == {"articles": 48, "other_namespaces": 6, "redirects": 6}
    files = sorted((tmp_path / "to").rglob("wiki_*"))
    contents = [path.read_text() for path in files]
    assert len(files) > 10 and max(path.stat().st_size for path in files) <= 1500
    assert all(text.startswith("<doc id=") and text.endswith("\n\n</doc>\n") for text in contents)
    assert sum(text.count("<doc id=") for text in contents) == 48
    assert "[[" not in "".join(contents) and "The glass & more < less." in "".join(contents)


# --- prepared


def prepare(source: Path, to: Path, layout: str = "hdf5", workers: int = 1, **params) -> dict:
    return wikipedia.prepare(Job(source, layout, to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


@pytest.fixture
def small_spans(monkeypatch):
    monkeypatch.setattr(extract, "FILE_BYTES", 1500)
    monkeypatch.setattr(extract.extract, "__defaults__", (700,))


def test_a_dump_becomes_text_and_sequences_that_are_marked_not_official(whole, tmp_path, small_spans):
    counts = prepare(whole, tmp_path / "text", "text")
    assert (counts["form"], counts["official"], counts["extractor"]) == ("dump", False, VERSION)
    assert counts["pages"] == {"articles": 48, "other_namespaces": 6, "redirects": 6}
    assert wikipedia.invariants(tmp_path / "text", "text", counts) == []
    direct = prepare(whole, tmp_path / "direct")
    prepare(tmp_path / "text", tmp_path / "indirect")
    assert content(tmp_path / "direct") == content(tmp_path / "indirect")
    assert direct["official"] is False and direct["eval_articles"] > 0
    assert wikipedia.invariants(tmp_path / "direct", "hdf5", direct) == []


def test_the_bytes_do_not_depend_on_the_workers(whole, tmp_path):
    prepare(whole, tmp_path / "one", "text", eval_articles=3)
    prepare(whole, tmp_path / "three", "text", workers=3, eval_articles=3)
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_spans_that_were_extracted_are_kept(whole, tmp_path):
    with runner(1) as run:
        wanted = extract.extract(run, whole / NAME, tmp_path, span=700)
        kept, files = tmp_path / "00000" / "wiki_00000", content(tmp_path)
        shutil.rmtree(tmp_path / "00001")
        before = kept.stat().st_mtime_ns
        assert extract.extract(run, whole / NAME, tmp_path, span=700) == wanted
    assert content(tmp_path) == files
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "name, found",
    [
        ("enwiki-20240501-pages-articles-multistream.xml.bz2", "enwiki-20240501-pages-articles-multistream.xml.bz2"),
        ("enwiki-latest-pages-articles.xml.bz2", "enwiki-latest-pages-articles.xml.bz2"),
        (
            "enwiki-20200101-pages-articles1.xml-p10p30302.xml.bz2",
            "enwiki-20200101-pages-articles1.xml-p10p30302.xml.bz2",
        ),
    ],
)
def test_another_dump_is_refused(whole, tmp_path, name, found):
    source = shutil.copytree(whole, tmp_path / "source")
    (source / NAME).rename(source / name)
    with pytest.raises(BadInput, match="is another dump") as error:
        prepare(source, tmp_path / "to")
    assert error.value.found == found


def test_another_dump_is_taken_when_its_date_is_asked_for(whole, tmp_path):
    source = shutil.copytree(whole, tmp_path / "source")
    (source / NAME).rename(source / "simplewiki-20240501-pages-articles.xml.bz2")
    counts = prepare(source, tmp_path / "to", "text", dump_date=20240501, eval_articles=0)
    assert counts["dump"] == "simplewiki-20240501-pages-articles.xml.bz2"


def test_two_dumps_are_refused(whole, tmp_path):
    source = shutil.copytree(whole, tmp_path / "source")
    shutil.copyfile(source / NAME, source / NAME.replace("-multistream", ""))
    with pytest.raises(BadInput, match="no single dump"):
        prepare(source, tmp_path / "to")


def test_a_disk_that_is_too_small_is_noticed_first(whole, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(whole, tmp_path / "to")
