"""BERT: the network, loss, LAMB and schedule against independent formulas, batches, and whole runs.

Needs the implementations' requirements (containers/common/requirements.txt) beside pytest.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")
h5py = pytest.importorskip("h5py")

FOLDER = Path(__file__).parents[2] / "containers" / "bert"
COMMON = ["common", "common.contract", "common.log"]
VOCABULARY, TOKENS, MASKED = 30, 12, 3


@pytest.fixture(scope="module")
def bert():
    """The modules of containers/bert, under their own names only while these tests run: all four have a `model`."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    before = {name: sys.modules.pop(name, None) for name in [*names, *COMMON]}
    sys.path.insert(0, str(FOLDER))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def sizes(bert):
    return bert.model.Sizes(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=10,
        max_position_embeddings=TOKENS,
        dropout=0.0,
    )


def sequences(rng, count):
    """`count` sequences as the preparation stores them, padded; the words are random, the masked ones are 1, 2 or 3."""
    lengths, used = rng.integers(6, TOKENS + 1, count), rng.integers(1, MASKED + 1, count)
    token, slot = np.arange(TOKENS), np.arange(MASKED)
    mask = token < lengths[:, None]
    positions = np.sort([1 + rng.permutation(5)[:MASKED] for _ in range(count)])
    return {
        "input_ids": (rng.integers(1, VOCABULARY, (count, TOKENS)) * mask).astype(np.int16),
        "input_mask": mask.astype(np.int8),
        "segment_ids": ((token >= 4) & mask).astype(np.int8),
        "masked_lm_positions": (positions * (slot < used[:, None])).astype(np.int16),
        "masked_lm_ids": (rng.integers(1, 4, (count, MASKED)) * (slot < used[:, None])).astype(np.int16),
        "next_sentence_labels": rng.integers(0, 2, count).astype(np.int8),
    }


# The network


def test_the_default_network_has_the_parameters_of_bert_large(bert):
    with torch.device("meta"):
        model = bert.model.Bert(bert.model.Sizes())
    assert sum(parameter.numel() for parameter in model.parameters()) == 336_226_108


def test_weights_are_cut_at_two_sigma_and_the_rest_is_0_or_1(bert, sizes):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes)
    bert.model.initialise(model, 0.02)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    drawn = torch.cat([w.flatten() for name, w in weights.items() if w.dim() == 2])
    assert drawn.abs().max() <= 0.04
    assert drawn.std().item() == pytest.approx(0.02 * 0.8796, rel=0.05)  # a normal distribution cut at two sigma
    assert all((w == 1).all() for name, w in weights.items() if name.endswith("norm.weight"))
    assert all((w == 0).all() for name, w in weights.items() if name.endswith("bias"))


def numpy_bert(weights, rows, heads):
    """Masked-LM and next-sentence scores, written from the reference's description, one sequence at a time."""

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def softmax(x):
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    masked, following = [], []
    words = weights["embeddings.word.weight"]
    for ids, mask, segments, positions in zip(*(rows[name] for name in list(rows)[:4]), strict=True):
        x = words[ids] + weights["embeddings.position.weight"] + weights["embeddings.segment.weight"][segments]
        x = norm("embeddings.layer_norm", x)
        for layer in ("layers.0", "layers.1"):
            query, key, value = (linear(f"{layer}.attention.{name}", x) for name in ("query", "key", "value"))
            width = query.shape[1] // heads
            mixed = []
            for head in range(heads):
                part = slice(head * width, (head + 1) * width)
                scores = query[:, part] @ key[:, part].T / np.sqrt(width) - 10000.0 * (1 - mask)
                mixed.append(softmax(scores) @ value[:, part])
            attended = linear(f"{layer}.attention.output", np.concatenate(mixed, axis=1))
            x = norm(f"{layer}.attention_layer_norm", x + attended)
            inner = gelu(linear(f"{layer}.intermediate", x))
            x = norm(f"{layer}.output_layer_norm", x + linear(f"{layer}.output", inner))
        hidden = norm("masked_language_head.layer_norm", gelu(linear("masked_language_head.transform", x[positions])))
        masked.append(hidden @ words.T + weights["masked_language_head.bias"])
        following.append(linear("next_sentence_head", np.tanh(linear("pooler", x[0]))))
    return np.array(masked), np.array(following)


