"""Wikipedia against the reference's own output: clean-up, split, tokenisation, instances, NVIDIA's HDF5 tools."""

import hashlib
import json
import random
import shutil
import unicodedata
from pathlib import Path

import h5py
import numpy as np
import pytest

from podium.data import wikipedia
from podium.data.job import Job
from podium.data.wikipedia import check, clean, gather, layouts, options, split, text
from podium.data.wikipedia.instances import build
from podium.data.wikipedia.ragged import Instances, joined
from podium.data.wikipedia.wordpiece import Tokeniser, basic_tokens, read_vocabulary

GOLDEN = Path(__file__).parents[2].parent / "shared" / "data" / "goldens" / "wikipedia"
if not GOLDEN.exists():
    pytest.skip(f"no oracle data at {GOLDEN}", allow_module_level=True)
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())
TOKENS = json.loads((GOLDEN / "expected" / "tokenization.json").read_text())


def md5(content: str | bytes) -> str:
    return hashlib.md5(content.encode() if isinstance(content, str) else content).hexdigest()


def content_hash(rows) -> str:
    """NVIDIA's hash of rows."""
    return md5(str([md5(str(row.tolist())) for row in rows]))


def input_file(name: str) -> Path:
    return next(path for path in (GOLDEN / "text" / name, GOLDEN / "expected" / name) if path.exists())


def made_with_this_unicode(name: str) -> bool:
    """Whether the expected values hold here: part-00005 consists of characters that differ between versions."""
    return "00005" not in name or unicodedata.unidata_version == "14.0.0"


def folder_of(names: list[str], to: Path) -> Path:
    for name in names:
        shutil.copyfile(input_file(name), to / name)
    shutil.copyfile(GOLDEN / "vocab.txt", to / "vocab.txt")
    return to


@pytest.mark.parametrize("name", EXPECTED["raw"])
def test_clean_up(name):
    expected = EXPECTED["cleanup"][name]
    without_tags = clean.without_tags((GOLDEN / "raw" / name).read_bytes())
    assert md5(without_tags) == expected["cleanup_file .1"]["md5"]
    assert md5(clean.without_markup(without_tags)) == expected["clean.sh .2"]["md5"]


def test_split_and_gather():
    raw = sorted((GOLDEN / "raw").iterdir())
    expected = EXPECTED["separate_test_set"]
    train, held_out = [], []
    for number, path in enumerate(raw):
        content = (GOLDEN / "text" / f"{path.name}.3").read_bytes().decode()
        found = split.split(content, number, len(raw), expected["num_test_articles"])
        assert md5(found.train) == expected["outputs"][f"{path.name}.4"]["md5"]
        train.append(gather.tail_cut(found.train))
        held_out += found.evaluation
    assert [split.article_md5(article) for article in held_out] == expected["eval_md5_lines"]
    groups = gather.groups([path.stat().st_size for path in raw], EXPECTED["gather"]["block_size_MiB"])
    parts = {gather.NAME.format(part): "".join(train[number] for number in group) for part, group in enumerate(groups)}
    assert {name: md5(content) for name, content in parts.items()} == {
        name: output["md5"] for name, output in EXPECTED["gather"]["outputs"].items()
    }


def test_the_text_layout_holds_the_gathered_parts(tmp_path):
    expected = EXPECTED["separate_test_set"]
    params = {"form": "wikiextractor", "block_mib": EXPECTED["gather"]["block_size_MiB"]}
    params["eval_articles"] = expected["num_test_articles"]
    counts = wikipedia.prepare(Job(GOLDEN, "text", tmp_path, params, workers=2))
    assert wikipedia.invariants(tmp_path, "text", counts) == []
    files = {path.name: md5(path.read_bytes()) for path in tmp_path.iterdir()}
    wanted = EXPECTED["gather"]["outputs"] | {name: expected["outputs"][name] for name in ("eval.txt", "eval.md5")}
    assert files == {name: output["md5"] for name, output in wanted.items()} | {
        "vocab.txt": md5((GOLDEN / "vocab.txt").read_bytes())
    }


@pytest.mark.parametrize("name", [name for name in TOKENS if name.startswith("part-")])
def test_tokenisation(name):
    if not made_with_this_unicode(name):
        pytest.skip(f"expected values are for Unicode 14.0.0, not {unicodedata.unidata_version}")
    tokeniser = Tokeniser(read_vocabulary(GOLDEN / "vocab.txt"))
    lines = [line.strip() for line in input_file(name).read_bytes().decode().split("\n")]
    lines = lines[: TOKENS[name]["lines"]]
    assert content_hash(np.array(tokeniser.ids(line), int) for line in lines) == TOKENS[name]["ids_hash"]
    words = "\n".join(" ".join(basic_tokens(line)) for line in lines)
    assert hashlib.sha256(words.encode()).hexdigest() == TOKENS[name]["basic_tokens_sha256"]


def instances_of(names: str, vocabulary: Path, params: dict) -> Instances:
    recipe, chosen, _ = options.chosen(params)
    tokeniser = Tokeniser(read_vocabulary(vocabulary), chosen.do_lower_case)
    lines = [line.strip() for name in names.split("+") for line in text.read(input_file(name)).split("\n")]
    return build(text.corpus_of(lines, tokeniser), tokeniser.vocabulary, recipe)


