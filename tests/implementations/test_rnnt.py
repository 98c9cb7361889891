"""The rnnt implementation against independent formulas, brute force and the official checker.

Needs the implementations' Python (torch, mlperf_logging, sentencepiece).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from implementations.implementation import CONTAINERS, accepted, config, convergence_points, modules, processes, records

torch = pytest.importorskip("torch", reason="needs the implementations' environment")
sentencepiece = pytest.importorskip("sentencepiece")

FOLDER = CONTAINERS / "rnnt"

with modules(FOLDER) as rnnt:
    model, loss, decode, optim, features = rnnt.model, rnnt.loss, rnnt.decode, rnnt.optim, rnnt.features
    data, loader, settings, train = rnnt.data, rnnt.loader, rnnt.settings, rnnt.train
World = rnnt.common.distributed.World


@pytest.fixture(autouse=True)
def _one_thread_one_seed(monkeypatch):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    for name, module in ("loader", loader), ("model", model):  # what loader workers send is pickled by these names
        monkeypatch.setitem(sys.modules, name, module)


def small_model(symbols: int = 5, inputs: int = 6, dropout: float = 0.2) -> torch.nn.Module:
    return model.Transducer(symbols, inputs, 8, 1, 2, 2, 7, 2, 9, dropout, dropout, dropout, 1.0)


# The network


def test_the_reference_network_has_its_number_of_parameters():
    assert sum(p.numel() for p in model.Transducer().parameters()) == 49_006_080


def test_initial_values_of_an_lstm():
    lstm = model.LSTM(3, 4, 2, 0.1, 0.5).layers
    for layer in (0, 1):
        assert (getattr(lstm, f"bias_ih_l{layer}")[4:8] == 0.5).all()  # forget gate: 1, then scaled like the rest
        assert (getattr(lstm, f"bias_hh_l{layer}")[4:8] == 0.0).all()
        for kind in ("weight_ih", "weight_hh"):
            largest = getattr(lstm, f"{kind}_l{layer}").abs().max()
            assert 0.15 < largest <= 0.5 / 4**0.5  # torch draws from +-1 / sqrt(hidden), halved


def test_stacking_puts_neighbours_side_by_side_and_pads_the_end():
    x = torch.arange(5.0)[:, None, None] + torch.tensor([0.0, 10.0])[None, :, None]  # (5, 2, 1)
    assert model.stack_frames(x, 2)[:, 0].tolist() == [[0, 1], [2, 3], [4, 0]]
    assert model.stack_frames(x, 2)[:, 1].tolist() == [[10, 11], [12, 13], [14, 0]]


def logits_of(net, x, lengths, labels) -> tuple[torch.Tensor, torch.Tensor]:
    """(batch, frames, labels + 1, symbols) and the frames of each utterance, as training computes them."""
    encoded, frames = net.encode(x, lengths)
    predicted, _ = net.predict(torch.nn.functional.pad(net.embedding(labels.T), (0, 0, 0, 0, 1, 0)))
    return net.joint(encoded[:, :, None], predicted[:, None]), frames


def test_padding_does_not_change_the_logits_of_an_utterance():
    net = small_model().eval()
    x, labels = torch.randn(9, 2, 6), torch.randint(4, (2, 3))
    logits, frames = logits_of(net, x, torch.tensor([9, 5]), labels)
    alone, _ = logits_of(net, x[:5, 1:], torch.tensor([5]), labels[1:, :2])
    assert frames.tolist() == [5, 3]
    torch.testing.assert_close(logits[1:, :2, :3], alone[:, :2])  # the third frame reaches into the padding


def test_training_sees_the_logits_that_decoding_sees():
    net = small_model().eval()
    x, labels = torch.randn(8, 1, 6), torch.tensor([[2, 0, 3]])
    logits, _ = logits_of(net, x, torch.tensor([8]), labels)
    encoded, _ = net.encode(x, torch.tensor([8]))
    last, state = torch.zeros(1, 1, 7), None  # the start of a sentence
    for u in range(4):
        predicted, state = net.predict(last, state)
        torch.testing.assert_close(logits[0, :, u], net.joint(encoded[0], predicted[0, 0]))
        last = net.embedding(labels[:, u : u + 1]) if u < 3 else None


def test_groups_have_at_most_so_many_places_and_fit_their_longest():
    frames, labels = [50, 40, 30, 30, 2], [9, 3, 9, 1, 0]
    assert loader.groups(frames, labels, 1200) == [(0, 2, 50, 9), (2, 5, 30, 9)]
    assert loader.groups(frames, labels, 10_000) == [(0, 5, 50, 9)]
    assert loader.groups(frames, labels, 1) == [
        (i, i + 1, t, u) for i, (t, u) in enumerate(zip(frames, labels, strict=True))
    ]


def loss_and_gradients(net, places: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Of one batch whose joint network computes at most so many places at once."""
    torch.manual_seed(3)
    x, lengths = torch.randn(12, 4, 6), torch.tensor([12, 9, 8, 3])
    labels, counts = torch.randint(4, (4, 3)), torch.tensor([3, 3, 1, 2])
    net.zero_grad()
    value = loss.transducer_loss(*net(x, lengths, labels, loader.groups([6, 5, 4, 2], counts.tolist(), places)), counts)
    value.backward()
    return value.detach(), [weight.grad.clone() for weight in net.parameters()]


