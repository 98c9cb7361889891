"""BERT: the network, loss, LAMB and schedule against independent formulas, its processes, and whole runs.

Needs the implementations' requirements (containers/common/requirements.txt) beside pytest.
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from implementations.implementation import CONTAINERS, accepted, config, convergence_points, modules, processes, records
from implementations.wikipedia import TOKENS, VOCABULARY, sequences, write_dataset, write_fixed

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")
h5py = pytest.importorskip("h5py")

FOLDER = CONTAINERS / "bert"


@pytest.fixture(scope="module")
def bert():
    with modules(FOLDER) as loaded:
        yield loaded


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
        positions = positions[positions > 0]
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
    return np.concatenate(masked), np.array(following)


@pytest.mark.parametrize("pack", [False, True])
def test_scores_and_loss_are_the_references_however_many_sequences_are_in_a_row(bert, sizes, rng, tmp_path, pack):
    torch.manual_seed(1)
    model = bert.model.Bert(sizes).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # biases and norms too, so that each of them shows
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    rows = sequences(rng, 9)
    batch = batch_of(bert, sizes, rows, tmp_path, pack)
    assert (len(batch.input_ids) < 9) == pack

    scores, next_scores = model(*batch[:6])
    expected, expected_next = numpy_bert(weights, rows, sizes.num_attention_heads)
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(next_scores.detach().numpy(), expected_next, rtol=1e-9, atol=1e-9)

    loss = bert.model.pretraining_loss(scores, batch.masked_ids, next_scores, batch.next_labels)

    def surprise(values, label):
        return np.log(np.exp(values).sum()) - values[label]

    words = rows["masked_lm_ids"][rows["masked_lm_positions"] > 0]
    masked = sum(map(surprise, expected, words)) / (len(words) + 1e-5)
    follows = np.mean(list(map(surprise, expected_next, rows["next_sentence_labels"])))
    assert loss.item() == pytest.approx(masked + follows, rel=1e-9)


def test_packed_rows_give_the_gradients_of_the_sequences_alone(bert, sizes, rng, tmp_path):
    gradients = []
    for pack in (False, True):
        torch.manual_seed(1)
        model = bert.model.Bert(sizes).double()
        batch = batch_of(bert, sizes, sequences(np.random.default_rng(2), 9), tmp_path, pack)
        words, following = model(*batch[:6])
        bert.model.pretraining_loss(words, batch.masked_ids, following, batch.next_labels).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def batch_of(bert, sizes, rows, folder, pack):
    """The rows as one batch, in float64 no less."""
    write_fixed(folder / "rows.hdf5", rows)
    read = bert.data.read(folder / "rows.hdf5", sizes)
    return bert.loader.evaluation_batches(read, len(read), 0, 1, TOKENS, pack)[0]


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
    assert bert.settings.reference_interval(batch) == interval


def test_blocks_end_at_the_first_step_beyond_each_multiple_and_at_the_last(bert):
    def ends(**settings):
        blocks = list(bert.settings.blocks(bert.settings.Settings(**settings)))
        assert [step for block in blocks for step in block] == list(range(settings["training_steps"]))
        return [block.stop for block in blocks]

    assert ends(global_batch_size=448, training_steps=1100) == [335, 670, 1005, 1100]  # ceil(k * 150000 / 448)
    assert ends(global_batch_size=100, training_steps=4, eval_interval=30) == [1, 2, 3, 4]
    assert ends(global_batch_size=10, training_steps=6, eval_interval=30) == [3, 6]


# Trainers


@pytest.fixture
def contract(tmp_path, rng):
    """The environment of a run that is small and meets its target at its second evaluation or so."""
    return {
        **{"DATADIR": write_dataset(tmp_path / "hdf5", rng), "LOGDIR": tmp_path / "log", "SEED": 5},
        **{"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"},
        **{"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research", "OMP_NUM_THREADS": 1, "CLEAR_CACHE": "data"},
        **{"HIDDEN_SIZE": 8, "NUM_HIDDEN_LAYERS": 1, "NUM_ATTENTION_HEADS": 2, "INTERMEDIATE_SIZE": 8},
        **{"DROPOUT": 0, "INITIALIZER_RANGE": 0.3},
        **{"MAX_POSITION_EMBEDDINGS": TOKENS, "GLOBAL_BATCH_SIZE": 6, "GRADIENT_ACCUMULATION_STEPS": 2},
        **{"BASE_LEARNING_RATE": 0.01, "TRAINING_STEPS": 4, "EVAL_INTERVAL": 10, "EVAL_SAMPLES": 6, "TARGET": 0.0},
    }


@pytest.fixture
def build(bert, monkeypatch, contract):
    """A trainer for one process as `main` makes it, with some settings changed."""

    def make(world=None, **changes: object):
        for name, value in (contract | changes).items():
            monkeypatch.setenv(name, str(value))
        read = bert.common.contract.read_settings
        sizes = dataclasses.replace(read(bert.model.Sizes), vocab_size=VOCABULARY)
        world = world or bert.common.distributed.World()
        return bert.train.Trainer(bert.common.contract.read_contract(), read(bert.settings.Settings), sizes, world)

    return make


@pytest.mark.parametrize("pack", [0, 1])
def test_the_accuracy_is_pooled_over_words_whatever_the_batches_and_processes(bert, build, contract, rng, pack):
    rows = sequences(rng, 7)
    path = contract["DATADIR"] / "eval" / "part_eval.hdf5"
    write_fixed(path, rows)
    trainer = build(EVAL_SAMPLES=7)
    read = bert.data.read(path, trainer.sizes)
    with torch.no_grad():
        best = trainer.scores(bert.loader.evaluation_batches(read, 7, 0, 1, TOKENS, False)[0])[0].argmax(1).numpy()
    used = rows["masked_lm_positions"] > 0
    right = rng.random(used.sum()) < 0.5
    rows["masked_lm_ids"][used] = np.where(right, best, (best + 1) % VOCABULARY)
    write_fixed(path, rows)

    counted = []

    class Counting(bert.common.distributed.World):
        def sum(self, values):
            counted.append(values.tolist())
            return values

    for batch in (1, 3, 7):
        for count in (1, 3):
            counted.clear()
            for rank in range(count):
                trainer = build(EVAL_SAMPLES=7, EVAL_BATCH_SIZE=batch, PACK=pack)
                trainer.world = Counting(rank, count)
                trainer.open_data()
                trainer.evaluate()
            assert np.sum(counted, axis=0).tolist() == [right.sum(), used.sum()]


def test_accumulated_gradients_are_those_of_the_mean_of_the_parts(build):
    def gradient(trainer, parts):
        trainer.network.zero_grad()
        loss = sum(trainer.backward(part, number == len(parts)) for number, part in enumerate(parts, 1))
        return loss, torch.cat([weight.grad.flatten() for weight in trainer.weights])

    trainer, single = build(GRADIENT_ACCUMULATION_STEPS=3), build(GRADIENT_ACCUMULATION_STEPS=1)
    trainer.open_data()
    parts = [next(trainer.parts) for _ in range(3)]
    whole, alone = gradient(trainer, parts), [gradient(single, [part]) for part in parts]
    torch.testing.assert_close(whole[0], sum(loss for loss, _ in alone) / 3)
    torch.testing.assert_close(whole[1], sum(gradients for _, gradients in alone) / 3)


def test_a_step_clips_and_then_takes_lambs_step_at_the_rate_of_the_schedule(build, rng):
    trainer = build(BASE_LEARNING_RATE=0.5, TRAINING_STEPS=8, WARMUP_STEPS=4, START_WARMUP_STEP=-1)
    before = [weight.detach().double().numpy() for weight in trainer.weights]
    gradients = [rng.normal(size=weight.shape) for weight in trainer.weights]
    for weight, gradient in zip(trainer.weights, gradients, strict=True):
        weight.grad = torch.from_numpy(gradient).float()
    trainer.update(2)
    clip = 1 / np.sqrt(sum((gradient**2).sum() for gradient in gradients))
    names = [name for name, _ in trainer.network.named_parameters()]
    for name, weight, start, gradient in zip(names, trainer.weights, before, gradients, strict=True):
        update = clip * gradient / (np.abs(clip * gradient) + 1e-6)  # the first step's moments without their bias
        if not (name.endswith("bias") or "layer_norm" in name):
            update += 0.01 * start
            update *= np.linalg.norm(start) / np.linalg.norm(update)
        expected = start - 0.5 * (2 + 1) / 4 * update
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-4, atol=1e-6, err_msg=name)
        assert weight.grad is None


STEPS = """
import dataclasses, json, torch, train
from common.contract import read_contract, read_settings
from common.distributed import join, leave
torch.set_default_dtype(torch.float64)
contract, settings = read_contract(), read_settings(train.Settings)
sizes = dataclasses.replace(read_settings(train.Sizes), vocab_size=30)
world = join(contract)
trainer = train.Trainer(contract, settings, sizes, world)
trainer.open_data()
losses = [trainer.train([step]) for step in range(settings.training_steps)]
answer = {"losses": losses, "accuracy": trainer.evaluate()}
answer["weights"] = torch.cat([weight.detach().flatten() for weight in trainer.weights]).tolist()
if world.rank == 0:
    print(json.dumps(answer))
