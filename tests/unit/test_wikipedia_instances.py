"""Wikipedia: tokens and instances against plain transcriptions of the reference's scripts, one step at a time."""

import random
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from podium.data.wikipedia import examples, layouts, text, unicode
from podium.data.wikipedia.instances import Recipe, build, shuffled
from podium.data.wikipedia.ragged import Instances, Ragged, joined
from podium.data.wikipedia.wordpiece import Tokeniser, Vocabulary, basic_tokens
from podium.errors import BadInput

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh.,'-()σς", *(f"##{c}" for c in "abcdefghσς")]
PIECES += ["the", "cat", "##ed", "be", "##ach", "bed", "中", "e", "ff"]
VOCABULARY = Vocabulary({piece: number for number, piece in enumerate(dict.fromkeys(PIECES))})

# Characters that the steps of the algorithm treat in different ways.
CHARACTERS = "abcdefgh ABCDEFGH.,'-()ÀéÅΣσς中\u3000\xa0\t\r\x0b\x1c\x85\u2028\u200b\u0301\ufffd\x00≠ﬁİ"


def slow_basic(line: str) -> list[str]:
    """clean, ideographs, white space, lower case, accents, punctuation: character by character."""
    cleaned = ""
    for char in line:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            cleaned += " "
        elif category not in ("Cc", "Cf") and char != "\ufffd":
            cleaned += f" {char} " if "\u4e00" <= char <= "\u9fff" else char
    tokens = []
    for word in cleaned.split():
        plain = [c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn"]
        for char in plain:
            mark = unicodedata.category(char).startswith("P") or char in "$+<=>^`|~"
            tokens.append(f" {char} " if mark else char)
        tokens.append(" ")
    return "".join(tokens).split()


def slow_pieces(word: str) -> list[str]:
    """The longest known piece first; the whole word is unknown if the rest is."""
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in VOCABULARY.ids:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces if len(word) <= 200 else ["[UNK]"]


@given(st.text(CHARACTERS, max_size=40))
@example("ΑΣ.Α ΑΣ-ΑΣ ΑΣ' ΑΣ")  # the final sigma is decided across punctuation
@example("a\x85b a\x1cb a\u2028b a\u200bb")
@example("the beached cat's bed" + "ab" * 101)
def test_tokens_are_those_of_the_slow_way(line):
    assert basic_tokens(line) == slow_basic(line)
    slow = [VOCABULARY[piece] for word in slow_basic(line) for piece in slow_pieces(word)]
    assert Tokeniser(VOCABULARY).ids(line) == slow


def test_the_cache_is_bounded_and_harmless(monkeypatch):
    monkeypatch.setattr("podium.data.wikipedia.wordpiece.CACHED_CHUNKS", 2)
    tokeniser = Tokeniser(VOCABULARY)
    line = "the cat, the bed. the beach"
    assert [tokeniser.ids(line) for _ in range(3)] == [Tokeniser(VOCABULARY).ids(line)] * 3
    assert len(tokeniser) <= 2


@pytest.mark.skipif(unicodedata.unidata_version != unicode.OURS, reason="the tables start from another version")
@pytest.mark.parametrize(
    "line, pieces",
    {
        "a\u1ac7b": {"14.0.0": "a ##b", "12.1.0": "[UNK]", "11.0.0": "[UNK]"},  # an accent since 14
        "a\U00013430b": {"14.0.0": "a ##b", "12.1.0": "a ##b", "11.0.0": "[UNK]"},  # a format character since 12
        "a\u2e52b": {"14.0.0": "a [UNK] b", "12.1.0": "[UNK]", "11.0.0": "[UNK]"},  # a mark since 13
        "a\u166db": {"14.0.0": "[UNK]", "12.1.0": "[UNK]", "11.0.0": "a [UNK] b"},  # a mark until 12
        "a\u1734b": {"14.0.0": "[UNK]", "12.1.0": "a ##b", "11.0.0": "a ##b"},  # an accent until 14
        "a\u0301b": {"14.0.0": "a ##b", "12.1.0": "a ##b", "11.0.0": "a ##b"},
    }.items(),
)
def test_characters_are_seen_as_the_asked_version_saw_them(line, pieces):
    for version, wanted in pieces.items():
        found = Tokeniser(VOCABULARY, unicode_version=version).ids(line)
        assert found == [VOCABULARY[piece] for piece in wanted.split()], version


def test_an_unknown_unicode_version_is_refused():
    with pytest.raises(BadInput, match="Unicode 9.0.0"):
        Tokeniser(VOCABULARY, unicode_version="9.0.0")


def test_cased_text_keeps_case_and_accents():
    assert basic_tokens("Ein Café", lower_case=False) == ["Ein", "Café"]


@given(st.integers(0, 600), st.integers(1, 80), st.integers(0, 2**32))
def test_the_short_shuffle_draws_and_orders_as_shuffle_does(count, wanted, seed):
    ours, theirs = random.Random(seed), random.Random(seed)
    items = list(range(count))
    theirs.shuffle(items)
    assert shuffled(list(range(count)), wanted, ours) == items[:wanted]
    assert ours.getstate() == theirs.getstate()


def slow_instances(documents: list[list[list[int]]], recipe: Recipe) -> list[tuple]:
    """create_pretraining_data.py with lists of ids that are copied, cut and shuffled as there."""
    rng, rows = random.Random(recipe.random_seed), []
    documents = list(documents)
    rng.shuffle(documents)
    for _ in range(recipe.dupe_factor):
        for index in range(len(documents)):
            rows += slow_document(documents, index, recipe, rng)
    rng.shuffle(rows)
    return rows


def slow_document(documents, index, recipe, rng) -> list[tuple]:
    document, longest = documents[index], recipe.max_seq_length - 3
    target = rng.randint(2, longest) if rng.random() < recipe.short_seq_prob else longest
    rows, chunk, i = [], [], 0
    while i < len(document):
        chunk.append(document[i])
        if i == len(document) - 1 or sum(map(len, chunk)) >= target:
            a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a, b = sum(chunk[:a_end], []), []
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != index:
                        break
                for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
                    b += sentence
                    if len(b) >= target - len(a):
                        break
                i -= len(chunk) - a_end
            else:
                b = sum(chunk[a_end:], [])
            while len(a) + len(b) > longest:
                (a if len(a) > len(b) else b).pop(0 if rng.random() < 0.5 else -1)
            rows.append(slow_masks(a, b, is_random, recipe, rng))
            chunk = []
        i += 1
    return rows


def slow_masks(a, b, is_random, recipe, rng) -> tuple:
    cls, sep = VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]
    row = [cls, *a, sep, *b, sep]
    places = [place for place, token in enumerate(row) if token not in (cls, sep)]
    rng.shuffle(places)
    wanted = min(recipe.max_predictions_per_seq, max(1, round(len(row) * recipe.masked_lm_prob)))
    masked, labels = list(row), {}
    for place in places[:wanted]:
        if rng.random() < 0.8:
            masked[place] = VOCABULARY["[MASK]"]
        elif rng.random() >= 0.5:
            masked[place] = rng.randint(0, len(VOCABULARY) - 1)
        labels[place] = row[place]
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    return masked, segments, sorted(labels), [labels[place] for place in sorted(labels)], int(is_random)


