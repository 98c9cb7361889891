"""What happens to logs on their way: lines lost, doubled, glued, cut; bytes of other worlds; records of other types."""

from __future__ import annotations

import json

from hypothesis import strategies as st

TOKEN = b":::MLLOG "
PIECES = st.sampled_from(
    [
        b"\r",
        b"\n",
        b"\r\n",
        b"\x00",
        b"\x1b[A",
        b"\x85",
        b"\xa0",
        b"\x0b",
        b"\xff\xfe",
        TOKEN,
        TOKEN[:-1],
        b"null",
        b"{",
        b"}",
    ]
    + [b'"', b" ", b"NaN", b"\\ud800", b"9" * 30, b'"value": null, ', b'"metadata": [], ', b"[" * 300]
)
VALUES = st.sampled_from(
    [
        None,
        "",
        0,
        -1,
        1.5,
        "text",
        [],
        {},
        True,
        1e300,
        float("nan"),
        float("inf"),
        10**30,
        "closed",
        "open",
        "bert",
        "../x",
    ]
)
KEYS = st.sampled_from(
    [
        "seed",
        "eval_accuracy",
        "submission_division",
        "submission_benchmark",
        "run_start",
        "run_stop",
        "init_start",
        "train_samples",
    ]
)


@st.composite
def mutated(draw: st.DrawFn, logs: st.SearchStrategy[bytes]) -> bytes:
    """A log with a few things wrong with it."""
    lines = draw(logs).split(b"\n")
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(lines) - 1))
        change = draw(st.sampled_from([_lose, _double, _insert, _cut, _glue, _swap, _retype, _replace]))
        change(draw, lines, place)
    return b"\n".join(lines)


def _lose(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    if len(lines) > 1:
        del lines[place]


def _double(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    lines.insert(draw(st.integers(0, len(lines))), lines[place])


def _insert(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    at = draw(st.integers(0, len(lines[place])))
    lines[place] = lines[place][:at] + draw(PIECES) + lines[place][at:]


def _cut(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    at = draw(st.integers(0, len(lines[place])))
    lines[place] = lines[place][:at] + lines[place][at + draw(st.integers(1, 400)) :]


def _glue(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    lines[place] += lines[draw(st.integers(0, len(lines) - 1))]


def _swap(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    other = draw(st.integers(0, len(lines) - 1))
    lines[place], lines[other] = lines[other], lines[place]


def _retype(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    """Another value, key, time or metadata in a record, or one of them taken out."""
    try:
        record = json.loads(lines[place].rpartition(TOKEN)[2])
    except ValueError:
        return
    if not isinstance(record, dict) or not record:
        return
    part = draw(st.sampled_from(sorted(record)))
    kind = draw(st.sampled_from(["value", "key", "without", "inner"]))
    inner = record.get("metadata")
    if kind == "without":
        del record[part]
    elif kind == "inner" and isinstance(inner, dict) and inner:
        inner[draw(st.sampled_from(sorted(inner)))] = draw(VALUES)
    elif kind == "key":
        record["key"] = draw(KEYS)
    else:
        record[part] = draw(VALUES)
    lines[place] = TOKEN + json.dumps(record).encode()


def _replace(draw: st.DrawFn, lines: list[bytes], place: int) -> None:
    lines[place] = TOKEN + draw(
        st.sampled_from([b"null", b"[]", b"3", b'"x"', b"", b"{}", b'{"key": 1}', b"NaN", b"{half"])
    )