def test_scores_and_loss_are_the_references(bert, sizes, rng):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # biases and norms too, so that each of them shows
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    rows = sequences(rng, 5)
    batch = next(bert.data.evaluation_batches(rows, 5))

    hidden = model.encode(batch.input_ids, batch.input_mask, batch.segment_ids)
    scores = model.masked_language_scores(hidden, batch.masked_lm_positions)
    next_scores = model.next_sentence_scores(hidden)
    expected, expected_next = numpy_bert(weights, rows, sizes.num_attention_heads)
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(next_scores.detach().numpy(), expected_next, rtol=1e-9, atol=1e-9)

    loss = bert.model.pretraining_loss(
        scores, batch.masked_lm_ids, batch.masked_lm_weights, next_scores, batch.next_sentence_labels
    )

    def surprise(values, label):
        return np.log(np.exp(values).sum()) - values[label]

    used = np.argwhere(rows["masked_lm_positions"] > 0)
    words = sum(surprise(expected[n, p], rows["masked_lm_ids"][n, p]) for n, p in used) / (len(used) + 1e-5)
    follows = np.mean([surprise(expected_next[n], rows["next_sentence_labels"][n]) for n in range(5)])
    assert loss.item() == pytest.approx(words + follows, rel=1e-9)


def test_padding_does_not_change_the_scores(bert, sizes, rng):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes).eval()
    batch = next(bert.data.evaluation_batches(sequences(rng, 4), 4))
    other = torch.where(batch.input_mask == 1, batch.input_ids, torch.full_like(batch.input_ids, 9))
    scores = [
        model.next_sentence_scores(model.encode(ids, batch.input_mask, batch.segment_ids))
        for ids in (batch.input_ids, other)
    ]
    assert not torch.equal(batch.input_ids, other)
    torch.testing.assert_close(*scores)


# Optimiser

NAMES = ("word.weight", "layer.bias", "output_layer_norm.weight", "zero.weight")


def test_lamb_is_the_references_without_decay_and_ratio_for_biases_and_norms(bert, rng):
    start = [rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=3), np.zeros((2, 2))]
    weights = [torch.from_numpy(w.copy()) for w in start]
    excluded = [bert.optim.is_excluded(name) for name in NAMES]
    assert excluded == [False, True, True, False]
    moments = bert.optim.zero_moments(weights)
    expected, m, v = [w.copy() for w in start], [0.0] * 4, [0.0] * 4
    for step in range(1, 5):
        rate, gradients = 0.1 / step, [rng.normal(size=w.shape) for w in start]
        bert.optim.lamb_step(
            weights,
            [torch.from_numpy(g) for g in gradients],
            excluded,
            moments,
            learning_rate=rate,
            beta_1=0.6,
            beta_2=0.85,
            epsilon=1e-6,
            weight_decay=0.1,
        )
        for i, g in enumerate(gradients):
            m[i] = 0.6 * m[i] + 0.4 * g
            v[i] = 0.85 * v[i] + 0.15 * g**2
            update = m[i] / (1 - 0.6**step) / (np.sqrt(v[i] / (1 - 0.85**step)) + 1e-6)
            ratio = 1.0
            if not excluded[i]:
                update += 0.1 * expected[i]
                norm = np.linalg.norm(expected[i])
                ratio = norm / np.linalg.norm(update) if norm > 0 else 1.0
            expected[i] = expected[i] - rate * ratio * update
    for weight, right in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight.numpy(), right, rtol=1e-10)


@pytest.mark.parametrize(("limit", "scale"), [(1.0, 1 / 13), (20.0, 1.0)])
def test_gradients_are_cut_to_a_common_norm(bert, limit, scale):
    gradients = [torch.tensor([3.0, 4.0]), torch.tensor([[12.0]])]  # norm 13
    bert.optim.clip_by_global_norm(gradients, limit)
    torch.testing.assert_close(torch.cat([g.flatten() for g in gradients]), scale * torch.tensor([3.0, 4.0, 12.0]))


@pytest.mark.parametrize(
    ("step", "warmup", "start", "rate"),
    [
        (0, 0, 0, 2.0),  # no warm-up: decay from the first step on
        (150, 0, 0, 1.5),
        (600, 0, 0, 0.0),
        (700, 0, 0, 0.0),
        (0, 100, 0, 0.0),
        (99, 100, 0, 1.98),
        (100, 100, 0, 2.0 * 5 / 6),
        (0, 287, -76, 2.0 * 76 / 287),  # the reference for 8192 sequences
        (210, 287, -76, 2.0 * 286 / 287),
        (211, 287, -76, 2.0 * (1 - 211 / 600)),
        (0, 0, -700, 2.0),  # the reference for 6144: a start without a warm-up changes nothing
    ],
)
def test_the_rate_warms_up_from_the_start_step_and_decays_to_0(bert, step, warmup, start, rate):
    found = bert.optim.learning_rate_at(step, 2.0, training_steps=600, warmup_steps=warmup, start_step=start)
    assert found == pytest.approx(rate)


