"""TFRecord and tf.train.Example: the bytes of the formats, and damage that must not go unseen."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.data.formats import example, tfrecord
from podium.errors import BadInput

# {"a": [1]} by hand: Features > entry > key, Feature > Int64List > packed values.
ONE = bytes.fromhex("0a0c0a0a0a016112051a030a0101")


def written(*parts: bytes) -> bytes:
    return b"".join(tfrecord.frame(*parts))


def test_a_record_is_length_and_data_each_with_its_masked_crc():
    # crc32c of "123456789" is the check value of the algorithm (RFC 3720): e3069283.
    masked = ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32
    record = written(b"12345", b"6789")
    assert record[:8] == struct.pack("<Q", 9)
    assert record[12:] == b"123456789" + struct.pack("<I", masked)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_what_was_written_is_read(tmp_path_factory, payloads):
    path = tmp_path_factory.mktemp("tfrecord") / "x"
    path.write_bytes(b"".join(map(written, payloads)))
    assert list(tfrecord.read(path)) == payloads


def test_every_flipped_byte_and_every_cut_is_found(tmp_path):
    path, whole = tmp_path / "x", written(b"first") + written(b"second")
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    cut = [whole[:size] for size in range(1, len(whole)) if size != len(written(b"first"))]
    for content in damaged + cut:
        path.write_bytes(content)
        with pytest.raises(BadInput, match="damaged at byte"):
            list(tfrecord.read(path))


def test_a_scan_goes_on_behind_damaged_data(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(written(b"first").replace(b"first", b"worst") + written(b"second"))
    assert list(tfrecord.scan(path)) == [(0, b"worst", False), (21, b"second", True)]


def test_an_example_has_the_bytes_of_protocol_buffers():
    assert b"".join(example.encode({"a": [1]})) == ONE
    assert b"".join(example.encode({"a": 1})) == ONE
    assert example.decode(ONE) == {"a": [1]}


features = st.dictionaries(
    st.text(max_size=5),
    st.one_of(
        st.lists(st.binary(max_size=200), min_size=1, max_size=3),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
        st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=5),
    ),
    max_size=5,
)


@given(features)
def test_an_example_is_read_as_it_was_written(values):
    message = b"".join(example.encode(values))
    assert example.decode(message) == values
    assert message == b"".join(example.encode(dict(reversed(values.items())))), "the order of the names is fixed"


def test_large_values_are_not_copied():
    image = bytes(100_000)
    assert any(piece is image for piece in tfrecord.frame(*example.encode({"image": image, "label": 3})))


@pytest.mark.parametrize("message", [b"\x08\x01", ONE[:-1], b"\x0a", b"<html>", b"\xff" * 12])
def test_what_is_no_example_is_refused(message):
    with pytest.raises(ValueError, match="no tf.train.Example"):
        example.decode(message)