@pytest.mark.parametrize("places", [1, 40])
def test_groups_change_neither_loss_nor_gradients(places):
    net = small_model(dropout=0.0)
    torch.testing.assert_close(loss_and_gradients(net, places), loss_and_gradients(net, 10_000))


def test_what_is_computed_again_drops_out_the_same(monkeypatch):
    net = small_model()
    computed_again = loss_and_gradients(net, 40)
    monkeypatch.setattr(model, "checkpoint", lambda function, *parts, use_reentrant: function(*parts))
    torch.testing.assert_close(computed_again, loss_and_gradients(net, 40))


# The loss


def brute_force(log_probabilities: np.ndarray, labels: list[int], blank: int) -> float:
    """Minus the logarithm of the probability of all alignments, walked one by one."""
    frames, total = len(log_probabilities), -np.inf
    for emitting in itertools.combinations_with_replacement(range(frames), len(labels)):  # the frame of each label
        walked, done = 0.0, 0
        for t in range(frames):
            for _ in range(emitting.count(t)):
                walked += log_probabilities[t, done, labels[done]]
                done += 1
            walked += log_probabilities[t, done, blank]
        total = np.logaddexp(total, walked)
    return -total


def transducer_loss(logits, labels, frames, counts, blank) -> torch.Tensor:
    return loss.transducer_loss(*loss.log_probabilities(logits, labels, blank), frames, counts)


