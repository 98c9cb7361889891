"""From samples to what the network hears: 80 log-mel energies every 10 ms, normalised, masked and stacked.

The steps and numbers of the reference (rnnt/pytorch common/data/dali/pipeline.py, common/data/features.py), which
runs them in NVIDIA DALI; conventions of DALI (half-sample Hann window, energy window of the trimming) are kept.
"""

from __future__ import annotations

import bisect
import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

SAMPLE_RATE = 16_000
FFT_SIZE, WINDOW, HOP = 512, 320, 160  # samples: windows of 20 ms every 10 ms
MELS = 80
PRE_EMPHASIS = 0.97
SILENCE_DB, SILENCE_WINDOW = -60.0, 2048  # relative to the loudest window of so many samples
ENERGY_FLOOR = 1e-20
STACKED = 3  # frames side by side in one input of the network


def resample(samples: Tensor, factor: float) -> Tensor:
    """`factor` times as many samples of the same sound (band-limited, through the Fourier transform).

    Played at the old rate it is slower (factor > 1) or faster, and lower or higher: speed perturbation. The factor is
    met within 0.1 % (a second or more; 0.4 % of less), by lengths whose transforms are fast.
    """
    padded, count = _fast_lengths(len(samples), factor)
    longer = torch.fft.irfft(torch.fft.rfft(samples, padded), count) * (count / padded)
    return longer[: round(len(samples) * count / padded)]


def trim_silence(samples: Tensor) -> Tensor:
    """Without the lead-in and the tail whose energy is below -60 dB of the loudest part; silence stays whole."""
    window = min(SILENCE_WINDOW, len(samples))
    sums = F.pad(samples.double().square().cumsum(0), (1, 0))
    energy = sums[window:] - sums[:-window]
    loud = (energy >= energy.max() * 10 ** (SILENCE_DB / 10)).nonzero()
    return samples[int(loud[0]) : int(loud[-1]) + window]


def log_mel(samples: Tensor) -> Tensor:
    """Normalised features (frames, 80) of samples in (-1, 1); frames = 1 + samples // 160.

    Pre-emphasis, power spectrum, mel filters, natural logarithm; each mel band gets mean 0 and deviation 1 over the
    utterance. Needs more samples than half an FFT_SIZE.
    """
    samples = samples - PRE_EMPHASIS * F.pad(samples[None], (1, 0), mode="replicate")[0, :-1]
    spectrum = torch.stft(samples, FFT_SIZE, HOP, WINDOW, _window(), pad_mode="reflect", return_complex=True)
    power = spectrum.real.square() + spectrum.imag.square()
    features = (mel_filters() @ power).clamp(min=ENERGY_FLOOR).log()
    deviation, mean = torch.std_mean(features, 1, correction=0, keepdim=True)
    return ((features - mean) / deviation.clamp(min=1e-10)).T


@functools.cache
def mel_filters() -> Tensor:
    """Triangles (80, 257) of equal area, evenly spaced from 0 to 8 kHz on Slaney's mel scale."""
    edges = _mel_to_hertz(torch.linspace(0, _hertz_to_mel(SAMPLE_RATE / 2), MELS + 2, dtype=torch.float64))
    bins = torch.linspace(0, SAMPLE_RATE / 2, FFT_SIZE // 2 + 1, dtype=torch.float64)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = torch.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)).clamp(min=0)
    return (triangles * 2 / (right - left)).float()


def spec_augment(
    features: Tensor,
    lengths: Tensor,
    random: torch.Generator,
    freq_n: int,
    freq_min: int,
    freq_max: int,
    time_n: int,
    time_min: float,
    time_max: float,
) -> Tensor:
    """Blank out bands and stretches of time of features (batch, frames, mels) (Park et al. 2019).

    Each utterance gets `freq_n` bands of freq_min .. freq_max mels, and `time_n` stretches of time_min .. time_max of
    its own length; they begin anywhere in the padded batch where they fit.
    """
    _, frames, mels = features.shape
    bands = _draw(torch.full((freq_n, len(lengths)), freq_min), torch.tensor(freq_max), random)
    shortest, longest = ((share * lengths).round().long().expand(time_n, -1) for share in (time_min, time_max))
    stretches = _draw(shortest, longest, random)
    masked = _any_span(bands, mels, random)[:, None, :] | _any_span(stretches, frames, random)[:, :, None]
    return features.masked_fill(masked, 0.0)


def _draw(low: Tensor, high: Tensor, random: torch.Generator) -> Tensor:
    """An integer from low .. high, both included, for each of `low`."""
    return low + (torch.rand(low.shape, generator=random) * (high - low + 1)).long()


def _any_span(widths: Tensor, size: int, random: torch.Generator) -> Tensor:
    """Of `widths` (n, batch), each put somewhere in 0 .. size - 1: True (batch, size) where at least one lies."""
    first = _draw(torch.zeros_like(widths), size - widths, random)[..., None]
    place = torch.arange(size)
    return ((place >= first) & (place < first + widths[..., None])).any(0)


@functools.cache
def _window() -> Tensor:
    return 0.5 - 0.5 * torch.cos(2 * math.pi * (torch.arange(WINDOW) + 0.5) / WINDOW)


def _fast_lengths(length: int, factor: float) -> tuple[int, int]:
    """Two lengths with fast transforms whose ratio is nearest to `factor`, the first a few percent above `length`."""
    fast = _fast_up_to(2 ** math.ceil(math.log2(1.1 * max(factor, 1) * length)))
    before = fast[bisect.bisect_left(fast, length) : bisect.bisect_right(fast, 1.05 * length) + 1]
    after = [fast[bisect.bisect_left(fast, factor * size) - side] for size in before for side in (0, 1)]
    pairs = zip((size for size in before for _ in (0, 1)), after, strict=True)
    return min(pairs, key=lambda pair: abs(pair[1] / pair[0] - factor))


@functools.cache
def _fast_up_to(limit: int) -> list[int]:
    """The even numbers without a prime factor above 13: a real transform of odd length takes twice the time."""
    found = [2]
    for prime in (2, 3, 5, 7, 11, 13):
        found = [n * prime**k for n in found for k in range(int(math.log(limit / n, prime) + 1e-9) + 1)]
    return sorted(found)


# Slaney's scale: linear below 1 kHz (15 mels), above it 27 mels for every factor of 6.4.
def _hertz_to_mel(hertz: float) -> float:
    return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)


def _mel_to_hertz(mel: Tensor) -> Tensor:
    return (mel * 200 / 3).where(mel < 15, 1000 * 6.4 ** ((mel - 15) / 27))