leave(world)
"""


def test_two_processes_train_as_one_does(contract):
    contract |= {"BASE_LEARNING_RATE": 0.1, "TRAINING_STEPS": 8, "GLOBAL_BATCH_SIZE": 12}
    one = processes(1, FOLDER, contract | {"GRADIENT_ACCUMULATION_STEPS": 4}, STEPS)
    two = processes(2, FOLDER, contract | {"GRADIENT_ACCUMULATION_STEPS": 2, "WORKERS": 1, "PACK": 1}, STEPS)
    assert one["losses"][0] != pytest.approx(one["losses"][-1], rel=1e-3)
    assert two["accuracy"] == one["accuracy"]
    for name in ("losses", "weights"):
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_each_process_drops_out_its_own(bert, build):
    drawn = []
    for rank in range(2):
        build(bert.common.distributed.World(rank))
        drawn.append(torch.rand(8))
    assert not torch.equal(*drawn)


# What only a GPU does, with a GPU's part played


def test_warming_up_leaves_everything_as_it_was(build):
    trainer, same = build(), build()
    trainer.warm_up()
    assert all(map(torch.equal, trainer.weights, same.weights))
    assert trainer.moments.step == 0 and not any(moment.any() for moment in trainer.moments.first)
    assert all(weight.grad is None for weight in trainer.weights)


def test_a_gpu_that_is_too_small_is_told_the_memory_it_needs(bert, build, monkeypatch, capsys):
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(name="Small GPU", total_memory=8 * 2**30)
    )
    one_gpu, reference = (
        bert.common.distributed.World(device=torch.device("cuda", 0)),
        bert.settings.Settings(bf16=True),
    )
    with pytest.raises(SystemExit) as end:
        bert.train.check_memory(reference, bert.model.Sizes(), one_gpu)
    assert end.value.code == 3
    said = capsys.readouterr().err
    assert "Small GPU has 8.0 GiB: expected more than 16." in said and "for 28 sequences at once" in said

    def full(*arguments):
        raise torch.OutOfMemoryError

    trainer = build()
    monkeypatch.setattr(trainer, "backward", full)
    with pytest.raises(SystemExit) as end:
        trainer.warm_up()
    assert end.value.code == 3
    assert "for 3 sequences at once; set a higher GRADIENT_ACCUMULATION_STEPS (now 2)" in capsys.readouterr().err


def test_bfloat16_gives_nearly_the_same_loss_and_gradients_in_full_precision(build):
    losses = []
    for bf16 in (0, 1):
        trainer = build(BF16=bf16, PACK=1)
        trainer.open_data()
        losses.append(trainer.backward(next(trainer.parts), True).item())
        assert all(weight.grad.dtype == torch.float32 for weight in trainer.weights)
        assert 0 <= trainer.evaluate() <= 1
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.02)


# Configs


@pytest.mark.parametrize("name", ["1xH200", "8xH100", "8xH200", "8xA100", "multi-node"])
def test_configs_take_their_values_from_a_convergence_point_and_fit_their_gpus(bert, monkeypatch, name):
    variables = config(FOLDER / "configs" / f"{name}.env")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    settings = bert.common.contract.read_settings(bert.settings.Settings)
    world = bert.common.distributed.World(size=int(variables["DGXNNODES"]) * int(variables["DGXNGPU"]))
    bert.settings.check(settings, bert.model.Sizes(), world)
    bert.settings.check_reference(settings, bert.model.Sizes())
    logged = bert.settings.hyperparameters(settings)
    for ruleset in ("3.1.0", "5.0.0"):
        point = convergence_points("bert", ruleset)[settings.global_batch_size]
        point["opt_lamb_epsilon"] = point.pop("opt_epsilon")
        del point["gradient_accumulation_steps"]  # the same batch in more parts
        assert {key: logged[key] for key in point} == point
    memory = {"1xH200": 141e9, "8xA100": 40e9}.get(name, 80e9)
    assert bert.train.least_bytes(settings, bert.model.Sizes(), world) < 0.6 * memory


# Runs


@pytest.fixture
def run(bert, monkeypatch, contract):
    """The run in this process with some settings changed; gives its exit status and the records of its log."""

    def start(**changes: object) -> tuple[int, list[dict]]:
        for name, value in (contract | changes).items():
            monkeypatch.setenv(name, str(value))
        status = 0
        try:
            bert.train.main()
        except SystemExit as end:
            status = end.code
        return status, records(Path(os.environ["LOGDIR"]))

    return start


def texts(environment: dict[str, object]) -> dict[str, str]:
    """For a process of its own, which finds this Python."""
    return (
        os.environ
        | {name: str(value) for name, value in environment.items()}
        | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    )


def test_a_run_logs_what_the_rules_ask_for_in_their_order(contract):
    subprocess.run([FOLDER / "run_and_time.sh"], env=texts(contract), check=True, timeout=120)
    log = records(contract["LOGDIR"])
    keys = [record["key"] for record in log]
    assert keys[:3] == ["cache_clear", "init_start", "submission_benchmark"]
    block = ["block_start", "epoch_start", "epoch_stop", "eval_start", "eval_accuracy", "eval_stop", "block_stop"]
    assert keys[keys.index("init_stop") :] == [
        *("init_stop", "run_start", "eval_samples"),
        *block,
        *("train_samples", "run_stop"),
    ]
    facts = {record["key"]: record["value"] for record in log}
    assert (facts["seed"], facts["global_batch_size"], facts["gradient_accumulation_steps"]) == (5, 6, 2)
    assert (facts["opt_base_learning_rate"], facts["opt_learning_rate_training_steps"]) == (0.01, 4)
    assert (facts["num_warmup_steps"], facts["opt_learning_rate_warmup_steps"], facts["start_warmup_step"]) == (0, 0, 0)
    assert (facts["train_samples"], facts["eval_samples"]) == (12, 6)
    metadata = {record["key"]: record["metadata"] for record in log}
    assert (metadata["block_start"]["first_epoch_num"], metadata["block_start"]["epoch_count"]) == (0, 12)
    assert metadata["eval_accuracy"]["epoch_num"] == 12  # the first step at or beyond 10 samples
    assert metadata["run_stop"]["status"] == "success"
    assert accepted(contract["LOGDIR"] / "mllog.txt", "3.1.0")


def test_a_run_does_not_import_the_compiler(contract):  # it would cost each run more than a second
    code = "import sys, train; train.main(); print(int('torch._dynamo' in sys.modules))"
    assert processes(1, FOLDER, contract, code) == 0


def test_a_rehearsal_counts_in_samples_and_evaluates_when_the_rules_ask(tmp_path):
    command = [FOLDER / "run_and_time.sh", "--log-only", "--round", "5.0.0"]
    subprocess.run(command, env=texts({"LOGDIR": tmp_path}), check=True, timeout=120)
    log = records(tmp_path)
    evaluated = [record["metadata"]["epoch_num"] for record in log if record["key"] == "eval_accuracy"]
    assert evaluated[:3] == [
        448 * step for step in (335, 670, 1005)
    ]  # the first steps from 150,000, 300,000, 450,000 on
    values = {record["key"]: record["value"] for record in log}
    assert (values["train_samples"], values["eval_samples"], values["eval_accuracy"]) == (evaluated[-1], 10_000, 0.72)


def test_the_same_seed_gives_the_same_run_and_another_one_another(run, tmp_path):
    def accuracies(folder, seed):
        changes = {"LOGDIR": tmp_path / folder, "TARGET": 1.1, "EVAL_INTERVAL": 6, "TRAINING_STEPS": 30, "SEED": seed}
        status, log = run(**changes, BASE_LEARNING_RATE=0.05)
        assert status == 1
        return [record["value"] for record in log if record["key"] == "eval_accuracy"]

    first = accuracies("first", 5)
    assert (len(first), len(set(first)) > 1) == (30, True)
    assert accuracies("again", 5) == first != accuracies("other", 6)


def test_another_seed_gives_other_weights_and_another_order(build):
    one, other = build(SEED=8), build(SEED=9)
    assert not torch.equal(one.network.pooler.weight, other.network.pooler.weight)
    one.open_data(), other.open_data()
    assert not torch.equal(next(one.parts).input_ids, next(other.parts).input_ids)


def test_sigterm_ends_a_run_with_loaders_aborted_and_without_half_a_line(contract):
    contract |= {"WORKERS": 1, "TRAINING_STEPS": 10_000_000, "TARGET": 1.1}
    run = subprocess.Popen([sys.executable, "train.py"], cwd=FOLDER, env=texts(contract), stderr=subprocess.PIPE)
    try:
        end = time.monotonic() + 120
        while len(records(contract["LOGDIR"])) < 60 and time.monotonic() < end:
            time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 128 + signal.SIGTERM
    finally:
        run.kill()
    log = records(contract["LOGDIR"])
    assert (log[-1]["key"], log[-1]["metadata"]["status"]) == ("run_stop", "aborted")


# Bad input


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"TARGET": 1.1}, "TARGET=1.1 was not met"), ({"BASE_LEARNING_RATE": "nan"}, "the loss is nan after 12 samples")],
)
def test_a_run_that_does_not_converge_is_logged_as_aborted(run, capsys, changes, said):
    status, log = run(**changes)
    assert (status, log[-1]["metadata"]["status"]) == (1, "aborted")
    assert said in capsys.readouterr().err


def break_a_training_file(folder: Path) -> None:
    path = folder / "train" / "part_00003_of_00005.hdf5"
    path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_training_file_that_cannot_be_read_ends_the_run_aborted_and_is_named(contract, workers):
    break_a_training_file(contract["DATADIR"])
    contract |= {"WORKERS": workers, "TARGET": 1.1}
    command = [sys.executable, "train.py"]
    done = subprocess.run(command, cwd=FOLDER, env=texts(contract), capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "part_00003_of_00005.hdf5: expected HDF5" in done.stderr
    assert records(contract["LOGDIR"])[-1]["metadata"]["status"] == "aborted"


def unlink(*names: str):
    return lambda folder: [(folder / name).unlink() for name in names]


@pytest.mark.parametrize(
    ("damage", "changes", "said"),
    [
        (unlink("vocab.txt"), {}, "vocab.txt: expected the vocabulary"),
        (unlink("eval/part_eval.hdf5"), {}, "part_eval.hdf5: expected a file"),
        (unlink("train/part_00003_of_00005.hdf5"), {}, "expected 5 files, found 4"),
        (None, {"EVAL_SAMPLES": 10_000}, "expected EVAL_SAMPLES=10000 sequences, found 6"),
        (None, {"GLOBAL_BATCH_SIZE": 36}, "GLOBAL_BATCH_SIZE=36: expected no more sequences"),
        (None, {"MAX_POSITION_EMBEDDINGS": 8}, "expected at most MAX_POSITION_EMBEDDINGS=8"),
        (None, {"GLOBAL_BATCH_SIZE": 7}, "GLOBAL_BATCH_SIZE=7: expected a multiple"),
        (None, {"GLOBAL_BATCH_SIZE": 0}, "GLOBAL_BATCH_SIZE=0: expected 1 or more"),
        (None, {"START_WARMUP_STEP": 5}, "START_WARMUP_STEP=5"),
        (None, {"EVAL_INTERVAL": -1}, "EVAL_INTERVAL=-1"),
        (None, {"WORKERS": -1}, "WORKERS=-1: expected 0 or more"),
        (None, {"HIDDEN_SIZE": 9}, "HIDDEN_SIZE=9: expected a multiple"),
        (None, {"SEED": -1}, "SEED=-1"),
        (None, {"DGXNGPU": 8}, "DGXNGPU=8: expected 8 processes, found 1"),
        (None, {"BETA_1": "high"}, "BETA_1=high"),
        (None, {"DATADIR": "/nowhere"}, "DATADIR /nowhere: expected a folder"),
        (None, {"CHECKPOINT": "model.ckpt-28252"}, "model.ckpt-28252: expected a checkpoint of TensorFlow"),
        (None, {"MLPERF_DIVISION": "closed"}, "MLPERF_DIVISION=closed: expected VOCAB_SIZE=30522, found 30"),
    ],
)
def test_what_is_wrong_is_said_with_status_2(run, capsys, contract, damage, changes, said):
    if damage:
        damage(contract["DATADIR"])
    status, log = run(**changes)
    assert status == 2
    assert said in capsys.readouterr().err
    assert not any(record["key"] == "run_stop" and record["metadata"]["status"] != "aborted" for record in log)
    assert not log or log[-1]["key"] != "run_start"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"eval_samples": 500, "checkpoint": "x"}, "expected EVAL_SAMPLES=10000, found 500"),
        ({"target": 0.7, "checkpoint": "x"}, "expected TARGET=0.72, found 0.7"),
        ({}, "expected CHECKPOINT, the benchmark starts from one"),
    ],
)
def test_a_closed_run_is_on_the_benchmarks_data_and_from_its_start(bert, capsys, changes, said):
    with pytest.raises(SystemExit) as end:
        bert.settings.check_reference(bert.settings.Settings(**changes), bert.model.Sizes())
    assert end.value.code == 2 and said in capsys.readouterr().err
