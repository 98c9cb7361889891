"""Wikipedia: forms and layouts, every kind of bad input, resumption, and the checks afterwards."""

import os
import random
import shutil
from dataclasses import asdict
from pathlib import Path

import h5py
import numpy as np
import pytest

from podium import config as configuration
from podium.data import wikipedia
from podium.data.again import Again, Sample
from podium.data.demo import wikipedia as demo
from podium.data.job import Job
from podium.data.samples import wikipedia as sample
from podium.data.wikipedia import (
    arrange,
    check,
    clean,
    evaluation,
    gather,
    layouts,
    sentences,
    shards,
    shuffle,
    split,
    text,
)
from podium.data.wikipedia.instances import Recipe
from podium.data.wikipedia.wordpiece import Tokeniser, read_vocabulary
from podium.errors import BadEnvironment, BadInput
from podium.files import hash_file, walk
from podium.manifest import Manifest

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sample_data"
PARAMS = {"max_seq_length": 40, "max_predictions_per_seq": 6, "dupe_factor": 1, "eval_samples": 20}
PART = "part-00001-of-00500"


@pytest.fixture(scope="session")
def published(tmp_path_factory) -> Path:
    """A small set in the published form: four parts, eval.txt, vocab.txt."""
    folder = tmp_path_factory.mktemp("published")
    demo.make(folder)
    return folder


@pytest.fixture
def source(published, tmp_path) -> Path:
    """A copy of the small set that a test may spoil."""
    return shutil.copytree(published, tmp_path / "source")


def prepare(source: Path, to: Path, layout: str = "hdf5", workers: int = 1, **params) -> dict:
    return wikipedia.prepare(Job(source, layout, to, PARAMS | params, workers))


def content(folder: Path) -> dict[str, str]:
    return {str(path): hash_file(folder / path) for path in walk(folder)}


def raw(articles: dict[str, list[str]]) -> bytes:
    """A file of WikiExtractor's."""
    text = "".join(
        f'<doc id="{number}" url="x" title="{title}">\n{title}\n\n' + "\n".join(paragraphs) + "\n\n</doc>\n"
        for number, (title, paragraphs) in enumerate(articles.items())
    )
    return text.encode()


@pytest.fixture(scope="session")
def extracted(tmp_path_factory) -> Path:
    """WikiExtractor's output: two folders, three files."""
    folder, draw = tmp_path_factory.mktemp("extracted"), random.Random(1)
    for name in ("AA/wiki_00", "AA/wiki_01", "AB/wiki_00"):
        articles = {
            f"{name} {number}": [sentence(draw) + " " + sentence(draw) for _ in range(4)] for number in range(5)
        }
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(raw(articles))
    demo.make(folder / "demo")
    shutil.copyfile(folder / "demo" / "vocab.txt", folder / "vocab.txt")
    shutil.rmtree(folder / "demo")
    return folder


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choice(["Most", "people", "there", "make", "salt", "and", "glass"]) for _ in range(9)) + "."


@pytest.mark.parametrize("layout", [name for name in wikipedia.LAYOUTS if name != "text"])
def test_every_layout_passes_its_checks_whatever_the_workers(published, layout, tmp_path):
    counts = prepare(published, tmp_path / "one", layout, shards=3)
    assert wikipedia.invariants(tmp_path / "one", layout, counts) == []
    assert (counts["shards"], counts["eval_instances"], counts["articles"]) == (3, 20, 300)
    assert counts == prepare(published, tmp_path / "three", layout, workers=3, shards=3)
    assert content(tmp_path / "one") == content(tmp_path / "three")


def test_without_shards_each_part_becomes_a_file(published, tmp_path):
    counts = prepare(published, tmp_path)
    assert counts["shards"] == 4
    assert [path.name for path in sorted((tmp_path / "train").iterdir())][0] == "part_00000_of_00004.hdf5"


def test_the_hash_of_the_content_does_not_depend_on_the_layout(published, tmp_path):
    hashes = set()
    for name in ("hdf5", "hdf5-varlength", "tfrecord"):
        prepare(published, tmp_path / name, name, shards=2)
        blocks = layouts.LAYOUTS[name].read(tmp_path / name / layouts.LAYOUTS[name].train_name(1, 2))
        hashes.add(tuple(md5 for block in blocks for md5 in check.row_hashes(block)))
    assert len(hashes) == 1


