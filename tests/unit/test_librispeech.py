"""LibriSpeech: formats, conversion, every kind of bad input, resumption, and the checks afterwards."""

import gzip
import io
import json
import os
import random
import struct
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from podium.data import librispeech
from podium.data.again import Again, Sample
from podium.data.formats import flac, wav
from podium.data.job import Job
from podium.data.librispeech.convert import Utterance, is_silent
from podium.data.samples import librispeech as sample
from podium.errors import BadInput
from podium.files import walk
from podium.manifest import Manifest

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sample_data"
WORDS = ["THE", "OLD", "CLOCK", "STRUCK", "TWELVE", "AND", "NOBODY", "CAME", "DOWN", "TO", "OPEN", "A", "HEAVY", "DOOR"]
PARAMS = {"vocab_size": 28}
MD5 = slice(26, 42)


def encoded(samples: int = 4000, seed: int = 0, rate: int = 16000, channels: int = 1) -> bytes:
    """A FLAC file of noise."""
    pcm = np.random.default_rng(seed).integers(-3000, 3000, (samples, channels), dtype=np.int16)
    file = io.BytesIO()
    soundfile.write(file, pcm, rate, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def tree(utterances: int = 6) -> dict[str, bytes]:
    """Path and content of a small LibriSpeech: one chapter in dev-clean, two in train-clean-100."""
    content = {}
    for chapter, (subset, folder) in enumerate(
        [("dev-clean", "7/70"), ("train-clean-100", "8/80"), ("train-clean-100", "19/190")]
    ):
        prefix, lines = folder.replace("/", "-"), ""
        for number in range(utterances):
            name = f"{prefix}-{number:04d}"
            seed = 100 * chapter + number
            content[f"LibriSpeech/{subset}/{folder}/{name}.flac"] = encoded(2000 + seed, seed)
            lines += f"{name} {' '.join(WORDS[number % 9 :])}\n"
        content[f"LibriSpeech/{subset}/{folder}/{prefix}.trans.txt"] = lines.encode()
    return content


TRAIN = "LibriSpeech/train-clean-100/8/80/8-80"


def write_tree(content: dict[str, bytes], to: Path) -> Path:
    for name, data in content.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(data)
    return to


def tar(content: dict[str, bytes] | list[tuple[str, bytes]], subset: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, data in content.items() if isinstance(content, dict) else content:
            if f"/{subset}/" in name:
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


def write_archives(content: dict[str, bytes], to: Path) -> Path:
    to.mkdir(parents=True, exist_ok=True)
    for subset in ("dev-clean", "train-clean-100"):
        (to / f"{subset}.tar.gz").write_bytes(gzip.compress(tar(content, subset), 1))
    return to


def prepare(source: Path, to: Path, workers: int = 2, **params: object) -> dict:
    return librispeech.prepare(Job(source, "wav", to, PARAMS | params, workers))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): (folder / path).read_bytes() for path in walk(folder)}


def refused(content: dict[str, bytes], tmp_path: Path) -> str:
    """What `prepare` says about a tree that it must refuse."""
    with pytest.raises(BadInput) as error:
        prepare(write_tree(content, tmp_path / "source"), tmp_path / "to")
    return str(error.value)


# formats


def test_wav_header_is_that_of_the_standard_library():
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((2, 2, 8000, 0, "NONE", ""))
        writer.writeframes(bytes(4 * 1234))
    assert wav.split(file.getvalue()) == (wav.header(1234, 8000, channels=2), bytes(4 * 1234))
    assert wav.file_bytes(1234, channels=2) == len(file.getvalue())


def test_flac_says_what_it_holds():
    info = flac.stream_info(encoded(12345, rate=22050, channels=2))
    assert (info.rate, info.channels, info.bits, info.samples, info.has_md5) == (22050, 2, 16, 12345, True)


@pytest.fixture(params=["dr_flac", "libsndfile"])
def decoder(request, monkeypatch):
    """Each of the two decoders."""
    if request.param == "libsndfile":
        monkeypatch.setattr(flac, "miniaudio", None)
    elif flac.miniaudio is None:
        pytest.skip("miniaudio is not installed")