def test_the_loss_is_the_sum_over_all_alignments():
    logits = torch.randn(4, 5, 5, 4, dtype=torch.float64) * 2
    labels = torch.tensor([[0, 1, 2, 2], [2, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    frames, counts = torch.tensor([5, 3, 1, 4]), torch.tensor([4, 3, 1, 0])
    expected = [
        brute_force(one.log_softmax(-1)[:t].numpy(), spoken[:u].tolist(), 3)
        for one, spoken, t, u in zip(logits, labels, frames, counts, strict=True)
    ]
    assert transducer_loss(logits, labels, frames, counts, 3).item() == pytest.approx(np.mean(expected), abs=1e-12)


def test_the_gradient_of_the_loss_is_its_slope():
    logits = torch.randn(2, 4, 3, 4, dtype=torch.float64, requires_grad=True)
    labels, frames, counts = torch.tensor([[0, 1], [2, 0]]), torch.tensor([4, 2]), torch.tensor([2, 1])
    assert torch.autograd.gradcheck(lambda x: transducer_loss(x, labels, frames, counts, 3), logits)


def test_the_loss_is_finite_in_bfloat16_and_for_certain_logits():
    logits = torch.full((1, 60, 31, 8), -80.0)
    logits[..., 7] = 80.0
    labels = torch.zeros(1, 30, dtype=torch.long)
    sure = transducer_loss(logits.bfloat16(), labels, torch.tensor([60]), torch.tensor([30]), 7)
    assert sure.dtype == torch.float32
    # 30 labels at -160 each, on any of the ways to put 30 labels before 60 blanks with a blank last
    ways = np.log(np.arange(60.0, 90.0)).sum() - np.log(np.arange(1.0, 31.0)).sum()
    assert sure.item() == pytest.approx(30 * 160 - ways, rel=1e-5)


# Decoding and the word error rate


def plain_greedy(net, encoded, frames, max_symbols, per_frame) -> list[int]:
    """One utterance, one symbol at a time, as the reference's loop does it."""
    labels, state = [], None
    for t in range(frames):
        if len(labels) > max_symbols:
            break
        for _ in range(per_frame):
            last = net.embedding(torch.tensor([[labels[-1]]])) if labels else torch.zeros(1, 1, 7)
            predicted, after = net.predict(last, state)
            symbol = net.joint(encoded[t], predicted[0, 0]).argmax().item()
            if symbol == net.blank:
                break
            labels.append(symbol)
            state = after
    return labels


@pytest.mark.parametrize(("max_symbols", "per_frame"), [(300, 30), (6, 30), (300, 2), (3, 3)])
def test_a_batch_decodes_like_one_utterance_after_the_other(max_symbols, per_frame):
    lengths_seen = set()
    for seed in range(6):
        torch.manual_seed(seed)
        net = small_model().eval()
        with torch.no_grad():
            net.joint_encoder.weight *= 10  # decided enough to emit sometimes, and to stop sometimes
            net.joint_predictor.weight *= 10
            net.joint_output.bias[net.blank] += 0.3
            x, lengths = torch.randn(12, 4, 6), torch.tensor([12, 7, 1, 10])
            encoded, frames = net.encode(x, lengths)
            expected = [
                plain_greedy(net, one, t, max_symbols, per_frame) for one, t in zip(encoded, frames, strict=True)
            ]
        assert decode.greedy(net, encoded, frames, max_symbols, per_frame) == expected
        lengths_seen |= {len(labels) for labels in expected}
    assert len(lengths_seen) > 3 and max(lengths_seen) > 3  # the cases say something


@pytest.mark.parametrize(
    ("hypothesis", "reference", "edits"),
    [
        ("bad cab", "bad cab", 0),
        ("", "bad cab", 2),
        ("bad cab", "", 2),
        ("bad bed cab", "bad cab", 1),
        ("cab", "bad cab", 1),
        ("bed cab", "bad cab", 1),
        ("cab bad", "bad cab", 2),
        ("a b c d", "b c d e f", 3),
        ("bad  cab", "badcab", 2),
    ],
)
def test_word_edits(hypothesis, reference, edits):
    assert decode.word_edits(hypothesis, reference) == edits


# The optimiser


def test_lamb_is_the_formula():
    random = np.random.default_rng(3)
    shapes = [(4, 3), (5,), (2, 2)]
    w = [random.normal(size=shape) for shape in shapes]
    w[2] = np.zeros((2, 2))  # no norm: moves by the plain update
    m, v = [np.zeros(s) for s in shapes], [np.zeros(s) for s in shapes]
    weights = [torch.tensor(x) for x in w]
    moments = optim.start(weights)
    b1, b2, eps, decay, rate = 0.9, 0.999, 1e-9, 1e-3, 0.01
    for t in (1, 2, 3):
        g = [random.normal(size=shape) for shape in shapes]
        optim.lamb(weights, [torch.tensor(x) for x in g], moments, rate, b1, b2, eps, decay)
        for i in range(len(shapes)):
            m[i] = b1 * m[i] + (1 - b1) * g[i]
            v[i] = b2 * v[i] + (1 - b2) * g[i] ** 2
            u = m[i] / (1 - b1**t) / (np.sqrt(v[i] / (1 - b2**t)) + eps) + decay * w[i]
            size, step = np.sqrt((w[i] ** 2).sum()), np.sqrt((u**2).sum())
            w[i] = w[i] - rate * (size / step if size and step else 1) * u
            np.testing.assert_allclose(weights[i].numpy(), w[i], rtol=1e-10, atol=1e-14)


def test_clipping_scales_all_tensors_together():
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    optim.clip(gradients, 10.0)
    assert [g.tolist() for g in gradients] == [[3.0, 0.0], [[4.0]]]
    optim.clip(gradients, 1.0)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), torch.tensor([0.6, 0.0, 0.8]))


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 2 / 21),  # warm-up: 2 epochs of 10 steps
        (19, 20 / 21),
        (20, 1.0),  # hold: 3 epochs
        (50, 1.0),  # the last step of epoch 5
        (51, 0.5),  # epoch 6
        (60, 0.5),
        (61, 0.25),
        (141, 0.001),  # 0.5 ** 10 is less than the minimum
    ],
)
def test_learning_rate(step, rate):
    assert optim.learning_rate(step, 10, 1.0, 2, 3, 0.5, 0.001) == pytest.approx(rate)


def test_the_average_follows_the_weights():
    averages, weights = [torch.tensor([1.0])], [torch.tensor([2.0])]
    optim.update_average(averages, weights, 0.75)
    assert averages[0].item() == 1.25


# The features


def numpy_features(samples: np.ndarray) -> np.ndarray:
    """(frames, 80) in float64, window by window."""
    emphasised = samples - 0.97 * np.concatenate([samples[:1], samples[:-1]])
    padded = np.pad(emphasised, 160, mode="reflect")
    window = np.sin(np.pi * (np.arange(320) + 0.5) / 320) ** 2
    power = np.array(
        [
            np.abs(np.fft.rfft(padded[i * 160 : i * 160 + 320] * window, 512)) ** 2
            for i in range(1 + len(samples) // 160)
        ]
    )
    step = np.log(6.4) / 27  # Slaney, Auditory Toolbox: 200/3 Hz a mel up to 1 kHz, then 27 mels for a factor of 6.4
    mels = np.linspace(0, 15 + np.log(8000 / 1000) / step, 82)
    hertz = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(step * (mels - 15)))
    bins = np.arange(257) * 16000 / 512
    filters = [
        np.interp(bins, hertz[i : i + 3], [0, 2 / (hertz[i + 2] - hertz[i]), 0], left=0, right=0) for i in range(80)
    ]
    logs = np.log(np.maximum(power @ np.array(filters).T, 1e-20))
    return (logs - logs.mean(0)) / logs.std(0)