def test_the_shuffle_loses_and_repeats_nothing(published, tmp_path):
    def rows(layout: str) -> list[tuple[int, ...]]:
        prepare(published, tmp_path / layout, layout, shards=5)
        found = []
        for path in sorted((tmp_path / layout / "train").iterdir()):
            with h5py.File(path) as file:
                found += [tuple(row) for row in file["input_ids"][:]]
        return found

    plain, mixed = rows("hdf5-varlength"), rows("hdf5-shuffled")
    assert sorted(plain) == sorted(mixed)
    assert plain != mixed


def test_wikiextractor_to_instances_and_to_text_agree(extracted, tmp_path):
    params = {"eval_articles": 4, "block_mib": 0.002}
    extracted = shutil.copytree(extracted, tmp_path / "extracted")
    for name in ("model.ckpt-28252.index", "model.ckpt-28252.data-00000-of-00001"):  # goes with the text too
        (extracted / name).write_bytes(b"checkpoint")
    counts = prepare(extracted, tmp_path / "text", "text", **params)
    assert wikipedia.invariants(tmp_path / "text", "text", counts) == []
    assert counts["official"] is False
    direct = prepare(extracted, tmp_path / "direct", workers=2, **params)
    prepare(tmp_path / "text", tmp_path / "indirect")
    assert content(tmp_path / "direct") == content(tmp_path / "indirect")
    assert direct["articles"] == 11 and direct["eval_articles"] == 4


def test_sentences_segmented_elsewhere_are_taken(extracted, tmp_path):
    source = shutil.copytree(extracted, tmp_path / "source")
    (source / "AA" / "wiki_00.3").write_text("\nOne. Two.\nThree.\n\nFour.\n\n")
    prepare(source, tmp_path / "to", "text", eval_articles=0, block_mib=0.001)
    assert (tmp_path / "to" / "part-00000-of-00500").read_text() == "\nOne. Two.\nThree.\n\nFour.\n\n\n"


def spoiled(source: Path, name: str, content: bytes | None) -> None:
    (source / name).unlink()
    if content is not None:
        (source / name).write_bytes(content)


BAD_PARTS = {
    "empty": (b"", "0 bytes without any text"),
    "blank": (b"\n \n\t\n", "5 bytes without any text"),
    "no word": ("\u200b\n\n\u0301\n".encode(), "no article with a word"),
    "error page": (b"\n<!DOCTYPE html>\n<html><title>404</title></html>", "a web page"),
    "error as XML": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "a web page"),
    "not cleaned": (b'One.\n\n<doc id="7" url="x" title="y">\nTwo.\n', "<doc> tag in line 3"),
    "latin-1": ("One.\n\nCaf\xe9 two.\n".encode("latin-1"), "the byte 0xe9 in line 3"),
}


@pytest.mark.parametrize("content, found", BAD_PARTS.values(), ids=BAD_PARTS)
@pytest.mark.parametrize("name", [PART, "eval.txt"])
def test_bad_text_is_refused(source, tmp_path, name, content, found):
    spoiled(source, name, content)
    with pytest.raises(BadInput, match=name) as error:
        prepare(source, tmp_path / "to")
    assert found in error.value.found


def test_crlf_makes_no_difference(source, published, tmp_path):
    for name in (PART, "eval.txt", "vocab.txt"):
        spoiled(source, name, (published / name).read_bytes().replace(b"\n", b"\r\n"))
    prepare(published, tmp_path / "lf")
    prepare(source, tmp_path / "crlf")
    lf, crlf = content(tmp_path / "lf"), content(tmp_path / "crlf")
    assert [name for name in lf if lf[name] != crlf[name]] == ["vocab.txt"]