def hashes(found: Instances, expected: dict) -> dict:
    """The same facts of `found` as those in an expected entry."""
    params, facts = expected["params"], {"instances": len(found)}
    length, predictions = params["max_seq_length"], params["max_predictions_per_seq"]
    rows = {
        "input_ids": (found.input_ids, length),
        "input_mask": (found.input_mask(), length),
        "segment_ids": (found.segment_ids(), length),
        "masked_lm_positions": (found.masked_lm_positions, predictions),
        "masked_lm_ids": (found.masked_lm_ids, predictions),
    }
    facts["padded"] = {name: content_hash(ragged.padded(width)) for name, (ragged, width) in rows.items()}
    facts["varlen"] = {name: content_hash(ragged.rows()) for name, (ragged, _) in rows.items() if name != "input_mask"}
    facts["next_sentence_labels_md5"] = md5(str(found.next_sentence_labels.tolist()))
    facts["tokens_unpadded"] = int(found.input_ids.lengths.sum())
    facts["masked_positions"] = int(found.masked_lm_positions.lengths.sum())
    facts["nsp_random_next"] = int(found.next_sentence_labels.sum())
    return {name: facts[name] for name in facts if name in expected}


@pytest.mark.parametrize("expected", EXPECTED["pretraining"], ids=lambda entry: f"{entry['input']} {len(entry)}")
def test_instances(expected):
    if not made_with_this_unicode(expected["input"]):
        pytest.skip(f"expected values are for Unicode 14.0.0, not {unicodedata.unidata_version}")
    vocabulary = GOLDEN / expected.get("vocab", "vocab.txt").split()[0]
    found = hashes(instances_of(expected["input"], vocabulary, expected["params"]), expected)
    assert len(found) >= 4
    assert found == {name: expected[name] for name in found}


@pytest.mark.parametrize("expected", EXPECTED["eval_pick"], ids=lambda entry: entry["num_examples_to_pick"])
@pytest.mark.parametrize("layout", ["hdf5", "hdf5-varlength", "tfrecord"])
def test_evaluation_samples(expected, layout, tmp_path):
    (tmp_path / "source").mkdir()
    params = expected["params"] | {"eval_samples": expected["num_examples_to_pick"]}
    to = tmp_path / "to"
    wikipedia.prepare(Job(folder_of([expected["input"]], tmp_path / "source"), layout, to, params))
    form = layouts.LAYOUTS[layout]
    path = to / form.eval_name
    found = hashes(joined(list(form.read(path))), expected)
    assert found == {name: expected[name] for name in found}
    if layout == "tfrecord":
        assert path.stat().st_size == expected["mlcommons_tfrecord_bytes"]


TFRECORDS = [entry for entry in EXPECTED["pretraining"] if "mlcommons_tfrecord" in entry]


@pytest.mark.parametrize("expected", TFRECORDS, ids=lambda entry: entry["input"])
def test_tfrecord_size(expected, tmp_path):
    """The order of a map's entries is free in the format; the size and the content are not."""
    found = instances_of(expected["input"], GOLDEN / "vocab.txt", expected["params"])
    recipe, _, _ = options.chosen(expected["params"])
    layouts.write_tfrecord(tmp_path / "file", len(found), [found], recipe)
    assert (tmp_path / "file").stat().st_size == expected["mlcommons_tfrecord"]["bytes"]
    read_again = joined(list(layouts.read_tfrecord(tmp_path / "file")))
    assert hashes(read_again, expected)["padded"] == expected["padded"]


@pytest.fixture(scope="module", params=EXPECTED["chop"], ids=lambda entry: f"{entry['shards']} shards")
def chopped(request, tmp_path_factory) -> tuple[dict, Path, dict]:
    expected = request.param
    source = folder_of(expected["inputs"], tmp_path_factory.mktemp("source"))
    return expected, source, expected["params"] | {"shards": expected["shards"]}


def file_hashes(path: Path) -> dict:
    with h5py.File(path) as file:
        found = {name: content_hash(file[name][:]) for name in file if file[name].dtype == object}
        return found | {"next_sentence_labels_md5": md5(str(file["next_sentence_labels"][:].tolist()))}


def test_fixed_shards(chopped, tmp_path):
    expected, source, params = chopped
    wikipedia.prepare(Job(source, "hdf5", tmp_path, params))
    for shard in expected["fixed_and_varlen"]:
        with h5py.File(tmp_path / "train" / shard["file"]) as file:
            assert content_hash(file["input_ids"][:]) == shard["fixed_input_ids"]
            assert len(file["next_sentence_labels"]) == shard["instances"]


def test_varlength_shards(chopped, tmp_path):
    expected, source, params = chopped
    wikipedia.prepare(Job(source, "hdf5-varlength", tmp_path, params))
    assert len(list((tmp_path / "train").iterdir())) == expected["shards"]
    for shard in expected["fixed_and_varlen"]:
        path = tmp_path / "train" / shard["file"]
        assert file_hashes(path) == shard["varlen"]
        rows = [row for block in layouts.read_varlength(path) for row in check.row_hashes(block)]
        assert md5(str(rows)) == shard["varlen"]["input_ids"]


def test_shuffled_shards(chopped, tmp_path):
    expected, source, params = chopped
    wikipedia.prepare(Job(source, "hdf5-shuffled", tmp_path, params, workers=2))
    for shard in expected["shuffle"]["shards"]:
        found = file_hashes(tmp_path / "train" / f"{shard['file']}5")
        assert found == {name: shard[name] for name in found}
    for listed in expected["shuffle"]["index_lists"]:
        content = (tmp_path / "indices" / listed["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == listed["sha256"]


def test_the_expected_shuffle_is_the_one_of_the_rule():
    """Guards the reading of the oracle: the lists above come from Random(24) over all pairs."""
    expected = EXPECTED["chop"][0]
    pairs = [[shard, row] for shard, size in enumerate(expected["shard_sizes"]) for row in range(size)]
    random.Random(24).shuffle(pairs)
    listed = json.dumps(pairs[: expected["shard_sizes"][0]])
    assert hashlib.sha256(listed.encode()).hexdigest() == expected["shuffle"]["index_lists"][0]["sha256"]
