"""The MLLOG parser: what counts as a record, what is broken, and that no content makes it fall over."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.compliance_checker import mlp_parser

from mutations import mutated
from podium.verdict.reading import logs
from podium.verdict.reading.logs import Broken, LogLine
from support import in_a_process
from synthetic import log, record

RUN = [
    record("init_start", time_ms=1_000),
    record("seed", 7),
    record("global_batch_size", 32),
    record("run_start", time_ms=61_000),
    "0: " + record("eval_accuracy", 0.25, 91_000, epoch_num=1),
    "training goes on",
    record("eval_accuracy", 0.75, 121_000, epoch_num=2),
    record("run_stop", time_ms=181_000, status="success"),
]


def read(tmp_path, content: bytes) -> list[LogLine | Broken]:
    path = tmp_path / "log.txt"
    path.write_bytes(content)
    return list(logs.records(path))


def test_a_run_is_summarised(tmp_path):
    run = logs.summarise(read(tmp_path, "\n".join(RUN).encode()))
    assert (run.status, run.minutes, run.seed, run.batch_size, run.converged) == ("success", 2.0, 7, 32, True)
    assert [(item.epoch, item.value, item.minutes) for item in run.evaluations] == [(1, 0.25, 0.5), (2, 0.75, 1.0)]
    assert run.broken == ()


def test_lines_are_counted_from_one_and_records_from_zero(tmp_path):
    items = read(tmp_path, "\r\n".join(["chatter", *RUN]).encode())
    assert [(item.line, item.lineno) for item in items] == [(2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (8, 5), (9, 6)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n"])
def test_a_line_ends_as_in_the_official_parser(tmp_path, end):
    items = read(tmp_path, end.join(line.encode() for line in RUN))
    assert [item.key for item in items] == [
        line.rpartition('"key": "')[2].split('"')[0] for line in RUN if "MLLOG" in line
    ]


def test_the_last_token_of_a_line_counts(tmp_path):
    (item,) = read(tmp_path, (record("lost") + record("kept")).encode())
    assert item.key == "kept"


def test_broken_lines_are_named_by_number(tmp_path):
    lines = ["", ":::MLLOG {half", ":::MLLOG 3", ':::MLLOG {"time_ms": 1}', record("x") + " trailing"]
    broken = logs.summarise(read(tmp_path, "\n".join(lines).encode())).broken
    assert [item.line for item in broken] == [2, 3, 4, 5]
    assert [bool(item.fatal) for item in broken] == [False, True, True, False]
    assert broken[2].why == "no key"


def test_a_log_without_run_stop_has_no_minutes(tmp_path):
    run = logs.summarise(read(tmp_path, "\n".join(RUN[:-1]).encode()))
    assert (run.status, run.minutes, run.converged) == (None, None, False)


def test_an_evaluation_without_a_number_is_no_point(tmp_path):
    lines = [record("eval_accuracy", None, epoch_num=1), record("eval_accuracy", 0.5)]
    assert logs.summarise(read(tmp_path, "\n".join(lines).encode())).evaluations == ()


def test_every_byte_can_be_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(bytes(range(256)) + b"\n" + RUN[3].encode() + b"\r\n" + RUN[-1].encode())
    assert logs.read(path).minutes == 2.0


def test_records_that_lie_across_pieces_are_whole(monkeypatch):
    """Whatever the size of the pieces, also where they part a CRLF or a token."""
    content = b"\r\n".join(line.encode() for line in RUN) + b"\r" + RUN[1].encode() + b"\n"
    whole = list(logs.texts(io.BytesIO(content)))
    for size in (1, 2, 3, 7, 50, 211):
        monkeypatch.setattr(logs, "PIECE", size)
        assert list(logs.texts(io.BytesIO(content))) == whole


def test_a_line_without_end_needs_little_memory(tmp_path):
    """300 MB without a line end: before a record, and inside of one."""
    path = tmp_path / "log.txt"
    with path.open("wb") as file:
        for start in (b"", b":::MLLOG "):
            file.write(start)
            for _ in range(150):
                file.write(b"x" * 1_000_000)
            file.write(b"\n")
        file.write(RUN[0].encode())
    code = (
        "import sys; from pathlib import Path; from podium.verdict.reading import logs\n"
        "print(len(logs.read(Path(sys.argv[1])).broken))"
    )
    broken, peak = in_a_process(code, path)
    assert broken == "1"
    assert peak < 100_000_000


@given(mutated(st.just("\n".join(log()).encode())))
def test_any_log_is_read_as_the_official_parser_reads_it(content):
    """Same records and same errors; where the official parser raises, the first fatal line is the one it raises at."""
    text = io.TextIOWrapper(io.BytesIO(content), encoding="latin-1")
    ours = []
    for lineno, (line, found) in enumerate(logs.texts(io.BytesIO(content))):
        try:
            ours.append(logs.parse(found, lineno, line))
        except ValueError as error:
            ours.append((found, str(error)))
        except (KeyError, TypeError, OverflowError, RecursionError) as error:
            ours.append(error)
    fatal = [item for item in ours if isinstance(item, Exception)]
    try:
        lines, errors = mlp_parser.ruleset_310.parse_generator(text)
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        assert repr(fatal[0]) == repr(error)
        return
    assert not fatal
    assert [item for item in ours if isinstance(item, tuple)] == errors
    read = [item for item in ours if isinstance(item, LogLine)]
    names = ("full_string", "timestamp", "key", "value", "lineno")
    assert repr([[getattr(item, name) for name in names] for item in read]) == repr(
        [[getattr(item, name) for name in names] for item in lines]
    )