def test_features_are_the_formula():
    samples = np.random.default_rng(5).normal(0, 0.1, 16_050) * np.hanning(16_050)
    ours = features.log_mel(torch.tensor(samples, dtype=torch.float32)).numpy()
    assert ours.shape == (101, 80)
    np.testing.assert_allclose(ours, numpy_features(samples), atol=2e-3)


@pytest.mark.parametrize("factor", [0.85, 1.0, 1.1313])
def test_resampling_is_band_limited(factor):
    random, time = np.random.default_rng(2), np.arange(20_011.0)
    waves = [(random.uniform(0, 0.8 * np.pi), random.uniform(0, 6)) for _ in range(5)]  # radians a sample, phase

    def sound(at):
        return np.exp(-(((at - 10_000) / 2500) ** 2)) * sum(np.sin(pitch * at + phase) for pitch, phase in waves)

    ours = features.resample(torch.tensor(sound(time)), factor).numpy()
    padded, count = features._fast_lengths(len(time), factor)
    assert abs(count / padded - factor) < 0.001 and len(ours) == round(20_011 * count / padded)
    np.testing.assert_allclose(ours, sound(np.arange(len(ours)) * padded / count), atol=1e-6)


def test_fast_lengths_have_small_factors_and_come_near_the_factor():
    random = np.random.default_rng(4)
    for length, factor in zip(random.integers(16_000, 300_000, 200), random.uniform(0.85, 1.15, 200), strict=True):
        padded, count = features._fast_lengths(int(length), factor)
        assert length <= padded <= 1.06 * length and abs(count / padded - factor) <= 0.001
        assert padded % 2 == count % 2 == 0  # a real transform of odd length takes twice the time
        for prime in (2, 3, 5, 7, 11, 13):
            while padded % prime == 0:
                padded //= prime
            while count % prime == 0:
                count //= prime
        assert (padded, count) == (1, 1)


def test_a_slower_tone_is_a_lower_tone():
    second = torch.sin(2 * torch.pi * 1000 * torch.arange(16_000) / 16_000)
    slow = features.resample(second, 1.25)
    peak = torch.fft.rfft(slow).abs().argmax().item() * 16_000 / len(slow)
    assert (len(slow), peak) == (20_000, 800.0)


def test_trimming_cuts_the_silence_at_both_ends():
    silence, tone = torch.full((9000,), 1e-5), 0.5 * torch.sin(torch.arange(5000.0))
    kept = features.trim_silence(torch.cat([silence, tone, silence, tone, silence]))
    margin = features.SILENCE_WINDOW
    assert 19_000 <= len(kept) <= 19_000 + 2 * margin
    assert (kept.abs() > 0.1).sum() == 2 * (tone.abs() > 0.1).sum()  # nothing of the tones is lost
    for whole in (torch.zeros(3000), tone, tone[:100]):
        assert len(features.trim_silence(whole)) == len(whole)


def test_masks_have_their_number_and_width():
    ones, lengths = torch.ones(400, 120, 80), torch.arange(400) % 101 + 20
    random = torch.Generator().manual_seed(4)
    options = {"freq_n": 0, "freq_min": 0, "freq_max": 20, "time_n": 0, "time_min": 0.0, "time_max": 0.1}
    banded = features.spec_augment(ones, lengths, random, **options | {"freq_n": 1})
    bands = (banded[:, 0] == 0).sum(1)
    assert (banded == banded[:, :1]).all() and set(bands.tolist()) == set(range(21))
    assert (banded[:, 0, 0] == 0).any() and (banded[:, 0, -1] == 0).any()

    timed = features.spec_augment(ones, lengths, random, **options | {"time_n": 1})
    widths, limits = (timed[:, :, 0] == 0).sum(1), (0.1 * lengths).round()
    assert (timed == timed[:, :, :1]).all() and (widths <= limits).all() and (widths == limits).any()
    both = features.spec_augment(ones, lengths, random, **options | {"freq_n": 2, "time_n": 10})
    assert (both == 0).any(2).any(1).all() and ((both == 0) | (both == 1)).all()
    assert (features.spec_augment(ones, lengths, random, **options) == 1).all()


# The order of an epoch


def test_an_epoch_has_every_utterance_once_but_a_random_rest():
    seconds = list(np.random.default_rng(1).uniform(1, 16, 103))
    orders = [data.epoch_order(seconds, 8, 1, np.random.default_rng([7, epoch])) for epoch in (1, 2)]
    for order in orders:
        assert order.shape == (12, 8) and len(set(order.flatten().tolist())) == 96
    assert set(orders[0].flatten()) != set(orders[1].flatten())
    assert (data.epoch_order(seconds, 8, 1, np.random.default_rng([7, 1])) == orders[0]).all()


def test_buckets_keep_equal_lengths_together():
    seconds = list(np.random.default_rng(1).permutation(np.arange(96.0)))
    spread = {
        buckets: np.mean([np.ptp(np.take(seconds, batch)) for batch in data.epoch_order(seconds, 8, buckets, random)])
        for buckets, random in ((1, np.random.default_rng(3)), (6, np.random.default_rng(3)))
    }
    assert spread[6] <= 16 < spread[1]


