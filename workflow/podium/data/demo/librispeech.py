"""A LibriSpeech of 240 generated utterances, in the form that OpenSLR distributes the real one.

Nothing here is speech. An utterance is two or three words, a word is its letters one after the other, and a letter
is two tones at once, as the first two formants tell the vowels apart. A small model learns it in seconds. The bytes
are the same on every call (with the same libsndfile and zlib): the seed is fixed and no time of day gets in.
"""

from __future__ import annotations

import gzip
import io
import itertools
import tarfile
from pathlib import Path

import numpy as np
import soundfile

from podium import files

SAMPLE_RATE = 16_000
WORDS = ["BAG", "BED", "BEACH", "CAB", "CAGE", "DEAF", "EDGE", "EGG", "FACE", "FEED", "HEAD", "HEDGE"]
FORMANTS = dict(zip("ABCDEFGH", itertools.product((320, 480, 720, 1080), (1700, 2700)), strict=True))  # Hz
LETTER_SECONDS = 0.07
SUBSETS = {"train-clean-100": (101, 102, 103, 104), "dev-clean": (201, 202)}  # subset: its speakers
CHAPTERS, UTTERANCES = 2, {"train-clean-100": 24, "dev-clean": 12}  # chapters of a speaker, utterances of a chapter
README = "Generated tones in the layout of LibriSpeech (OpenSLR SLR12), for a demonstration. This is not LibriSpeech.\n"


def make(to: Path) -> None:
    """Write `train-clean-100.tar.gz` (192 utterances) and `dev-clean.tar.gz` (48) into the folder `to`.

    As in the original (http://www.openslr.org/12): `LibriSpeech/<subset>/<speaker>/<chapter>/` holds
    `<speaker>-<chapter>-<number>.flac` (16 kHz, mono, 16 bit) and `<speaker>-<chapter>.trans.txt`.
    """
    for subset, speakers in SUBSETS.items():
        with (
            files.writing(to / f"{subset}.tar.gz") as raw,
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            _add(tar, "LibriSpeech/README.TXT", README.encode())
            for speaker in speakers:
                for chapter in range(speaker * 10 + 1, speaker * 10 + 1 + CHAPTERS):
                    _add_chapter(tar, subset, speaker, chapter)


def _add_chapter(tar: tarfile.TarFile, subset: str, speaker: int, chapter: int) -> None:
    folder, lines = f"LibriSpeech/{subset}/{speaker}/{chapter}", []
    pitch = np.random.default_rng(speaker).uniform(0.96, 1.04)
    random = np.random.default_rng(chapter)
    for number in range(UTTERANCES[subset]):
        name = f"{speaker}-{chapter}-{number:04d}"
        words = random.choice(WORDS, random.integers(2, 4))
        flac = io.BytesIO()
        soundfile.write(flac, speak(words, pitch, random), SAMPLE_RATE, format="FLAC", subtype="PCM_16")
        _add(tar, f"{folder}/{name}.flac", flac.getvalue())
        lines.append(f"{name} {' '.join(words)}\n")
    _add(tar, f"{folder}/{speaker}-{chapter}.trans.txt", "".join(lines).encode())


def speak(words: list[str], pitch: float, random: np.random.Generator) -> np.ndarray:
    """The words as tones: samples in (-1, 1) at 16 kHz, a letter and the gap between words about 70 ms each.

    `pitch` is the factor of a speaker's voice on all frequencies; tempo, loudness and noise are drawn here.
    """
    letter_samples = int(LETTER_SECONDS * random.uniform(0.9, 1.1) * SAMPLE_RATE)
    time = np.arange(letter_samples) / SAMPLE_RATE
    envelope = np.sin(np.pi * np.arange(letter_samples) / letter_samples) ** 0.5
    silence = np.zeros(letter_samples)
    pieces = [silence]
    for word in words:
        for letter in word:
            low, high = FORMANTS[letter]
            phase = random.uniform(0, 2 * np.pi, 2)
            tones = 0.3 * np.sin(2 * np.pi * low * pitch * time + phase[0])
            tones += 0.2 * np.sin(2 * np.pi * high * pitch * time + phase[1])
            pieces.append(envelope * tones)
        pieces.append(silence)
    sound = np.concatenate(pieces) * random.uniform(0.5, 1.5)
    return sound + random.normal(0, 0.003, len(sound))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # time 0, owner 0: the same bytes on every call
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