def test_flac_decodes_to_the_same_samples(decoder):
    pcm = np.array([0, 1, -1, 32767, -32768] * 300, dtype=np.int16)
    file = io.BytesIO()
    soundfile.write(file, pcm, 16000, format="FLAC", subtype="PCM_16")
    assert np.array_equal(flac.decode(file.getvalue()), pcm)


@pytest.mark.parametrize("samples, bitrate", [(1, 5890000), (100, 312000), (11264, 257000), (11265, 256000)])
def test_bitrate_is_rounded_as_soxi_does(samples, bitrate):
    """11264 samples are 256.5 kbit/s: SoX 14.4.2 prints 257k, because it divides by 0.704 s."""
    assert Utterance("", "", samples, False).bitrate == bitrate


@pytest.mark.parametrize("samples, duration", [(1, 6.3e-05), (171, 0.010688), (186560, 11.66)])
def test_duration_has_six_decimals_as_soxi_prints(samples, duration):
    assert Utterance("", "", samples, False).duration == duration


@pytest.mark.parametrize("magnitude, silent", [(3275150, True), (3275170, False)])
def test_silence_is_where_sox_rounds_the_mean_to_a_thousandth(magnitude, silent):
    """pysox on SoX 14.4.2 called the first of these two files of 100,000 samples silent and the second not."""
    pcm = np.full(100_000, 32, dtype=np.int16)
    pcm[: magnitude - 3_200_000] += 1
    pcm[::2] *= -1
    assert is_silent(pcm) is silent


def test_the_loudest_sample_is_not_silent():
    assert not is_silent(np.full(500, -32768, dtype=np.int16))


# preparation


def test_form_and_workers_do_not_change_a_byte(decoder, tmp_path):
    archives, extracted = write_archives(tree(), tmp_path / "archives"), write_tree(tree(), tmp_path / "tree")
    counts = [
        prepare(archives, tmp_path / "a", 1),
        prepare(archives, tmp_path / "b", 3),
        prepare(extracted, tmp_path / "c"),
    ]
    assert counts[0] == counts[1] == counts[2]
    assert contents(tmp_path / "a") == contents(tmp_path / "b") == contents(tmp_path / "c")
    assert counts[0]["utterances"] == 18
    assert counts[0]["subsets"]["dev-clean"]["utterances"] == 6
    assert librispeech.invariants(tmp_path / "a", "wav", counts[0]) == []