# When to evaluate


@pytest.mark.parametrize(
    ("batch", "interval"), [(256, 150_000), (2048, 150_000), (3072, 175_000), (4096, 175_000), (8192, 225_000)]
)
def test_the_interval_is_the_rules(bert, batch, interval):
    assert bert.train.reference_interval(batch) == interval


def test_blocks_end_at_the_first_step_beyond_each_multiple_and_at_the_last(bert):
    def ends(**settings):
        blocks = list(bert.train.blocks(bert.train.Settings(**settings)))
        assert [step for block in blocks for step in block] == list(range(settings["training_steps"]))
        return [block.stop for block in blocks]

    assert ends(global_batch_size=448, training_steps=1100) == [335, 670, 1005, 1100]  # ceil(k * 150000 / 448)
    assert ends(global_batch_size=100, training_steps=4, eval_interval=30) == [1, 2, 3, 4]
    assert ends(global_batch_size=10, training_steps=6, eval_interval=30) == [3, 6]


def test_the_accuracy_is_pooled_over_words_whatever_the_batch(bert, sizes, rng):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes)
    rows = sequences(rng, 7)
    batch = next(bert.data.evaluation_batches(rows, 7))
    with torch.no_grad():
        hidden = model.encode(batch.input_ids, batch.input_mask, batch.segment_ids)
        best = model.masked_language_scores(hidden, batch.masked_lm_positions).argmax(dim=2).numpy()
    used = rows["masked_lm_positions"] > 0
    right = used & (rng.random(used.shape) < 0.5)
    rows["masked_lm_ids"] = np.where(right | ~used, best, (best + 1) % VOCABULARY).astype(np.int16)
    for size in (1, 3, 7):
        accuracy = bert.train.masked_accuracy(model, bert.data.evaluation_batches(rows, size))
        assert accuracy == pytest.approx(right.sum() / used.sum())


# Batches


@pytest.fixture
def dataset(tmp_path, rng):
    """Five training files of 7 sequences and 6 to evaluate, as `podium prepare wikipedia --layout hdf5` leaves them."""
    folder = tmp_path / "hdf5"
    (folder / "train").mkdir(parents=True)
    (folder / "eval").mkdir()
    for number in range(5):
        rows = sequences(rng, 7)
        rows["input_ids"][:, 0] = number  # to tell the sequences apart
        rows["input_ids"][:, 1] = np.arange(7)
        write(folder / "train" / f"part_{number:05d}_of_00005.hdf5", rows)
    write(folder / "eval" / "part_eval.hdf5", sequences(rng, 6))
    (folder / "vocab.txt").write_text("".join(f"word{number}\n" for number in range(VOCABULARY)))
    return folder


def write(path, rows):
    with h5py.File(path, "w") as file:
        for name, values in rows.items():
            file[name] = values


def test_a_pass_has_every_sequence_once_in_a_new_order(bert, sizes, dataset):
    def order(seed, size, count):
        batches = bert.data.training_batches(bert.data.train_files(dataset), size, sizes, seed)
        return [tuple(ids[:2].tolist()) for batch in islice(batches, count) for ids in batch.input_ids]

    everything = {(file, row) for file in range(5) for row in range(7)}
    first, second = np.split(np.array(order(3, 5, 14)), 2)  # 35 sequences a pass
    assert set(map(tuple, first.tolist())) == set(map(tuple, second.tolist())) == everything
    assert not np.array_equal(first, second)
    assert all(len(set(first[part : part + 7, 0])) > 1 for part in range(0, 28, 7))  # four files are mixed
    left_for_last = [set(range(5)) - {file for file, _ in order(seed, 28, 1)} for seed in range(8)]
    assert len(set.union(*left_for_last)) > 1
    assert order(3, 5, 14) != order(4, 5, 14)
    assert order(3, 5, 14) == order(3, 5, 14)
    assert len(set(order(3, 8, 4))) == 32  # the last 3 of a pass are dropped


# Whole runs


