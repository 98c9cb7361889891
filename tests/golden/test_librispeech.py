"""LibriSpeech against the reference's own output: pysox 1.4.1 on SoX 14.4.2, sentencepiece, tokenize_transcripts.py."""

import json
import tarfile
from pathlib import Path

import pytest
import sentencepiece

from podium.data import librispeech
from podium.data.formats import flac
from podium.data.job import Job
from podium.files import hash_file

GOLDEN = Path(__file__).parents[2].parent / "shared" / "data" / "goldens" / "librispeech"
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason=f"no oracle data at {GOLDEN}")


@pytest.fixture(scope="module")
def expected() -> dict:
    return json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture(scope="module", params=["archives, 1 worker", "extracted, 3 workers", "archives, 1 worker, libsndfile"])
def prepared(request, tmp_path_factory, expected) -> Path:
    form, workers, *decoder = request.param.split(", ")
    source, to = GOLDEN, tmp_path_factory.mktemp("wav")
    if form == "extracted":
        source = tmp_path_factory.mktemp("extracted")
        for archive in GOLDEN.glob("*.tar.gz"):
            with tarfile.open(archive) as tar:
                tar.extractall(source, filter="data")
    params = {"vocab_size": expected["sentencepiece"]["parameters"]["vocab_size"], "pickle": True}
    with pytest.MonkeyPatch.context() as patch:
        if decoder:
            patch.setattr(flac, "miniaudio", None)
        counts = librispeech.prepare(Job(source, "wav", to, params, int(workers[0])))
    assert librispeech.invariants(to, "wav", counts) == []
    assert counts["sentencepiece"]["transcripts_sha256"] == expected["sentencepiece"]["input_text"]["sha256"]
    return to


def test_every_wav_is_what_sox_writes(prepared, expected):
    for subset, oracle in expected["subsets"].items():
        found = {
            path.relative_to(prepared).as_posix(): {"bytes": path.stat().st_size, "sha256": hash_file(path)}
            for path in prepared.glob(f"{subset}-wav/*/*/*")
        }
        assert found == oracle["wav"]


def test_every_list_is_what_pysox_writes(prepared, expected):
    for subset, oracle in expected["subsets"].items():
        path = prepared / f"librispeech-{subset}-wav.json"
        assert path.read_text() == (GOLDEN / "expected" / path.name).read_text()
        assert hash_file(path) == oracle["manifest_sorted_sha256"]


def test_sentencepieces_and_tokens_are_those_of_the_installed_version(prepared, expected):
    oracle = expected["sentencepiece"]["versions"].get(sentencepiece.__version__)
    if oracle is None:
        pytest.skip(f"no oracle for sentencepiece {sentencepiece.__version__}")
    model = prepared / "sentencepieces" / f"{expected['sentencepiece']['parameters']['model_prefix']}.model"
    assert hash_file(model.with_suffix(".vocab")) == oracle["vocab_sha256"]
    assert hash_file(model) == oracle["model_sha256"]
    for subset, tokens in oracle["tokenized"].items():
        assert hash_file(prepared / f"librispeech-{subset}-wav-tokenized.json") == tokens["content_sha256"]
        assert hash_file(prepared / tokens["pkl_file"]) == tokens["pkl_sha256_protocol4"]