BAD_VOCABULARIES = {
    "missing": (None, "nothing"),
    "no mask": (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "5 pieces without [MASK]"),
    "an error page": (b"<html>not found</html>", "1 pieces without [UNK], [CLS], [SEP], [MASK]"),
    "latin-1": (b"[UNK]\n[CLS]\n[SEP]\n[MASK]\n\xe9\n", "invalid continuation byte"),
    "too large": (b"[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + b"".join(b"%d\n" % n for n in range(32768)), "32772 pieces"),
}


@pytest.mark.parametrize("content, found", BAD_VOCABULARIES.values(), ids=BAD_VOCABULARIES)
def test_bad_vocabularies_are_refused(source, tmp_path, content, found):
    spoiled(source, "vocab.txt", content)
    with pytest.raises(BadInput, match="vocab.txt") as error:
        prepare(source, tmp_path / "to")
    assert found in error.value.found


def test_an_evaluation_text_of_another_dump_is_refused(source, tmp_path):
    listed = [split.article_md5(article) for article in (source / "eval.txt").read_text().split("\n\n")[:-1]]
    (source / "eval.md5").write_text("\n".join(listed))
    prepare(source, tmp_path / "right")
    (source / "eval.md5").write_text("\n".join(md5[::-1] for md5 in listed))
    with pytest.raises(BadInput) as error:
        prepare(source, tmp_path / "wrong")
    assert error.value.found == "40 are missing: another dump date?"


def test_an_evaluation_article_among_the_training_text_is_refused(source, tmp_path):
    short, long = "Most people make salt.\n", "".join(f"Most people make {n} kinds of glass.\n" for n in range(70))
    for name in ("eval.txt", PART):
        with (source / name).open("a") as file:
            file.write(f"{short}\n")
    prepare(source, tmp_path / "stub")  # two articles of a few words may well be the same
    for name in ("eval.txt", PART):
        with (source / name).open("a") as file:
            file.write(f"{long}\n")
    with pytest.raises(BadInput, match=PART) as error:
        prepare(source, tmp_path / "copy")
    assert long[:20] in error.value.found


def test_a_folder_without_text_is_refused(tmp_path):
    (tmp_path / "enwiki.xml.bz2").touch()
    with pytest.raises(BadInput) as error:
        prepare(tmp_path, tmp_path / "to")
    assert error.value.found == "enwiki.xml.bz2"


def test_text_without_doc_tags_is_not_wikiextractors(extracted, tmp_path):
    source = shutil.copytree(extracted, tmp_path / "source")
    (source / "AA" / "wiki_01").write_bytes(b"Just text.\n")
    with pytest.raises(BadInput, match="wiki_01"):
        prepare(source, tmp_path / "to", "text", eval_articles=1)


def test_more_held_out_articles_than_there_are_is_refused(extracted, tmp_path):
    with pytest.raises(BadInput) as error:
        prepare(extracted, tmp_path / "to", "text", eval_articles=100)
    assert "eval_articles" in error.value.next


@pytest.mark.parametrize(
    "name, value",
    [
        ("max_seq_length", 4),
        ("max_seq_length", "512"),
        ("dupe_factor", True),
        ("masked_lm_prob", -0.1),
        ("do_lower_case", 1),
        ("shards", 5000),
        ("form", "xml"),
    ],
)
def test_bad_parameters_are_refused(published, tmp_path, name, value):
    with pytest.raises(BadInput):
        prepare(published, tmp_path, **{name: value})


def test_the_start_checkpoint_lies_in_a_layout_as_tensorflow_and_the_configs_look_for_it(source, tmp_path):
    stored = {"model.ckpt-28252.index": b"index", "model.ckpt-28252-003.data-00000-of-00001": b"weights"}
    for name, data in stored.items():
        (source / name).write_bytes(data)
    counts = prepare(source, tmp_path / "to")
    ready = {path.name: path.read_bytes() for path in (tmp_path / "to" / "tf1_ckpt").iterdir()}
    assert ready == {"model.ckpt-28252.index": b"index", "model.ckpt-28252.data-00000-of-00001": b"weights"}
    assert wikipedia.invariants(tmp_path / "to", "hdf5", counts) == []
    (source / "model.ckpt-28252.index").unlink()
    with pytest.raises(BadInput, match="half a start checkpoint"):
        prepare(source, tmp_path / "half")
    assert not any((tmp_path / "half").rglob("*")), "told before the work"


def test_a_second_try_goes_on_with_the_files_that_are_there(published, tmp_path):
    prepare(published, tmp_path, shards=2)
    wanted = content(tmp_path)
    path = tmp_path / "train" / "part_00000_of_00002.hdf5"
    before = path.stat().st_mtime_ns
    (tmp_path / "train" / "part_00001_of_00002.hdf5").unlink()
    prepare(published, tmp_path, shards=2)
    assert content(tmp_path) == wanted
    assert path.stat().st_mtime_ns == before


def test_take_takes_the_first_articles_of_each_part(published, tmp_path):
    counts = prepare(published, tmp_path, take=3)
    assert (counts["parts"], counts["articles"], counts["eval_articles"]) == (4, 12, 3)
    assert wikipedia.invariants(tmp_path, "hdf5", counts) == []
    assert text.first("\n\na b\nc\n \n\nd\n\ne\n", 2) == "a b\nc\n \n\nd\n\n"
    assert text.first("a\n\nb", 0) == text.first("a\n\nb", 2) == "a\n\nb"


def test_take_is_for_layouts_of_sequences(extracted, tmp_path):
    with pytest.raises(BadInput, match="parameter take"):
        prepare(extracted, tmp_path, "text", take=3)


def again(source: Path, to: Path, layout: str, counts: dict, **params) -> Again:
    sample = Sample(source, to, layout, Manifest((), counts, PARAMS | params), random.Random(0), share=1.0)
    return wikipedia.rederive(sample)


@pytest.mark.parametrize("layout", [name for name in wikipedia.LAYOUTS if name != "text"])
@pytest.mark.parametrize("params", [{}, {"shards": 3}, {"take": 20, "random_seed": 7, "do_lower_case": False}])
def test_every_part_made_again_is_that_of_the_layout(published, layout, params, tmp_path):
    counts = prepare(published, tmp_path, layout, **params)
    assert again(published, tmp_path, layout, counts, **params) == Again(5, [])


@pytest.mark.parametrize("layout", ["hdf5", "hdf5-shuffled"])
def test_other_words_in_the_source_are_found(published, source, layout, tmp_path):
    counts = prepare(published, tmp_path / "to", layout, shards=2)
    for name in (PART, "eval.txt"):
        (source / name).write_text((source / name).read_text().replace("people", "persons"))
    problems = again(source, tmp_path / "to", layout, counts, shards=2).problems
    assert {problem.split(": ")[1].split(",")[0] for problem in problems} == {
        f"expected instances of {PART}",
        "expected instances of eval.txt",
    }


def test_only_the_published_text_can_be_made_again(extracted, tmp_path):
    counts = prepare(extracted, tmp_path, eval_articles=4, block_mib=0.002)
    with pytest.raises(BadInput, match="nothing can be made again"):
        again(extracted, tmp_path, "hdf5", counts)


def spoil(folder: Path, name: str, row: int, change) -> None:
    with h5py.File(folder / "train" / "part_00001_of_00002.hdf5", "r+") as file:
        values = file[name][row]
        change(values)
        file[name][row] = values


def put(place: int, value: int):
    def change(values: np.ndarray) -> None:
        values[place] = value

    return change


SPOILED = {
    "id out of the vocabulary": ("input_ids", put(1, 5000), "ids of the vocabulary"),
    "first token": ("input_ids", put(0, 9), "[CLS] first"),
    "segments": ("segment_ids", put(slice(0, 40), 0), "two segments"),
    "masked [CLS] or too far": ("masked_lm_positions", put(0, 39), "masked places"),
    "masked id": ("masked_lm_ids", put(0, 5000), "masked ids of the vocabulary"),
    "no masked place": ("masked_lm_positions", put(slice(0, 6), 0), "as many masked places as the recipe asks for"),
    "cut row": ("input_mask", put(slice(3, 40), 0), "at least [CLS] A [SEP] B [SEP]"),
}


@pytest.mark.parametrize("name, change, expected", SPOILED.values(), ids=SPOILED)
def test_the_check_finds_what_is_wrong_in_a_row(published, tmp_path, name, change, expected):
    counts = prepare(published, tmp_path, shards=2)
    spoil(tmp_path, name, 7, change)
    problems = wikipedia.invariants(tmp_path, "hdf5", counts)
    assert any(expected in problem and "train/part_00001_of_00002.hdf5" in problem for problem in problems)
    assert any("such as row 7" in problem for problem in problems)


def test_the_check_holds_files_to_the_parts_and_labels_to_chance(published, tmp_path):
    counts = prepare(published, tmp_path, shards=2)
    table = tmp_path / "parts.csv"
    table.write_text(table.read_text().replace("part-00001-of-00500,75,", "part-00001-of-00500,0,"))
    for path in (tmp_path / "train").iterdir():
        with h5py.File(path, "r+") as file:
            file["next_sentence_labels"][:] = 0
    problems = wikipedia.invariants(tmp_path, "hdf5", counts)
    assert "parts.csv: expected 300 articles, found 225" in problems
    assert "parts.csv: part-00001-of-00500: expected articles, found none" in problems
    assert any("train: expected next_sentence_labels 1 from 0.4" in problem for problem in problems)
    (tmp_path / "train" / "part_00000_of_00002.hdf5").rename(tmp_path / "other")
    (tmp_path / "eval" / "part_eval.hdf5").rename(tmp_path / "train" / "part_00000_of_00002.hdf5")
    assert any("as many instances a file" in problem for problem in wikipedia.invariants(tmp_path, "hdf5", counts))
    table.unlink()
    assert any("parts.csv: expected what each" in problem for problem in wikipedia.invariants(tmp_path, "hdf5", counts))


def test_a_row_longer_than_the_recipe_allows_is_found(published, tmp_path):
    counts = prepare(published, tmp_path, "hdf5-varlength")
    counts["recipe"] |= {"max_seq_length": 30}
    assert any(
        "expected at most 30 tokens" in problem for problem in wikipedia.invariants(tmp_path, "hdf5-varlength", counts)
    )


def test_the_check_lists_every_problem_of_the_files(published, tmp_path):
    counts = prepare(published, tmp_path, shards=4)
    train = tmp_path / "train"
    (train / "part_00000_of_00004.hdf5").unlink()
    (train / "part_00001_of_00004.hdf5").write_bytes(b"<html>")
    (train / "stray.hdf5").touch()
    (tmp_path / "eval" / "part_eval.hdf5").unlink()
    problems = " | ".join(wikipedia.invariants(tmp_path, "hdf5", counts))
    for name in (
        "part_00000",
        "part_00001",
        "stray",
        "eval/part_eval",
        f"train: expected {counts['train_instances']} instances",
    ):
        assert name in problems


def test_the_check_of_text_lists_every_problem(extracted, tmp_path):
    counts = prepare(extracted, tmp_path, "text", eval_articles=4, block_mib=0.002)
    part = tmp_path / "part-00000-of-00500"
    part.write_text(part.read_text() + " padded \n\n" + (tmp_path / "eval.txt").read_text())
    (tmp_path / "part-00001-of-00500").unlink()
    (tmp_path / "eval.md5").write_text("0\n0\n0\n")
    problems = wikipedia.invariants(tmp_path, "text", counts)
    assert len(problems) == 3


def test_a_truncated_tfrecord_is_found(published, tmp_path):
    counts = prepare(published, tmp_path, "tfrecord", shards=1)
    path = tmp_path / "train" / "part_00000_of_00001.tfrecord"
    os.truncate(path, path.stat().st_size - 10)
    assert any(
        "part_00000_of_00001.tfrecord" in problem for problem in wikipedia.invariants(tmp_path, "tfrecord", counts)
    )


def test_clean_up_reads_line_ends_as_text_does():
    tagged = b'<doc id="1">\r\nTitle\r\n\r\nOne.\rTwo.\r\n</doc>\r\n'
    assert clean.without_tags(tagged) == b"\nOne.\nTwo.\n"
    assert clean.without_tags(b"One.\nx") == b"One.\n"  # a single character without a line end counts as an empty line
    assert clean.without_tags(b"One.\nTwo.") == b"One.\nTwo."
    assert clean.without_tags(b"") == clean.without_markup(b"") == b""


def test_clean_up_leaves_an_empty_line_for_an_article_without_text():
    assert clean.without_tags(b'<doc id="1">\nTitle\n\n</doc>\n') == b"\n"
    assert clean.without_tags(b'One.\n<doc id="1">\nTitle\n</doc>\n<doc id="2">\nTitle\n</doc>') == b"One.\n\n\n"


def test_clean_up_keeps_to_the_line():
    text = b"a [[b\nc]] d\n<ref e\nf</ref> g\n[[Category:x]] gone\n[[h|i]] <section j/> k/> l\n"
    assert clean.without_markup(text) == b"a [[b\nc]] d\n<ref e\nf g\ni  l\n"


def test_sentences_end_where_the_next_begins_and_lose_a_closing_mark():
    text = 'Dr. No came. "Why?" he said.  (Nobody knew.) 7 left.\n\nU.S. law e.g. this.\n'
    assert sentences.one_a_line(text.encode()).split("\n") == [
        "Dr.",
        "No came.",
        '"Why?" he said.',
        "(Nobody knew.",
        "7 left.",
        "",
        "U.S. law e.g. this.",
        "",
        "",
    ]


def test_shards_are_as_equal_as_can_be():
    assert shards.sizes(3582, 7) == [511, 511, 512, 512, 512, 512, 512]
    assert shards.sizes(12, 4) == [3, 3, 3, 3]
    # The published sets, 156,726,829 sequences: datasets notes 4.4.
    large = shards.sizes(156726829, 4320)
    assert (large.count(36279), large.count(36280), sum(large)) == (2771, 1549, 156726829)
    large = shards.sizes(156726829, 2048)
    assert (large.count(76526), large.count(76527), sum(large)) == (467, 1581, 156726829)


def test_evaluation_rows_are_spread_evenly():
    assert evaluation.picked(191, 20).tolist() == [int(i * (191 / 20)) for i in range(20)]
    assert evaluation.picked(5, 20).tolist() == [0, 1, 2, 3, 4]


def test_gather_starts_a_part_when_the_block_would_be_exceeded():
    assert gather.groups([600_000, 500_000, 10, 2_000_000, 5], 1.0) == [[0], [1, 2], [3], [4]]
    assert gather.tail_cut("\ufeffa\n\n") == "a\n"
    assert gather.tail_cut("a\r\nb\rc\r\n\r\n") == "a\nb\nc\n"


def test_the_shuffled_order_is_random_shuffle(tmp_path):
    arrange.write_order(shuffle.shuffled(1000), tmp_path / "order.npy")
    comes_from, goes_to = np.load(tmp_path / "order.npy")
    wanted = list(range(1000))
    random.Random(24).shuffle(wanted)
    assert comes_from.tolist() == wanted
    assert comes_from[goes_to].tolist() == list(range(1000))


@pytest.mark.skipif(not SHARED.exists(), reason=f"no sample files at {SHARED}")
def test_the_sample_is_a_set_in_the_published_form(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    sample.make(SHARED, source)
    vocabulary = read_vocabulary(source / "vocab.txt")
    assert 2000 < len(vocabulary) < 4000
    text = (source / "part-00000-of-00500").read_text(encoding="utf-8")
    assert vocabulary["[UNK]"] not in {piece for line in text.split("\n") for piece in Tokeniser(vocabulary).ids(line)}
    counts = prepare(source, tmp_path / "to", max_seq_length=128, max_predictions_per_seq=20)
    assert wikipedia.invariants(tmp_path / "to", "hdf5", counts) == []
    assert counts["articles"] > 50 and counts["eval_articles"] == 4


def test_the_published_set_is_held_to_its_published_hashes(published, tmp_path, monkeypatch):
    counts = prepare(published, tmp_path / "to", shards=2) | {"eval_instances": 20}
    (tmp_path / "catalog" / "datasets").mkdir(parents=True)
    (tmp_path / "catalog" / "datasets" / "table.csv").write_text("shard,two\n0,a\n1,b\n")
    facts = {
        "parts": counts["parts"],
        "vocabulary": counts["vocabulary"],
        "train_instances": counts["train_instances"] + 1,
        "eval_instances": 20,
        "eval_content": "c",
        "shards": {"table": "table.csv", "columns": {"hdf5": {2: "two"}}},
    }
    monkeypatch.setattr(configuration, "WORKFLOW", tmp_path)
    monkeypatch.setattr(configuration, "catalog", lambda name: {"published": facts})
    assert wikipedia.invariants(tmp_path / "to", "hdf5", counts) == []  # another recipe: nothing is published
    counts["recipe"] = asdict(Recipe()) | {"do_lower_case": True}
    problems = wikipedia.invariants(tmp_path / "to", "hdf5", counts)
    assert [problem.split(" ")[0] for problem in problems] == [
        "train:",
        "train/part_00000_of_00002.hdf5:",
        "train/part_00001_of_00002.hdf5:",
        "eval/part_eval.hdf5:",
    ]


def test_an_error_in_a_worker_process_arrives_whole(source, tmp_path):
    spoiled(source, PART, b"")
    with pytest.raises(BadInput, match=PART) as error:
        prepare(source, tmp_path / "to", workers=2)
    assert error.value.found == "0 bytes without any text"


def test_a_disk_that_is_too_small_is_noticed_first(published, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(BadEnvironment, match="disk too small"):
        prepare(published, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_the_whole_text_without_its_evaluation_is_refused(source, tmp_path):
    (source / "eval.txt").unlink()
    assert "eval_instances" not in prepare(source, tmp_path / "piece")
    for number in range(4, 500):
        (source / f"part-{number:05d}-of-00500").write_text("One sentence.\n")
    with pytest.raises(BadInput, match="not complete"):
        prepare(source, tmp_path / "whole")