SENTENCES = st.lists(st.integers(5, len(VOCABULARY) - 1), min_size=1, max_size=25)
DOCUMENTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=8), min_size=1, max_size=6)
RECIPES = st.builds(
    Recipe,
    max_seq_length=st.integers(5, 64),
    max_predictions_per_seq=st.integers(1, 20),
    masked_lm_prob=st.floats(0, 0.5),
    random_seed=st.integers(0, 2**31),
    dupe_factor=st.integers(1, 3),
    short_seq_prob=st.floats(0, 1),
)


@settings(max_examples=60)
@given(DOCUMENTS, RECIPES)
def test_instances_are_those_of_the_slow_way(documents, recipe):
    found = build(corpus(documents), VOCABULARY, recipe)
    parts = (found.input_ids, found.segment_ids(), found.masked_lm_positions, found.masked_lm_ids)
    rows = zip(*(part.rows() for part in parts), found.next_sentence_labels, strict=True)
    assert [tuple(value.tolist() for value in row) for row in rows] == slow_instances(documents, recipe)


def corpus(documents: list[list[list[int]]]) -> text.Corpus:
    bounds, stream = [], []
    for document in documents:
        bounds.append([len(stream)])
        for sentence in document:
            stream += sentence
            bounds[-1].append(len(stream))
    return text.Corpus(np.array(stream, np.int16), bounds)