def utterances(count: int) -> list:
    seconds = np.random.default_rng(1).uniform(1, 16, count)
    return [data.Utterance(Path(f"{i}.wav"), seconds[i], (0,)) for i in range(count)]


def test_processes_share_out_every_global_batch():
    said, options = utterances(103), settings.Settings(global_batch_size=12, max_epochs=2)
    whole = [key.indices for key in loader.training_keys(said, options, 7, slice(0, 1, 1))]
    shared = [list(loader.training_keys(said, options, 7, slice(rank, 6, 3))) for rank in range(3)]  # two parts each
    assert [len(keys) for keys in shared] == [2 * len(whole)] * 3 == [2 * 8 * 2] * 3
    for rank, keys in enumerate(shared):
        for number, batch in enumerate(whole):
            mine = keys[2 * number].indices, keys[2 * number + 1].indices
            assert mine == (batch[rank::6], batch[rank + 3 :: 6])  # so this process has every third utterance
    assert [key.epoch for key in shared[0]] == [1] * 16 + [2] * 16


@pytest.mark.parametrize(("count", "processes"), [(103, 3), (2, 8), (103, 1)])
def test_every_utterance_is_evaluated_once(count, processes):
    said = utterances(count)
    keys = [loader.evaluation_keys(said, 8, rank, processes) for rank in range(processes)]
    assert sorted(i for mine in keys for key in mine for i in key.indices) == list(range(count))
    assert {key for mine in keys for key in mine} == set(loader.evaluation_keys(said, 8, 0, 1))
    assert max(map(len, keys)) - min(map(len, keys)) <= 1


# Configs


@pytest.mark.parametrize("name", ["1xH200", "8xH100", "8xH200", "8xA100", "multi-node"])
def test_configs_take_their_values_from_a_convergence_point_and_fit_their_gpus(monkeypatch, name):
    variables = config(FOLDER / "configs" / f"{name}.env")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    chosen = train.read_settings(settings.Settings)
    gpus = int(variables["DGXNNODES"]) * int(variables["DGXNGPU"])
    settings.check(chosen, World(size=gpus))
    logged = settings.hyperparameters(chosen) | {"model_weights_initialization_scale": chosen.init_scale}
    point = convergence_points("rnnt", "3.1.0")[chosen.global_batch_size]
    point["model_eval_ema_factor"] = point.pop("model_eva_ema_factor")
    del point["opt_gradient_accumulation_steps"]  # the same batch in more parts
    assert {key: logged[key] for key in point} == point
    batches = -(-2703 // chosen.eval_batch_size)
    assert batches % gpus > 0.9 * gpus or batches % gpus == 0  # the last round of an evaluation keeps them busy
    assert train.least_bytes(model.Transducer(), chosen, World(size=gpus)) < 0.3 * 80e9


# Whole runs, on two seconds of noise


@pytest.fixture(scope="module")
def noise_data(tmp_path_factory) -> Path:
    """Eight training and two evaluation utterances in the layout `wav`."""
    root = tmp_path_factory.mktemp("data")
    random, texts = np.random.default_rng(1), ["bad cab", "cab bad", "bad bad", "cab cab"]
    (root / "sentencepieces").mkdir()
    (root / "text").write_text("\n".join(texts))
    sentencepiece.SentencePieceTrainer.train(
        input=str(root / "text"), model_prefix=str(root / "sentencepieces/librispeech6"), vocab_size=6,
        character_coverage=1.0, bos_id=-1, eos_id=-1, model_type="unigram", minloglevel=2,
    )  # fmt: skip
    processor = data.read_vocabulary(root, 6)
    for subset, count in (("train-clean-100", 8), ("dev-clean", 2)):
        entries, tokenised = [], []
        for i in range(count):
            name, samples = f"{subset}-wav/1/1/1-1-{i:04d}.wav", 3000 + 200 * i
            write_wav(root / name, random.normal(0, 3000, samples).astype("<i2"))
            text = texts[i % len(texts)]
            entries.append({"transcript": text, "files": [{"fname": name}], "original_duration": samples / 16000})
            tokenised.append(
                {"fname": name, "original_duration": samples / 16000, "tokenized_transcript": processor.encode(text)}
            )
        (root / f"librispeech-{subset}-wav.json").write_text(json.dumps(entries))
        (root / f"librispeech-{subset}-wav-tokenized.json").write_text(json.dumps(tokenised))
    return root


def write_wav(path: Path, pcm: np.ndarray, rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, len(pcm), "NONE", ""))
        file.writeframes(pcm.tobytes())


def environment(data_dir: Path, log_dir: Path, **changes: object) -> dict[str, str]:
    """The contract and tiny.env, as the launcher sets them, with changes."""
    identity = {"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"}
    run = {"DATADIR": data_dir, "LOGDIR": log_dir, "SEED": 5, "CLEAR_CACHE": "data"}
    rules = {"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"}
    small = {"VOCAB_SIZE": 6, "GLOBAL_BATCH_SIZE": 4, "MAX_EPOCHS": 1}
    values = config(FOLDER / "configs" / "tiny.env") | identity | run | rules | small | changes
    return {name: str(value) for name, value in values.items()}


