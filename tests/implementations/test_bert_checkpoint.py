"""BERT's start: TensorFlow's checkpoint files, written here from their format's description, and the reference's names.

The reader was also held against files that TensorFlow 2.21 itself wrote (tf.compat.v1.train.Saver, the same names).
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from implementations.implementation import CONTAINERS, modules

torch = pytest.importorskip("torch", reason="PyTorch belongs to the implementations, not to the pipeline")

HIDDEN, LAYERS, INNER, WORDS, PLACES = 8, 2, 10, 30, 12


@pytest.fixture(scope="module")
def bert():
    with modules(CONTAINERS / "bert") as loaded:
        yield loaded


def reference_tensors() -> dict[str, np.ndarray]:
    """The variables of the reference's network with random values, and some of its optimiser's."""
    square, row = (HIDDEN, HIDDEN), (HIDDEN,)
    shapes = {
        "bert/embeddings/word_embeddings": (WORDS, HIDDEN),
        "bert/embeddings/position_embeddings": (PLACES, HIDDEN),
        "bert/embeddings/token_type_embeddings": (2, HIDDEN),
        **{"bert/pooler/dense/kernel": square, "bert/pooler/dense/bias": row},
        **{"cls/predictions/transform/dense/kernel": square, "cls/predictions/transform/dense/bias": row},
        **{"cls/predictions/output_bias": (WORDS,)},
        **{"cls/seq_relationship/output_weights": (2, HIDDEN), "cls/seq_relationship/output_bias": (2,)},
    }
    norms = ["bert/embeddings/LayerNorm", "cls/predictions/transform/LayerNorm"]
    for layer in (f"bert/encoder/layer_{number}" for number in range(LAYERS)):
        for name in ("query", "key", "value"):
            shapes |= {f"{layer}/attention/self/{name}/kernel": square, f"{layer}/attention/self/{name}/bias": row}
        for name, shape in (
            ("attention/output", square),
            ("intermediate", (HIDDEN, INNER)),
            ("output", (INNER, HIDDEN)),
        ):
            shapes |= {f"{layer}/{name}/dense/kernel": shape, f"{layer}/{name}/dense/bias": shape[1:]}
        norms += [f"{layer}/attention/output/LayerNorm", f"{layer}/output/LayerNorm"]
    shapes |= {f"{norm}/{name}": row for norm in norms for name in ("gamma", "beta")}
    shapes |= {f"{name}/adam_m": shape for name, shape in shapes.items()}
    random = np.random.default_rng(3)
    return {name: random.normal(size=shape).astype("<f4") for name, shape in shapes.items()}


def varint(number: int) -> bytes:
    return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    """A field of a protobuf message; as the format wants it, a 0 is left out."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value) if value else b""
    return varint(number << 3 | 2) + varint(len(value)) + value


def block(pairs: list[tuple[bytes, bytes]], restart: int = 16) -> bytes:
    """A block of LevelDB's table, with its trailer: not compressed, and a checksum that is not looked at."""
    out, last, restarts = b"", b"", []
    for number, (key, value) in enumerate(pairs):
        shared = 0
        if number % restart == 0:
            restarts.append(len(out))
        else:
            shared = next(
                (i for i, (a, b) in enumerate(zip(key, last, strict=False)) if a != b), min(len(key), len(last))
            )
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return out + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts)) + b"\0" + bytes(4)


def write(prefix: Path, tensors: dict[str, np.ndarray], a_block: int = 20) -> None:
    """PREFIX.index and one data file, with `a_block` tensors in a block of the index."""
    offset, pairs = 0, [(b"", field(1, 1) + field(3, field(1, 1)))]
    with Path(f"{prefix}.data-00000-of-00001").open("wb") as data:
        for name, values in sorted(tensors.items()):
            shape = b"".join(field(2, field(1, size)) for size in values.shape)
            kind = {"f": 1, "i": 9}[values.dtype.kind]
            entry = field(1, kind) + field(2, shape) + field(4, offset) + field(5, values.nbytes)
            pairs.append((name.encode(), entry + varint(6 << 3 | 5) + b"\1\2\3\4"))
            offset += data.write(values.tobytes())
    table, handles = b"", []
    for first in range(0, len(pairs), a_block):
        part = pairs[first : first + a_block]
        handles.append((part[-1][0] + b"~", varint(len(table)) + varint(len(block(part)) - 5)))
        table += block(part)
    nothing = varint(len(table)) + varint(len(block([])) - 5)
    table += block([])
    index = varint(len(table)) + varint(len(block(handles)) - 5)
    table += block(handles)
    footer = (nothing + index).ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")
    Path(f"{prefix}.index").write_bytes(table + footer)


