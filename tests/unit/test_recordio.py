"""RecordIO: the bytes of the format, the magic word inside a payload, and damaged files."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.data.formats import recordio
from podium.errors import BadInput

MAGIC = bytes.fromhex("0a23d7ce")


def written(payload: bytes, head: bytes = b"") -> bytes:
    return b"".join(recordio.frame(head, payload))


@pytest.mark.parametrize(
    ("payload", "record"),
    [
        (b"", MAGIC + b"\0\0\0\0"),
        (b"abcd", MAGIC + b"\4\0\0\0abcd"),
        (b"abcde", MAGIC + b"\5\0\0\0abcde\0\0\0"),
        (b"ab" + MAGIC, MAGIC + b"\6\0\0\0ab" + MAGIC + b"\0\0"),  # not at a multiple of 4: a record like any other
        (b"abcd" + MAGIC + b"ef", MAGIC + b"\4\0\0\x20abcd" + MAGIC + b"\2\0\0\x60ef\0\0"),
        (MAGIC, MAGIC + b"\0\0\0\x20" + MAGIC + b"\0\0\0\x60"),
        (MAGIC * 2 + b"x", MAGIC + b"\0\0\0\x20" + MAGIC + b"\0\0\0\x40" + MAGIC + b"\1\0\0\x60x\0\0\0"),
    ],
)
def test_a_record_is_cut_where_the_magic_word_stands_at_a_multiple_of_4(payload, record):
    assert written(payload) == record


pieces = st.lists(st.sampled_from([MAGIC, b"\0", b"\xce", MAGIC[:3], b"jpeg", b"\xff\xd8"]), max_size=12).map(b"".join)


@given(st.lists(st.tuples(st.sampled_from([b"", b"head", MAGIC]), pieces), max_size=6))
def test_what_was_written_is_read(tmp_path_factory, payloads):
    path = tmp_path_factory.mktemp("rec") / "x.rec"
    records = [written(payload, head) for head, payload in payloads]
    path.write_bytes(b"".join(records))
    starts = [sum(map(len, records[:number])) for number in range(len(records))]
    assert list(recordio.read(path)) == [
        (start, head + payload) for start, (head, payload) in zip(starts, payloads, strict=True)
    ]


def test_the_head_of_an_image_is_flag_label_id_id2():
    head = recordio.image_head(999, 1281166)
    assert head == struct.pack("<IfQQ", 0, 999.0, 1281166, 0)
    assert recordio.image(head + b"jpeg") == (0, 999.0, 1281166, 0, b"jpeg")


def test_a_file_cut_at_any_byte_is_refused_or_ends_after_a_record(tmp_path):
    records = [written(b"abcd" + MAGIC + b"ef"), written(b"xyz")]
    whole, path = b"".join(records), tmp_path / "x.rec"
    ends = {0: 0, len(records[0]): 1, len(whole): 2}
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        if size in ends:
            assert len(list(recordio.read(path))) == ends[size]
        else:
            with pytest.raises(BadInput, match="damaged at byte"):
                list(recordio.read(path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"<html>404", "the magic word"),
        (written(MAGIC)[8:], "the first part of a record"),
        (written(MAGIC)[:8] + written(b"abcd"), "all parts of the record"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, content, expected):
    path = tmp_path / "x.rec"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"x\.rec: damaged at byte 0") as error:
        list(recordio.read(path))
    assert expected in error.value.expected