@pytest.fixture
def some() -> Instances:
    sentences = [[number % 20 + 5 for number in range(start, start + 9)] for start in range(8)]
    return build(corpus([sentences, sentences[::-1]]), VOCABULARY, Recipe(max_seq_length=24, max_predictions_per_seq=5))


@pytest.mark.parametrize("layout", layouts.LAYOUTS)
def test_what_a_layout_writes_it_reads_again(some, layout, tmp_path):
    form = layouts.LAYOUTS[layout]
    blocks = [some.take(np.arange(0, 7)), some.take(np.arange(7, len(some)))]
    form.write(tmp_path / "file", len(some), blocks, Recipe(max_seq_length=24, max_predictions_per_seq=5))
    found = joined(list(form.read(tmp_path / "file")))
    assert found.first_lengths.tolist() == some.first_lengths.tolist()
    assert found.next_sentence_labels.tolist() == some.next_sentence_labels.tolist()
    for name in ("input_ids", "masked_lm_positions", "masked_lm_ids"):
        rows, wanted = getattr(found, name).rows(), getattr(some, name).rows()
        assert [row.tolist() for row in rows] == [row.tolist() for row in wanted]


def test_rows_of_one_length_are_written_as_rows(tmp_path):
    """h5py takes equally long rows for a matrix when they are assigned."""
    row = Ragged.of(np.arange(20, dtype=np.int16), np.array([5, 5, 5, 5]))
    same = Instances(row, np.full(4, 3), row, row, np.zeros(4, np.int8))
    layouts.write_varlength(tmp_path / "file", 4, [same], Recipe())
    (found,) = layouts.read_varlength(tmp_path / "file")
    assert found.input_ids.padded(5).tolist() == np.arange(20).reshape(4, 5).tolist()


def test_an_example_is_the_protocol_buffer_of_its_features():
    row = Ragged.of(np.array([2, 300, 3, 20000, 3], np.int16), np.array([5]))
    mask = Ragged.of(np.array([1], np.int16), np.array([1]))
    label = Ragged.of(np.array([17000], np.int16), np.array([1]))
    one = Instances(row, np.array([3]), mask, label, np.array([1], np.int8))
    (record,) = examples.encode(one, Recipe(max_seq_length=6, max_predictions_per_seq=2))
    # entry 23 bytes: key "input_ids", Feature 14 bytes: int64_list 12 bytes: packed 2, 300, 3, 20000, 3, 0
    ids = (
        b"\x0a\x1a" + b"\x0a\x09input_ids" + b"\x12\x0d" + b"\x1a\x0b" + b"\x0a\x09\x02\xac\x02\x03\xa0\x9c\x01\x03\x00"
    )
    assert record[0] == 0x0A and record[3 : 3 + len(ids)] == ids
    assert {name: values.tolist() for name, values in examples.decode([record]).items()} == {
        "input_ids": [[2, 300, 3, 20000, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 0]],
        "masked_lm_positions": [[1, 0]],
        "masked_lm_ids": [[17000, 0]],
        "masked_lm_weights": [[1.0, 0.0]],
        "next_sentence_labels": [[1]],
    }


@given(st.lists(st.lists(st.integers(0, 2**15 - 1), max_size=6), min_size=1, max_size=6), st.data())
def test_ragged_rows(rows, data):
    ragged = Ragged.of_rows([np.array(row, np.int16) for row in rows])
    taken = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1))
    assert [row.tolist() for row in ragged.take(np.array(taken)).rows()] == [rows[number] for number in taken]
    assert ragged.padded(6).tolist() == [row + [0] * (6 - len(row)) for row in rows]