def small(bert):
    sizes = {"vocab_size": WORDS, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "intermediate_size": INNER}
    return bert.model.Sizes(**sizes, num_attention_heads=2, max_position_embeddings=PLACES)


@pytest.fixture
def model(bert):
    return bert.model.Bert(small(bert))


@pytest.mark.parametrize("a_block", [1, 20, 1000])
def test_every_weight_comes_from_the_checkpoint(bert, model, tmp_path, a_block):
    tensors = reference_tensors()
    write(tmp_path / "model.ckpt-28252", tensors | {"global_step": np.array(28252)}, a_block)
    bert.checkpoint.start_from(tmp_path / "model.ckpt-28252", model)
    taken = set()
    for parameter_name, parameter in model.named_parameters():
        name, turned = bert.checkpoint.tensor_name(parameter_name)
        taken.add(name)
        np.testing.assert_array_equal(parameter.detach().numpy(), tensors[name].T if turned else tensors[name])
    assert taken == {name for name in tensors if not name.endswith("adam_m")}
    # Of the square ones shapes do not tell which way round they are; a dense layer is x @ kernel there.
    x = np.random.default_rng(1).normal(size=(3, HIDDEN)).astype("f4")
    dense = "bert/encoder/layer_1/attention/output/dense"
    expected = x @ tensors[f"{dense}/kernel"] + tensors[f"{dense}/bias"]
    found = model.layers[1].attention.output(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_run_starts_from_the_checkpoint_below_datadir(bert, model, tmp_path, monkeypatch):
    write(tmp_path / "model.ckpt-28252", reference_tensors())
    for name, value in {
        **{"DATADIR": tmp_path, "LOGDIR": tmp_path / "logs", "SEED": 1, "CHECKPOINT": "model.ckpt-28252"},
        **{"MLPERF_SUBMISSION_ORG": "tests", "MLPERF_SUBMISSION_PLATFORM": "host"},
        **{"MLPERF_DIVISION": "open", "MLPERF_STATUS": "research"},
    }.items():
        monkeypatch.setenv(name, str(value))
    contract = bert.common.contract.read_contract()
    settings = bert.common.contract.read_settings(bert.settings.Settings)
    trainer = bert.train.Trainer(contract, settings, small(bert), bert.common.distributed.World())
    bert.checkpoint.start_from(tmp_path / "model.ckpt-28252", model)
    assert all(map(torch.equal, trainer.weights, model.parameters()))


def cut_short(prefix: Path) -> None:
    path = Path(f"{prefix}.data-00000-of-00001")
    path.write_bytes(path.read_bytes()[:-4000])


def rewrite(**changes: np.ndarray):
    return lambda prefix: write(prefix, reference_tensors() | changes)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            lambda prefix: Path(f"{prefix}.index").unlink(),
            "expected a checkpoint of TensorFlow (model.ckpt-28252.index)",
        ),
        (lambda prefix: Path(f"{prefix}.index").write_bytes(b"PK" * 40), "not a table of LevelDB's kind"),
        (lambda prefix: Path(f"{prefix}.data-00000-of-00001").unlink(), "it is missing or cut short"),
        (cut_short, "it is missing or cut short"),
        (
            rewrite(**{"bert/pooler/dense/bias": np.zeros(9, "<f4")}),
            "expected bert/pooler/dense/bias (8,) in float32, found Entry(kind=1, shape=(9,)",
        ),
        (rewrite(**{"bert/pooler/dense/bias": np.zeros(8, "<i8")}), "found Entry(kind=9, shape=(8,)"),
        (
            rewrite(**{"bert/pooler/dense/bias": np.full(8, np.nan, "<f4")}),
            "expected numbers in bert/pooler/dense/bias",
        ),
    ],
)
def test_what_is_not_the_references_checkpoint_is_refused(bert, model, tmp_path, capsys, damage, said):
    prefix = tmp_path / "model.ckpt-28252"
    write(prefix, reference_tensors())
    damage(prefix)
    with pytest.raises(SystemExit) as end:
        bert.checkpoint.start_from(prefix, model)
    assert end.value.code == 2 and said in capsys.readouterr().err


def test_a_missing_tensor_is_named(bert, model, tmp_path, capsys):
    tensors = reference_tensors()
    del tensors["cls/predictions/output_bias"]
    write(tmp_path / "model.ckpt-1", tensors)
    with pytest.raises(SystemExit):
        bert.checkpoint.start_from(tmp_path / "model.ckpt-1", model)
    assert "expected cls/predictions/output_bias (30,) in float32, found None" in capsys.readouterr().err