def test_the_list_is_json_with_an_indent_of_two(tmp_path):
    prepare(write_tree(tree(), tmp_path / "source"), tmp_path / "to")
    text = (tmp_path / "to" / "librispeech-train-clean-100-wav.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2)
    names = [entry["files"][0]["fname"] for entry in json.loads(text)]
    assert names == sorted(names)
    assert names[0] == "train-clean-100-wav/19/190/19-190-0000.wav"


def test_windows_line_ends_give_the_same_bytes(tmp_path):
    content = tree()
    prepare(write_tree(content, tmp_path / "lf"), tmp_path / "a")
    content = {n: d.replace(b"\n", b"\r\n") if n.endswith(".txt") else d for n, d in content.items()}
    prepare(write_tree(content, tmp_path / "crlf"), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_a_flac_without_md5_is_converted(decoder, tmp_path):
    content = tree()
    with_md5 = content[f"{TRAIN}-0000.flac"]
    content[f"{TRAIN}-0000.flac"] = with_md5[: MD5.start] + bytes(16) + with_md5[MD5.stop :]
    prepare(write_tree(tree(), tmp_path / "with"), tmp_path / "a")
    prepare(write_tree(content, tmp_path / "without"), tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_pickles_only_when_asked_for(tmp_path):
    source = write_tree(tree(), tmp_path / "source")
    prepare(source, tmp_path / "a")
    prepare(source, tmp_path / "b", pickle=True)
    added = contents(tmp_path / "b").keys() - contents(tmp_path / "a").keys()
    assert added == {f"librispeech-{subset}-wav-tokenized.pkl" for subset in ("dev-clean", "train-clean-100")}


def test_what_is_whole_is_kept_and_what_is_torn_is_made_again(tmp_path):
    source, to = write_tree(tree(), tmp_path / "source"), tmp_path / "to"
    prepare(source, to)
    whole = contents(to)
    kept, torn, strange = sorted(to.glob("train-clean-100-wav/*/*/*.wav"))[:3]
    os.utime(kept, (1, 1))
    torn.write_bytes(torn.read_bytes()[:-1000])
    strange.write_bytes(strange.read_bytes()[:-2] + b"\1\2")
    prepare(source, to)
    assert contents(to) == whole
    assert kept.stat().st_mtime == 1


def test_take_takes_the_first_utterances_of_each_subset_whatever_the_form(tmp_path):
    archives, extracted = write_archives(tree(), tmp_path / "archives"), write_tree(tree(), tmp_path / "tree")
    counts = prepare(archives, tmp_path / "a", take=4)
    assert counts == prepare(extracted, tmp_path / "b", take=4)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    names = sorted(path.stem for path in (tmp_path / "a").glob("*/*/*/*.wav"))
    assert names == [f"19-190-000{number}" for number in range(4)] + [f"7-70-000{number}" for number in range(4)]
    assert librispeech.invariants(tmp_path / "a", "wav", counts) == []


# bad input


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no LibriSpeech"):
        prepare(tmp_path, tmp_path / "to")


def test_a_source_without_training_subset_is_refused(tmp_path):
    content = {name: data for name, data in tree().items() if "dev-clean" in name}
    assert "no training subset" in refused(content, tmp_path)


def test_an_empty_subset_is_refused(tmp_path):
    (tmp_path / "source" / "LibriSpeech" / "train-clean-100").mkdir(parents=True)
    assert "no audio" in refused({}, tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda packed: packed[: len(packed) // 2], id="truncated"),
        pytest.param(lambda packed: packed[:-9], id="truncated in the last block"),
        pytest.param(lambda packed: packed[:-8] + b"\0\0\0\0" + packed[-4:], id="wrong CRC"),
        pytest.param(lambda packed: packed[:-4] + b"\0\0\0\0", id="wrong length"),
        pytest.param(lambda packed: b"<!DOCTYPE html><html><title>404 Not Found</title></html>", id="error page"),
        pytest.param(lambda packed: b"", id="empty"),
        pytest.param(lambda packed: gzip.compress(gzip.decompress(packed)[:-12000]), id="tar cut before packing"),
        pytest.param(lambda packed: gzip.compress(gzip.decompress(packed).rstrip(b"\0")), id="tar without its end"),
        pytest.param(lambda packed: gzip.compress(b"\1" + gzip.decompress(packed)[1:]), id="damaged tar header"),
    ],
)
def test_a_damaged_archive_is_refused(damage, tmp_path):
    source = write_archives(tree(), tmp_path / "source")
    archive = source / "train-clean-100.tar.gz"
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(BadInput, match="train-clean-100.tar.gz is damaged"):
        prepare(source, tmp_path / "to")


def test_an_archive_under_a_wrong_name_is_refused(tmp_path):
    source = write_archives(tree(), tmp_path / "source")
    (source / "train-clean-100.tar.gz").rename(source / "train-clean-360.tar.gz")
    with pytest.raises(BadInput, match="holds another subset"):
        prepare(source, tmp_path / "to")


def test_an_archive_that_points_outside_is_refused(tmp_path):
    source = write_archives(tree(), tmp_path / "source")
    packed = tar({"LibriSpeech/train-clean-100/../../evil.flac": encoded()}, "train-clean-100")
    (source / "train-clean-100.tar.gz").write_bytes(gzip.compress(packed))
    with pytest.raises(BadInput, match="holds another subset"):
        prepare(source, tmp_path / "to")
    assert not list(tmp_path.rglob("evil*"))


def test_a_file_twice_in_an_archive_is_refused(tmp_path):
    source = write_archives(tree(), tmp_path / "source")
    members = [*tree().items(), (f"{TRAIN}-0003.flac", encoded())]
    (source / "train-clean-100.tar.gz").write_bytes(gzip.compress(tar(members, "train-clean-100")))
    with pytest.raises(BadInput, match="8/80/8-80-0003: twice"):
        prepare(source, tmp_path / "to")


@pytest.mark.parametrize(
    "change, found",
    [
        ({"/8/80/8-80-0002.flac": None}, "8/80/8-80-0002: transcript without audio"),
        ({"/8/80/8-80.trans.txt": None}, "8/80/8-80-0005: audio without transcript"),
        ({"/8/80/8-80.trans.txt": b"8-80-0000 A\n8-80-0000 B\n"}, "8/80/8-80-0000: two transcripts"),
        ({"/8/80/8-80.trans.txt": b"8-80-0000\n"}, "'8-80-0000' is not an id and words"),
        ({"/8/80/8-80.trans.txt": b"8-80-0000 CAF\xe9\n"}, "8/80/8-80.trans.txt: 'utf-8' codec"),
        ({"/19/190/8-80-0001.flac": encoded()}, "8-80-0001: in 2 chapters"),
        ({"/8/80/8-80-0001.flac": encoded(rate=8000)}, "8/80/8-80-0001: 1 channels of 16 bits at 8000 Hz"),
        ({"/8/80/8-80-0001.flac": encoded(channels=2)}, "8/80/8-80-0001: 2 channels of 16 bits at 16000 Hz"),
        ({"/8/80/8-80-0001.flac": encoded(0)}, "8/80/8-80-0001: "),
        ({"/8/80/8-80-0001.flac": b""}, "8/80/8-80-0001: no FLAC"),
        ({"/8/80/8-80-0001.flac": b"<html>404</html>"}, "8/80/8-80-0001: no FLAC"),
        ({"/8/80/8-80-0001.flac": encoded()[:-500]}, "8/80/8-80-0001: does not decode"),
    ],
)
def test_audio_and_transcripts_that_do_not_fit_are_refused(change, found, decoder, tmp_path):
    content = tree() | {f"LibriSpeech/train-clean-100{name}": data for name, data in change.items()}
    assert found in refused({name: data for name, data in content.items() if data is not None}, tmp_path)


def test_samples_that_do_not_have_the_md5_are_refused(decoder, tmp_path):
    content = tree()
    data = content[f"{TRAIN}-0001.flac"]
    content[f"{TRAIN}-0001.flac"] = data[: MD5.start] + bytes(range(16)) + data[MD5.stop :]
    assert "8/80/8-80-0001: the samples do not have the md5" in refused(content, tmp_path)


def test_a_flipped_bit_in_a_flac_without_md5_is_refused(decoder, tmp_path):
    content = tree()
    data = bytearray(content[f"{TRAIN}-0001.flac"])
    data[MD5] = bytes(16)
    data[len(data) // 2] ^= 1
    assert "8/80/8-80-0001: does not decode" in refused(content | {f"{TRAIN}-0001.flac": bytes(data)}, tmp_path)


def test_every_offender_is_named_not_only_the_first(tmp_path):
    content = tree() | {f"{TRAIN}-0001.flac": b"", f"{TRAIN}-0004.flac": b"no"}
    del content[f"{TRAIN}-0005.flac"]
    message = refused(content, tmp_path)
    assert all(f"8/80/8-80-000{number}: " in message for number in (1, 4, 5))


@pytest.mark.parametrize(
    "params",
    [
        *({"vocab_size": value} for value in ("200", 100_000, 3)),
        {"pickle": "yes"},
        {"character_coverage": 0.5},
        {"model_type": "bytes"},
        {"bos_id": True},
        {"eos_id": 0},
    ],
)
def test_a_wrong_parameter_is_refused(params, tmp_path):
    with pytest.raises(BadInput, match="parameter|sentencepieces"):
        prepare(write_tree(tree(), tmp_path / "source"), tmp_path / "to", **params)


def test_text_with_fewer_pieces_than_the_benchmarks_has_all_of_its_own(tmp_path):
    source = write_tree(tree(), tmp_path / "source")
    counts = librispeech.prepare(Job(source, "wav", tmp_path / "to", {}))
    most = counts["sentencepiece"]["vocab_size"]
    assert most == 28
    assert (tmp_path / "to" / "sentencepieces" / f"librispeech{most}.vocab").read_text().count("\n") == most
    assert librispeech.invariants(tmp_path / "to", "wav", counts) == []
    with pytest.raises(BadInput, match="sentencepieces cannot be trained"):
        prepare(source, tmp_path / "more", vocab_size=most + 1)


def test_the_sentencepieces_are_trained_with_the_options_that_are_given(tmp_path):
    source = write_tree(tree(), tmp_path / "source")
    options = {"vocab_size": 20, "character_coverage": 0.98, "model_type": "char", "bos_id": 1, "eos_id": 2}
    counts = prepare(source, tmp_path / "to", **options)
    assert {name: counts["sentencepiece"][name] for name in options} == options
    vocabulary = (tmp_path / "to" / "sentencepieces" / "librispeech20.vocab").read_text().split("\n")
    assert [line.partition("\t")[0] for line in vocabulary[:3]] == ["<unk>", "<s>", "</s>"]


# checks


@pytest.fixture
def prepared(tmp_path) -> tuple[Path, dict]:
    return tmp_path / "to", prepare(write_tree(tree(), tmp_path / "source"), tmp_path / "to")


def test_all_damage_to_a_layout_is_listed(prepared):
    folder, counts = prepared
    (folder / "dev-clean-wav/7/70/7-70-0001.wav").unlink()
    short = folder / "dev-clean-wav/7/70/7-70-0002.wav"
    short.write_bytes(short.read_bytes()[:-2])
    (folder / "dev-clean-wav/7/70/7-70-0099.wav").write_bytes(b"")
    path = folder / "librispeech-train-clean-100-wav-tokenized.json"
    entries = json.loads(path.read_text())
    entries[0]["tokenized_transcript"] = entries[0]["tokenized_transcript"][1:]
    entries[1]["tokenized_transcript"] = [28]
    path.write_text(json.dumps(entries))
    text = "\n".join(librispeech.invariants(folder, "wav", counts))
    assert "dev-clean-wav/7/70/7-70-0001.wav: expected 4046 bytes, found no file" in text
    assert "dev-clean-wav/7/70/7-70-0002.wav: expected 4048 bytes, found 4046" in text
    assert "dev-clean-wav/7/70/7-70-0099.wav: expected in the list of dev-clean, found only on disk" in text
    assert "train-clean-100-wav.json: expected" in text and " tokens, found" in text
    assert "train-clean-100-wav/19/190/19-190-0000.wav: expected tokens of 'the old clock" in text
    assert "train-clean-100-wav/19/190/19-190-0001.wav: expected tokens of 'old clock" in text


def test_facts_headers_pickles_and_training_text_are_held_to_each_other(tmp_path):
    folder = tmp_path / "to"
    counts = prepare(write_tree(tree(), tmp_path / "source"), folder, pickle=True)
    assert librispeech.invariants(folder, "wav", counts) == []
    loud = folder / "dev-clean-wav/7/70/7-70-0003.wav"
    loud.write_bytes(loud.read_bytes().replace(b"\x80\x3e\0\0", b"\x40\x1f\0\0", 1))  # 8000 Hz
    (folder / "librispeech-dev-clean-wav-tokenized.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    path = folder / "librispeech-train-clean-100-wav.json"
    path.write_text(path.read_text().replace('"the old clock', '"one old clock', 1))
    text = "\n".join(librispeech.invariants(folder, "wav", counts))
    assert "7-70-0003.wav: expected the header of 16-bit mono at 16000 Hz" in text
    assert (
        "librispeech-dev-clean-wav-tokenized.pkl: expected what is in librispeech-dev-clean-wav-tokenized.json" in text
    )
    assert "train-*: expected transcripts with sha256" in text
    path.write_text(path.read_text().replace('"bitdepth": 16', '"bitdepth": 24', 1))
    assert "with other facts than those of" in "\n".join(librispeech.invariants(folder, "wav", counts))


# made again


def again(source: Path, to: Path, counts: dict) -> Again:
    sample = Sample(source, to, "wav", Manifest((), counts, PARAMS), random.Random(0), share=1.0)
    return librispeech.rederive(sample)


def test_every_utterance_made_again_is_that_of_the_layout(tmp_path):
    archives, extracted = write_archives(tree(), tmp_path / "archives"), write_tree(tree(), tmp_path / "tree")
    counts = prepare(archives, tmp_path / "to")
    assert again(archives, tmp_path / "to", counts) == again(extracted, tmp_path / "to", counts) == Again(18, [])


def test_another_recording_or_transcript_in_the_source_is_found(tmp_path):
    counts = prepare(write_tree(tree(), tmp_path / "source"), tmp_path / "to")
    content = tree() | {f"{TRAIN}-0001.flac": encoded(5000, 7)}
    content[f"{TRAIN}.trans.txt"] = content[f"{TRAIN}.trans.txt"].replace(b"8-80-0003 STRUCK", b"8-80-0003 HIT")
    del content[f"{TRAIN}-0005.flac"]
    problems = again(write_tree(content, tmp_path / "other"), tmp_path / "to", counts).problems
    assert "8-80-0001.wav: expected the samples of the FLAC file, found others" in problems
    assert any(problem.startswith("8-80-0003.wav: expected the words 'hit twelve") for problem in problems)
    assert any(problem.startswith("8-80-0003.wav: expected the tokens [") for problem in problems)
    assert "8/80/8-80-0005.wav: expected an utterance of train-clean-100 in the source, found none" in problems
    assert {problem.partition(".")[0].rpartition("/")[2] for problem in problems} == {
        "8-80-0001",
        "8-80-0003",
        "8-80-0005",
    }


@pytest.mark.parametrize("content", ["", "[]", "{}", '[{"files": []}]', "[1, 2, 3, 4, 5, 6]"])
def test_a_list_that_is_none_is_said_so(content, prepared):
    folder, counts = prepared
    (folder / "librispeech-dev-clean-wav.json").write_text(content)
    problems = librispeech.invariants(folder, "wav", counts)
    assert len(problems) == 1
    assert problems[0].startswith("librispeech-dev-clean-wav-tokenized.json: expected the utterances of")


def test_lost_utterances_and_a_lost_model_are_said(prepared):
    folder, counts = prepared
    for name in ("librispeech-dev-clean-wav.json", "librispeech-dev-clean-wav-tokenized.json"):
        (folder / name).write_text(json.dumps(json.loads((folder / name).read_text())[1:]))
    (folder / "sentencepieces" / "librispeech28.model").unlink()
    text = "\n".join(librispeech.invariants(folder, "wav", counts))
    assert "librispeech-dev-clean-wav.json: expected 6 utterances, found 5" in text
    assert "sentencepieces/librispeech28.model: expected a sentencepiece model" in text


def test_an_utterance_in_two_subsets_is_said(tmp_path):
    content = tree()
    for name in [name for name in content if "/8/80/" in name]:
        content[name.replace("train-clean-100", "train-clean-360")] = content[name]
    counts = prepare(write_tree(content, tmp_path / "source"), tmp_path / "to")
    problems = librispeech.invariants(tmp_path / "to", "wav", counts)
    assert len(problems) == 6
    assert problems[0] == (
        "train-clean-360-wav/8/80/8-80-0000.wav: expected in one subset, found in train-clean-100 too"
    )


# sample


@pytest.mark.skipif(not SHARED.exists(), reason=f"no sample files at {SHARED}")
def test_the_sample_is_prepared_like_the_published_set(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        sample.make(SHARED, tmp_path / name)
    assert contents(tmp_path / "first") == contents(tmp_path / "second")
    counts = prepare(tmp_path / "first", tmp_path / "to", vocab_size=100)
    assert librispeech.invariants(tmp_path / "to", "wav", counts) == []
    assert {name: subset["utterances"] for name, subset in counts["subsets"].items()} == {
        "dev-clean": 2,
        "train-clean-100": 36,
    }
    pcm = soundfile.read(SHARED / "librispeech" / "2412-153948-0000.flac", dtype="int16")[0]
    made = (tmp_path / "to" / "dev-clean-wav/2412/153948/2412-153948-0000.wav").read_bytes()
    assert made[wav.HEADER_BYTES :] == pcm.tobytes()
    assert struct.unpack("<I", made[40:44]) == (2 * len(pcm),)


def test_a_missing_sample_file_is_named(tmp_path):
    with pytest.raises(BadInput, match="sample files are missing"):
        sample.make(tmp_path, tmp_path / "to")