def test_a_run_ends_and_its_log_is_accepted(noise_data, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | environment(noise_data, tmp_path, MAX_EPOCHS=2) | {"PATH": path}
    done = subprocess.run([FOLDER / "run_and_time.sh"], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "TARGET=" in done.stderr and "was not met" in done.stderr
    log = records(tmp_path)
    keys = [record["key"] for record in log]
    assert [key for key in keys if key in ("cache_clear", "init_start", "init_stop", "run_start")] == [
        "cache_clear", "init_start", "init_stop", "run_start",
    ]  # fmt: skip
    epoch = ["block_start", "epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop", "block_stop"]
    assert keys[keys.index("run_start") :] == [
        *("run_start", "train_samples", "eval_samples", *epoch, *epoch, "run_stop")
    ]
    assert [record["value"] for record in log if record["key"].endswith("_samples")] == [8, 2]
    assert log[-1]["metadata"]["status"] == "aborted"
    # Two epochs on noise teach nothing: every word is wrong. The checker asks for one evaluation below 1.
    halved = (
        (tmp_path / "mllog.txt").read_text().replace('"eval_accuracy", "value": 1.0', '"eval_accuracy", "value": 0.5')
    )
    (tmp_path / "mllog.txt").write_text(halved)
    assert accepted(tmp_path / "mllog.txt", "3.1.0")


STEADY = {"ENCODER_DROPOUT": 0, "PREDICTOR_DROPOUT": 0, "JOINT_DROPOUT": 0}
LIVELY = {"CACHE_FEATURES": 0, "SPEED_MIN": 0.85, "SPEED_MAX": 1.15, "DITHER": 1e-5, "MAX_EPOCHS": 2}
TWO_EPOCHS = """
import json, loader, torch, train
from common.contract import read_contract, read_settings
from common.distributed import join, leave
contract, settings = read_contract(), read_settings(train.Settings)
world = join(contract)
torch.set_default_dtype(torch.float64)
trainer = train.Trainer(contract, settings, world)
torch.set_default_dtype(torch.float32)  # of the features
loader.Batch.to = lambda batch, device: batch._replace(features=batch.features.double())
trainer.open_data()
answer = {"losses": [trainer.train(1), trainer.train(2)], "error_rate": trainer.evaluate()}
for name in ("weights", "averages"):
    answer[name] = torch.cat([tensor.flatten() for tensor in getattr(trainer, name)]).tolist()
if world.rank == 0:
    print(json.dumps(answer))
leave(world)
"""


def test_two_processes_learn_what_one_learns(noise_data, tmp_path):
    """With speed, dither and masks; dropout is off, since each process draws its own."""
    one, two = (
        processes(count, FOLDER, environment(noise_data, tmp_path, **STEADY, **LIVELY, **settings), TWO_EPOCHS)
        for count, settings in [
            (1, {"GRADIENT_ACCUMULATION_STEPS": 2, "JOINT_PLACES": 20}),
            (2, {"WORKERS": 1, "EVAL_BATCH_SIZE": 1}),
        ]
    )
    assert one["losses"][0] > one["losses"][1] + 0.1
    assert two["error_rate"] == one["error_rate"]
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=1e-6)
    for name in ("weights", "averages"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_run_does_not_import_the_compiler(noise_data, tmp_path):  # it would cost each run more than a second
    code = "import sys, train; train.main(); print(int('torch._dynamo' in sys.modules))"
    assert processes(1, FOLDER, environment(noise_data, tmp_path, TARGET=1000), code) == 0


def trainer_for(noise_data: Path, folder: Path, monkeypatch, world=None, **changes: object):
    """A trainer in this process, before it opens its data."""
    for name, value in environment(noise_data, folder, **changes).items():
        monkeypatch.setenv(name, value)
    return train.Trainer(train.read_contract(), train.read_settings(settings.Settings), world or World())


def test_errors_are_counted_over_all_processes(noise_data, tmp_path, monkeypatch):
    counted = []

    class Half(World):
        def sum(self, values):
            counted.append(values.tolist())
            return values

    for rank in range(2):
        trainer = trainer_for(noise_data, tmp_path, monkeypatch, Half(), EVAL_BATCH_SIZE=1)
        trainer.world = Half(rank, 2)
        trainer.open_data()
        trainer.transcribe = lambda batch: [["bad", "cab bad"][index] for index in batch.indices]
        trainer.evaluate()
    assert sorted(counted) == [[0, 2], [1, 2]]  # "cab bad" is right, "bad" lacks a word of "bad cab"


def test_accumulated_gradients_are_those_of_the_whole_batch(noise_data, tmp_path, monkeypatch):
    found = []
    for parts in (1, 2):
        accumulate = {"GRADIENT_ACCUMULATION_STEPS": str(parts)}
        trainer = trainer_for(noise_data, tmp_path, monkeypatch, **STEADY, **accumulate)
        said = data.read_training(noise_data, ("train-clean-100",), 6, 16.7)[:4]
        # One length for all: a frame that reaches into the padding of its batch hears it, as in the reference.
        speech = loader.Speech([dataclasses.replace(one, path=said[0].path) for one in said], trainer.settings, 1)
        keys = [loader.Key(0, tuple(range(part, 4, parts))) for part in range(parts)]
        mean = trainer.backward(loader.batches(speech, keys, torch.device("cpu")))
        found.append((mean, [weight.grad for weight in trainer.weights]))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_bfloat16_is_near_float32(noise_data, tmp_path, monkeypatch):
    losses = []
    for bf16 in ("0", "1"):
        trainer = trainer_for(noise_data, tmp_path, monkeypatch, **STEADY, BF16=bf16)
        trainer.open_data()
        losses.append(trainer.backward([next(trainer.training)]).item())
        assert all(weight.grad.dtype == torch.float32 for weight in trainer.weights)
        assert 0 <= trainer.evaluate() < 300
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.02)


def test_the_batch_is_the_seeds_whoever_loads_it(noise_data, tmp_path, monkeypatch):
    batches = []
    for workers, seed in (("0", "5"), ("2", "5"), ("0", "6")):
        trainer = trainer_for(noise_data, tmp_path, monkeypatch, **LIVELY, WORKERS=workers, SEED=seed)
        trainer.open_data()
        batches.append([next(trainer.training) for _ in range(4)])
    torch.testing.assert_close(batches[0], batches[1], rtol=0, atol=0)
    assert not torch.equal(batches[0][0].features, batches[2][0].features)
    first, second = ({tuple(batch.indices) for batch in batches[0][part : part + 2]} for part in (0, 2))
    assert first != second


def test_warming_up_leaves_no_trace(noise_data, tmp_path, monkeypatch):
    trainer = trainer_for(noise_data, tmp_path, monkeypatch, MAX_DURATION="0.5")
    before = [weight.clone() for weight in trainer.weights]
    trainer.warm_up()
    assert all(map(torch.equal, trainer.weights, before)) and all(map(torch.equal, trainer.averages, before))
    assert trainer.moments.step == 0 and not any(mean.any() for mean in trainer.moments.means)


def test_a_rehearsal_has_the_numbers_of_the_reference(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [FOLDER / "run_and_time.sh", "--log-only", "--round", "3.1.0"]
    subprocess.run(command, env=os.environ | {"PATH": path, "LOGDIR": str(tmp_path)}, check=True)
    log = records(tmp_path)
    values = {record["key"]: record["value"] for record in log}
    assert (values["train_samples"], values["eval_samples"]) == (278_528, 2703)
    evaluated = [record["metadata"]["epoch_num"] for record in log if record["key"] == "eval_accuracy"]
    assert evaluated == list(range(1, len(evaluated) + 1)) and values["eval_accuracy"] == 0.058


# Bad input


def fails(monkeypatch, capsys, variables: dict[str, str]) -> str:
    """What a run with this environment says on standard error when it ends with status 2."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        train.main()
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"GLOBAL_BATCH_SIZE": "16"}, "GLOBAL_BATCH_SIZE=16: expected at most 8"),
        ({"GLOBAL_BATCH_SIZE": "0"}, "GLOBAL_BATCH_SIZE=0: expected 1 or more"),
        ({"GRADIENT_ACCUMULATION_STEPS": "3"}, "GLOBAL_BATCH_SIZE=4: expected a multiple"),
        ({"JOINT_PLACES": "0"}, "JOINT_PLACES=0: expected 1 or more"),
        ({"WORKERS": "-1"}, "WORKERS=-1: expected 0 or more"),
        ({"MLPERF_DIVISION": "closed"}, "MLPERF_DIVISION=closed: expected VOCAB_SIZE=1023, found 6"),
        ({"VOCAB_SIZE": "1023"}, "librispeech1023.model: expected the sentencepiece model"),
        ({"TRAIN_SUBSETS": "train-clean-360"}, "librispeech-train-clean-360-wav-tokenized.json: expected the list"),
        ({"EVAL_SUBSET": "test-clean"}, "librispeech-test-clean-wav.json: expected the list"),
        ({"SPEED_MAX": "1.15"}, "CACHE_FEATURES=1: expected SPEED_MIN=1"),
        ({"DGXNGPU": "8"}, "DGXNGPU=8: expected 8 processes, found 1"),
        ({"SEED": "-1"}, "SEED=-1: expected"),
        ({"DATADIR": "/nowhere/at/all"}, "DATADIR /nowhere/at/all: expected a folder"),
    ],
)
def test_bad_input_ends_with_status_2_and_says_why(noise_data, tmp_path, monkeypatch, capsys, changes, said):
    assert said in fails(monkeypatch, capsys, environment(noise_data, tmp_path, **changes))


@pytest.mark.parametrize("counts", [(8, 2703), (278_528, 2702), (279_040, 2703)])
def test_other_data_than_the_benchmarks_is_refused_in_the_closed_division(capsys, counts):
    with pytest.raises(SystemExit) as end:
        train.check_reference(*counts)
    assert end.value.code == 2
    assert "expected 278528 to 279039 utterances of at most 16.7 s and 2703" in capsys.readouterr().err


def test_labels_of_another_vocabulary_are_refused(noise_data, capsys):
    with pytest.raises(SystemExit):
        data.read_training(noise_data, ("train-clean-100",), 3, 16.7)
    assert "VOCAB_SIZE must be the vocab_size" in capsys.readouterr().err


def test_long_utterances_are_not_trained_on(noise_data):
    everyone = data.read_training(noise_data, ("train-clean-100",), 6, 16.7)
    limit = sorted(utterance.seconds for utterance in everyone)[4]
    assert len(data.read_training(noise_data, ("train-clean-100",), 6, limit)) == 5


def test_a_bad_file_ends_the_run_when_a_worker_reads_it(noise_data, tmp_path, monkeypatch, capfd):
    copied = tmp_path / "data"
    shutil.copytree(noise_data, copied)
    next(copied.rglob("1-1-0003.wav")).unlink()
    trainer = trainer_for(copied, tmp_path, monkeypatch, **LIVELY, WORKERS="1")
    trainer.open_data()
    with pytest.raises(SystemExit) as ended:
        trainer.train(1)
    assert ended.value.code == 2
    said = capfd.readouterr().err
    assert "1-1-0003.wav: expected a WAV file" in said and "WORKERS=1: one has ended" in said


def test_a_gpu_that_is_too_small_is_named_with_what_is_needed(monkeypatch, capsys):
    small = SimpleNamespace(name="Small GPU", total_memory=8 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: small)
    one_gpu = World(device=torch.device("cuda", 0))
    reference = settings.Settings(bf16=True, gradient_accumulation_steps=2)
    with torch.device("meta"):
        net = model.Transducer()
    with pytest.raises(SystemExit) as ended:
        train.check_memory(net, reference, one_gpu)
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert "Small GPU has 8.0 GiB: expected more than" in said and "for 512 utterances at once" in said
    train.check_memory(net, dataclasses.replace(reference, gradient_accumulation_steps=32, joint_places=1000), one_gpu)


def test_memory_that_runs_out_ends_the_run(noise_data, tmp_path, monkeypatch, capsys):
    trainer = trainer_for(noise_data, tmp_path, monkeypatch, MAX_DURATION="0.5")
    monkeypatch.setattr(train.memory, "of_device", lambda device: "Small GPU has 8.0 GiB")

    def full(step, parts):
        raise torch.OutOfMemoryError

    trainer.step = full
    with pytest.raises(SystemExit) as ended:
        trainer.warm_up()
    assert ended.value.code == 3 and "set a higher GRADIENT_ACCUMULATION_STEPS" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["missing", "other rate", "too short", "no wav"])
def test_a_bad_wav_is_refused(tmp_path, capsys, kind):
    path = tmp_path / "1-1-0000.wav"
    if kind == "other rate":
        write_wav(path, np.zeros(4000, "<i2"), rate=8000)
    elif kind == "too short":
        write_wav(path, np.zeros(300, "<i2"))
    elif kind == "no wav":
        path.write_bytes(b"fLaC" * 50)
    with pytest.raises(SystemExit) as ended:
        data.read_wav(path)
    assert ended.value.code == 2
    assert f"{path}: expected" in capsys.readouterr().err


def test_a_loss_that_is_not_a_number_aborts_the_run(noise_data, tmp_path, monkeypatch, capsys):
    for name, value in environment(noise_data, tmp_path, BASE_LEARNING_RATE="1e30", MAX_EPOCHS="9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        train.main()
    assert ended.value.code == 1 and "try a lower BASE_LEARNING_RATE" in capsys.readouterr().err
    assert (records(tmp_path)[-1]["key"], records(tmp_path)[-1]["metadata"]["status"]) == ("run_stop", "aborted")


def test_a_run_that_is_terminated_is_logged_as_aborted(noise_data, tmp_path):
    variables = os.environ | environment(noise_data, tmp_path, MAX_EPOCHS="100000", TARGET="-1")
    running = subprocess.Popen([sys.executable, "train.py"], cwd=FOLDER, env=variables)
    while not any(record["key"] == "eval_accuracy" for record in records(tmp_path)):
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    assert running.wait(timeout=30) == 128 + signal.SIGTERM
    log = records(tmp_path)  # every line is whole
    assert (log[-1]["key"], log[-1]["metadata"]["status"]) == ("run_stop", "aborted")