@pytest.fixture
def contract(dataset, tmp_path):
    """The environment of a run that is small and meets its target at its second evaluation or so."""
    return {
        "DATADIR": str(dataset),
        "LOGDIR": str(tmp_path / "log"),
        "SEED": "5",
        "MLPERF_SUBMISSION_ORG": "tests",
        "MLPERF_SUBMISSION_PLATFORM": "host",
        "MLPERF_DIVISION": "open",
        "MLPERF_STATUS": "research",
        "OMP_NUM_THREADS": "1",
        "CLEAR_CACHE": "data",
        "HIDDEN_SIZE": "8",
        "NUM_HIDDEN_LAYERS": "1",
        "NUM_ATTENTION_HEADS": "2",
        "INTERMEDIATE_SIZE": "8",
        "MAX_POSITION_EMBEDDINGS": str(TOKENS),
        "GLOBAL_BATCH_SIZE": "6",
        "GRADIENT_ACCUMULATION_STEPS": "2",
        "BASE_LEARNING_RATE": "0.01",
        "TRAINING_STEPS": "4",
        "EVAL_INTERVAL": "10",
        "TARGET": "0.0",
    }


def mllog(contract):
    """(key, value, metadata) of each line that the run wrote."""
    lines = (Path(contract["LOGDIR"]) / "mllog.txt").read_text().splitlines()
    records = [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]
    return [(record["key"], record["value"], record["metadata"]) for record in records]


def run(bert, monkeypatch, contract, **changes):
    """The run in this process; returns its exit status."""
    for name, value in (contract | changes).items():
        monkeypatch.setenv(name, value)
    try:
        bert.train.main()
    except SystemExit as end:
        return end.code
    return 0


def test_a_run_logs_what_the_rules_ask_for_in_their_order(contract):
    environment = os.environ | contract | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run([FOLDER / "run_and_time.sh"], env=environment, check=True, timeout=120)
    log = mllog(contract)
    keys = [key for key, _, _ in log]
    assert keys[:3] == ["cache_clear", "init_start", "submission_benchmark"]
    block = ["block_start", "epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop", "block_stop"]
    assert keys[keys.index("init_stop") :] == [
        *("init_stop", "run_start", "eval_samples"),
        *block,
        *("train_samples", "run_stop"),
    ]
    facts = {key: value for key, value, _ in log}
    assert (facts["seed"], facts["global_batch_size"], facts["gradient_accumulation_steps"]) == (5, 6, 2)
    assert (facts["opt_base_learning_rate"], facts["opt_learning_rate_training_steps"]) == (0.01, 4)
    assert (facts["num_warmup_steps"], facts["opt_learning_rate_warmup_steps"], facts["start_warmup_step"]) == (0, 0, 0)
    assert (facts["train_samples"], facts["eval_samples"]) == (12, 6)
    metadata = {key: extra for key, _, extra in log}
    assert (metadata["block_start"]["first_epoch_num"], metadata["block_start"]["epoch_count"]) == (0, 12)
    assert metadata["eval_accuracy"]["epoch_num"] == 12  # the first step at or beyond 10 samples
    assert metadata["run_stop"]["status"] == "success"
    path = Path(contract["LOGDIR"]) / "mllog.txt"
    checker = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--ruleset", "3.1.0"]
    command = [*checker, "--log_output", str(path.with_name("checker.log")), str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "SUCCESS" in checked.stdout + checked.stderr


def test_training_does_not_import_the_compiler():
    code = "import sys, train; sys.exit('torch._dynamo' in sys.modules)"  # it would cost each run more than a second
    assert subprocess.run([sys.executable, "-c", code], cwd=FOLDER, timeout=120).returncode == 0


def test_the_same_seed_gives_the_same_run(bert, monkeypatch, contract, tmp_path):
    def accuracies(folder):
        changes = {"LOGDIR": str(tmp_path / folder), "TARGET": "1.0", "EVAL_INTERVAL": "6", "TRAINING_STEPS": "30"}
        assert run(bert, monkeypatch, contract, **changes, BASE_LEARNING_RATE="0.05") == 1
        return [value for key, value, _ in mllog(contract | changes) if key == "eval_accuracy"]

    first = accuracies("first")
    assert (len(first), len(set(first)) > 1) == (30, True)
    assert accuracies("again") == first


def test_another_seed_gives_other_weights_and_another_order(bert, monkeypatch, contract):
    starts = []

    def only_look(model, moments, batches, steps, settings):
        starts.append((model.pooler.weight.detach().clone(), next(batches).input_ids))
        return 0.0

    monkeypatch.setattr(bert.train, "train", only_look)
    for seed in ("8", "9"):
        assert run(bert, monkeypatch, contract, SEED=seed) == 0
    assert all(not torch.equal(one, other) for one, other in zip(*starts, strict=True))


def test_accumulated_gradients_are_those_of_the_mean_of_the_parts(bert, sizes, rng):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes)
    rows = sequences(rng, 6)

    def gradient(first, last, accumulation_steps):
        model.zero_grad()
        part = {name: values[first:last] for name, values in rows.items()}
        batch = next(bert.data.evaluation_batches(part, 6))
        loss = bert.train.backward(model, batch, accumulation_steps)
        return loss, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    whole, parts = gradient(0, 6, 3), [gradient(first, first + 2, 1) for first in (0, 2, 4)]
    torch.testing.assert_close(whole[0], sum(loss for loss, _ in parts) / 3)
    torch.testing.assert_close(whole[1], sum(gradients for _, gradients in parts) / 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"TARGET": "1.0"}, "TARGET=1.0 was not met"), ({"BASE_LEARNING_RATE": "nan"}, "the loss is nan")],
)
def test_a_run_that_does_not_converge_is_logged_as_aborted(bert, monkeypatch, capsys, contract, changes, said):
    assert run(bert, monkeypatch, contract, **changes) == 1
    assert said in capsys.readouterr().err
    assert mllog(contract)[-1][2]["status"] == "aborted"


