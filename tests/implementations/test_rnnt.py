"""The rnnt implementation against independent formulas, brute force and the official checker.

Needs the implementations' Python (torch, mlperf_logging, sentencepiece, scipy).
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import subprocess
import sys
import wave
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="needs the implementations' environment")
import numpy as np  # noqa: E402
import scipy.signal  # noqa: E402
import sentencepiece  # noqa: E402

FOLDER = Path(__file__).parents[2] / "containers" / "rnnt"


def load(folder: Path) -> dict[str, ModuleType]:
    """The modules of one implementation; four of them have a `model.py`, so none stays in sys.modules."""
    names = sorted(path.stem for path in folder.glob("*.py"))
    for name in names:
        sys.modules.pop(name, None)
    sys.path.insert(0, str(folder))
    try:
        return {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)


rnnt = load(FOLDER)
model, loss, decode, optim = rnnt["model"], rnnt["loss"], rnnt["decode"], rnnt["optim"]
features, data, train = rnnt["features"], rnnt["data"], rnnt["train"]
contract_module, log_module = sys.modules["common.contract"], sys.modules["common.log"]


@pytest.fixture(autouse=True)
def _one_thread_one_seed():
    torch.set_num_threads(1)
    torch.manual_seed(1)


def small_model(symbols: int = 5, inputs: int = 6) -> torch.nn.Module:
    return model.Transducer(symbols, inputs, 8, 1, 2, 2, 7, 2, 9, 0.2, 0.2, 0.2, 1.0)


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


def test_padding_does_not_change_the_logits_of_an_utterance():
    net = small_model().eval()
    x, labels = torch.randn(9, 2, 6), torch.randint(4, (2, 3))
    logits, frames = net(x, torch.tensor([9, 5]), labels)
    alone, _ = net(x[:5, 1:], torch.tensor([5]), labels[1:, :2])
    assert frames.tolist() == [5, 3]
    torch.testing.assert_close(logits[1:, :2, :3], alone[:, :2])  # the third frame reaches into the padding


def test_training_sees_the_logits_that_decoding_sees():
    net = small_model().eval()
    x, labels = torch.randn(8, 1, 6), torch.tensor([[2, 0, 3]])
    logits, _ = net(x, torch.tensor([8]), labels)
    encoded, _ = net.encode(x, torch.tensor([8]))
    last, state = torch.zeros(1, 1, 7), None  # the start of a sentence
    for u in range(4):
        predicted, state = net.predict(last, state)
        torch.testing.assert_close(logits[0, :, u], net.joint(encoded[0], predicted[0, 0]))
        last = net.embedding(labels[:, u : u + 1]) if u < 3 else None


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


def test_the_loss_is_the_sum_over_all_alignments():
    logits = torch.randn(4, 5, 5, 4, dtype=torch.float64) * 2
    labels = torch.tensor([[0, 1, 2, 2], [2, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    frames, counts = torch.tensor([5, 3, 1, 4]), torch.tensor([4, 3, 1, 0])
    expected = [
        brute_force(one.log_softmax(-1)[:t].numpy(), spoken[:u].tolist(), 3)
        for one, spoken, t, u in zip(logits, labels, frames, counts, strict=True)
    ]
    assert loss.transducer_loss(logits, labels, frames, counts, 3).item() == pytest.approx(np.mean(expected), abs=1e-12)


def test_the_gradient_of_the_loss_is_its_slope():
    logits = torch.randn(2, 4, 3, 4, dtype=torch.float64, requires_grad=True)
    labels, frames, counts = torch.tensor([[0, 1], [2, 0]]), torch.tensor([4, 2]), torch.tensor([2, 1])
    assert torch.autograd.gradcheck(lambda x: loss.transducer_loss(x, labels, frames, counts, 3), logits)


def test_the_loss_is_finite_in_bfloat16_and_for_certain_logits():
    logits = torch.full((1, 60, 31, 8), -80.0)
    logits[..., 7] = 80.0
    labels = torch.zeros(1, 30, dtype=torch.long)
    sure = loss.transducer_loss(logits.bfloat16(), labels, torch.tensor([60]), torch.tensor([30]), 7)
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
        assert decode.greedy(net, x, lengths, max_symbols, per_frame) == expected
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
    samples = np.random.default_rng(2).normal(size=4001)
    count = round(4001 * factor)
    ours = features.resample(torch.tensor(samples), factor).numpy()
    np.testing.assert_allclose(ours, scipy.signal.resample(samples, count), atol=1e-9)


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


def environment(data_dir: Path, log_dir: Path, **changes: str) -> dict[str, str]:
    """The contract and tiny.env, as the launcher sets them, with changes."""
    lines = (FOLDER / "configs" / "tiny.env").read_text().splitlines()
    config = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    identity = {"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"}
    run = {"DATADIR": str(data_dir), "LOGDIR": str(log_dir), "SEED": "5", "CLEAR_CACHE": "data"}
    rules = {"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"}
    return config | identity | run | rules | {"VOCAB_SIZE": "6", "GLOBAL_BATCH_SIZE": "4", "MAX_EPOCHS": "1"} | changes


def official(log: Path) -> str:
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--ruleset", "3.1.0"]
    found = subprocess.run(
        [*checker, "--log_output", str(log.with_name("checker.log")), str(log)], capture_output=True, text=True
    )
    return found.stdout + found.stderr


def complaints(report: str) -> list[str]:
    return [line.partition("WARNING -")[2].strip() for line in report.splitlines() if line.startswith("WARNING")]


def logged(log_dir: Path) -> list[tuple[str, object, dict]]:
    records = [json.loads(line.split(" ", 1)[1]) for line in (log_dir / "mllog.txt").read_text().splitlines()]
    return [(record["key"], record["value"], record["metadata"]) for record in records]


def test_a_run_ends_and_its_log_is_accepted(noise_data, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | environment(noise_data, tmp_path, MAX_EPOCHS="2") | {"PATH": path}
    done = subprocess.run([FOLDER / "run_and_time.sh"], env=variables, capture_output=True, text=True)
    assert done.returncode == 1
    assert "TARGET=" in done.stderr and "was not met" in done.stderr
    records = logged(tmp_path)
    assert [key for key, _, _ in records if key in ("cache_clear", "init_start", "init_stop", "run_start")] == [
        "cache_clear", "init_start", "init_stop", "run_start",
    ]  # fmt: skip
    epoch = ["block_start", "epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop", "block_stop"]
    timed = [key for key, _, _ in records][[key for key, _, _ in records].index("run_start") :]
    assert timed == ["run_start", "train_samples", "eval_samples", *epoch, *epoch, "run_stop"]
    assert [value for key, value, _ in records if key.endswith("_samples")] == [8, 2]
    assert records[-1][2]["status"] == "aborted"
    # Two epochs on noise teach nothing, and that is all that the checker may find: every word is wrong (WER 1.0).
    assert complaints(official(tmp_path / "mllog.txt")) in ([], ["Failed checks for eval_accuracy : v['value'] < 1.0"])


def test_accumulated_gradients_are_those_of_the_whole_batch(noise_data):
    torch.manual_seed(0)
    settings = train.Settings(
        vocab_size=6, global_batch_size=4, time_masks=0, freq_masks=0, speed_min=1, speed_max=1, dither=0
    )
    said = data.read_training(noise_data, ("train-clean-100",), 6, 16.7)[:4]
    # One length for all: a frame that reaches into the padding of its batch hears it, as in the reference.
    utterances = [dataclasses.replace(utterance, path=said[0].path) for utterance in said]
    random = torch.Generator().manual_seed(1)
    load_features = train.loader(settings, random, 1, 1)
    net = model.Transducer(7, 240, 8, 1, 1, 2, 8, 1, 8, 0, 0, 0, 1.0)
    found = []
    for parts in ([utterances], [utterances[:2], utterances[2:]]):
        net.zero_grad()
        mean = train.backward(net, [train.masked_batch(part, load_features, settings, random) for part in parts])
        found.append((mean, torch.cat([weight.grad.flatten() for weight in net.parameters()])))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-4, atol=1e-6)


def test_the_reference_settings_log_what_the_closed_division_asks_for(tmp_path):
    who = contract_module.Contract(tmp_path, tmp_path, 1, "tests", "host", "closed", "onprem", 1, 0)
    log = log_module.Log(who)
    log.event("cache_clear", True)
    log.start("init_start")
    log.submission("rnnt", who)
    log.event("seed", 1)
    for key, value in train.hyperparameters(train.Settings()).items():
        log.event(key, value)
    log.end("init_stop")
    with log.timed() as outcome:
        log.event("train_samples", 278_528)
        log.event("eval_samples", 2703)
        log.start("block_start", first_epoch_num=1, epoch_count=1)
        log.event("eval_accuracy", 0.0579, epoch_num=1)
        log.end("block_stop", first_epoch_num=1)
        outcome.reached = True
    assert "SUCCESS" in official(tmp_path / "mllog.txt")


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
        ({"VOCAB_SIZE": "1023"}, "librispeech1023.model: expected the sentencepiece model"),
        ({"TRAIN_SUBSETS": "train-clean-360"}, "librispeech-train-clean-360-wav-tokenized.json: expected the list"),
        ({"EVAL_SUBSET": "test-clean"}, "librispeech-test-clean-wav.json: expected the list"),
        ({"SPEED_MAX": "1.15"}, "CACHE_FEATURES=1: expected SPEED_MIN=1"),
        ({"DGXNGPU": "8"}, "DGXNGPU=8: expected"),
        ({"SEED": "-1"}, "SEED=-1: expected 0 or more"),
        ({"DATADIR": "/nowhere/at/all"}, "DATADIR /nowhere/at/all: expected a folder"),
    ],
)
def test_bad_input_ends_with_status_2_and_says_why(noise_data, tmp_path, monkeypatch, capsys, changes, said):
    assert said in fails(monkeypatch, capsys, environment(noise_data, tmp_path, **changes))


def test_labels_of_another_vocabulary_are_refused(noise_data, capsys):
    with pytest.raises(SystemExit):
        data.read_training(noise_data, ("train-clean-100",), 3, 16.7)
    assert "VOCAB_SIZE must be the vocab_size" in capsys.readouterr().err


def test_long_utterances_are_not_trained_on(noise_data):
    everyone = data.read_training(noise_data, ("train-clean-100",), 6, 16.7)
    limit = sorted(utterance.seconds for utterance in everyone)[4]
    assert len(data.read_training(noise_data, ("train-clean-100",), 6, limit)) == 5


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
    records = logged(tmp_path)
    assert records[-1][0] == "run_stop" and records[-1][2]["status"] == "aborted"
