"""The demo's LibriSpeech: the original's form, 240 utterances, the same bytes every time."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from podium.data.demo import librispeech

NAME = re.compile(r"LibriSpeech/([a-z0-9-]+)/(\d+)/(\d+)/(\2-\3-\d{4}\.flac|\2-\3\.trans\.txt)")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    librispeech.make(folder)
    return folder


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


@pytest.fixture(scope="module")
def subsets(made) -> dict[str, dict[str, bytes]]:
    return {archive.name.removesuffix(".tar.gz"): members(archive) for archive in made.iterdir()}


def transcripts(content: dict[str, bytes]) -> dict[str, str]:
    lines = [line for name, text in content.items() if name.endswith(".trans.txt") for line in text.splitlines()]
    return dict(line.decode().split(" ", 1) for line in lines)


def test_the_same_bytes_every_time(made, tmp_path):
    librispeech.make(tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["dev-clean.tar.gz", "train-clean-100.tar.gz"]
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (made / path.name).read_bytes()


def test_the_form_of_the_original(subsets):
    for subset, content in subsets.items():
        files = [name for name in content if name != "LibriSpeech/README.TXT"]
        assert all((match := NAME.fullmatch(name)) and match[1] == subset for name in files)
        assert {Path(name).stem for name in files if name.endswith(".flac")} == set(transcripts(content))
    assert {subset: len(transcripts(content)) for subset, content in subsets.items()} == {
        "train-clean-100": 192,
        "dev-clean": 48,
    }


def test_every_sound_is_16_khz_mono_16_bit_and_not_clipped(subsets):
    for content in subsets.values():
        for name in (name for name in content if name.endswith(".flac")):
            with soundfile.SoundFile(io.BytesIO(content[name])) as file:
                assert (file.format, file.samplerate, file.channels, file.subtype) == ("FLAC", 16_000, 1, "PCM_16")
                assert 0.5 < file.frames / 16_000 < 2.0
                assert 0.1 < np.abs(file.read()).max() < 0.99


def test_two_or_three_of_twelve_words_and_all_of_them_are_taught(subsets):
    said = {subset: transcripts(content).values() for subset, content in subsets.items()}
    assert {len(text.split()) for texts in said.values() for text in texts} == {2, 3}
    assert len(librispeech.WORDS) == 12
    for texts in said.values():
        assert {word for text in texts for word in text.split()} == set(librispeech.WORDS)


def test_speakers_of_training_and_evaluation_differ(subsets):
    speakers = [{name.split("/")[2] for name in content if name.endswith(".flac")} for content in subsets.values()]
    assert not set.intersection(*speakers)


@pytest.mark.parametrize("letter", "ABCDEFGH")
def test_a_letter_is_its_two_tones(letter):
    sound = librispeech.speak([letter], 1.0, np.random.default_rng(1))
    spectrum = np.abs(np.fft.rfft(sound))
    hertz = np.fft.rfftfreq(len(sound), 1 / 16_000)
    low, high = (hertz[(spectrum * (side)).argmax()] for side in (hertz < 1400, hertz > 1400))
    assert (low, high) == pytest.approx(librispeech.FORMANTS[letter], abs=15)