def damage(name, place=(0, 1), value=None):
    """A change to the first training file: one value of a dataset, or the whole dataset removed."""

    def apply(folder):
        with h5py.File(folder / "train" / "part_00000_of_00005.hdf5", "a") as file:
            if value is None:
                del file[name]
            else:
                file[name][place] = value

    return apply


def keep_four(folder):
    for path in sorted((folder / "train").iterdir())[4:]:
        path.unlink()


def no_training(folder):
    for path in (folder / "train").iterdir():
        path.unlink()


def cut_short(folder):
    path = folder / "train" / "part_00000_of_00005.hdf5"
    path.write_bytes(path.read_bytes()[:1000])


def nothing_masked(folder):
    damage("masked_lm_positions", ..., 0)(folder)


@pytest.mark.parametrize(
    ("change", "settings", "said"),
    [
        (lambda folder: (folder / "vocab.txt").unlink(), {}, "vocab.txt: expected the vocabulary"),
        (lambda folder: (folder / "eval" / "part_eval.hdf5").unlink(), {}, "part_eval.hdf5: expected a file"),
        (no_training, {}, "expected part_*_of_*.hdf5, found none"),
        (cut_short, {}, "part_00000_of_00005.hdf5: expected HDF5"),
        (damage("segment_ids"), {}, "segment_ids"),
        (damage("input_ids", value=VOCABULARY), {}, "expected input_ids from 0 to 29, found 0 to 30"),
        (damage("masked_lm_ids", value=-1), {}, "masked_lm_ids from 0 to 29"),
        (damage("masked_lm_positions", value=TOKENS), {}, "masked_lm_positions from 0 to 11"),
        (damage("next_sentence_labels", place=0, value=2), {}, "next_sentence_labels from 0 to 1"),
        (nothing_masked, {}, "expected masked positions, found none"),
        (keep_four, {"GLOBAL_BATCH_SIZE": "30"}, "GLOBAL_BATCH_SIZE=30: expected at most 28"),
        (None, {"MAX_POSITION_EMBEDDINGS": "8"}, "found sequences of 12"),
        (None, {"GLOBAL_BATCH_SIZE": "7"}, "GLOBAL_BATCH_SIZE=7: expected a multiple"),
        (None, {"GLOBAL_BATCH_SIZE": "0"}, "GLOBAL_BATCH_SIZE=0: expected 1 or more"),
        (None, {"START_WARMUP_STEP": "5"}, "START_WARMUP_STEP=5"),
        (None, {"EVAL_INTERVAL": "-1"}, "EVAL_INTERVAL=-1"),
        (None, {"HIDDEN_SIZE": "9"}, "HIDDEN_SIZE=9: expected a multiple"),
        (None, {"SEED": "-1"}, "SEED=-1"),
        (None, {"DGXNGPU": "8"}, "one process on the CPU"),
        (None, {"BETA_1": "high"}, "BETA_1=high"),
    ],
)
def test_what_is_wrong_is_said_with_status_2(bert, monkeypatch, capsys, dataset, contract, change, settings, said):
    if change:
        change(dataset)
    assert (
        run(bert, monkeypatch, contract, **({"EVAL_INTERVAL": "48"} | settings), TRAINING_STEPS="8", TARGET="1.0") == 2
    )
    assert said in capsys.readouterr().err
    lines = mllog(contract) if (Path(contract["LOGDIR"]) / "mllog.txt").exists() else []
    assert not lines or lines[-1][2]["status"] == "aborted"
