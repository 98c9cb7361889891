"""Foreign configs, sourced shut in: what they export, and that nothing else of them stays."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.reproduce import sandbox, source_config
from podium.reproduce.folder import Folder
from podium.reproduce.sandbox import Inside


@pytest.fixture(params=["bwrap", "unshare"])
def shut(request, monkeypatch):
    """Each way to shut code in, where it works."""
    if sandbox._run(request.param, Inside(("true",), seconds=20), None).returncode:
        pytest.skip(f"{request.param} does not work here")
    monkeypatch.setattr(sandbox, "way", lambda: request.param)


@pytest.fixture
def source(tmp_path):
    """Source a config with the given text and other files beside it."""

    def read(text: str, runs: int = 1, name: str = "config_one.sh", **others: str) -> source_config.Sourced:
        home = tmp_path / "tree" / "code"
        home.mkdir(parents=True, exist_ok=True)
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(text.encode())
        for other, content in others.items():
            (home / other.replace("__", ".")).write_text(content)
        return source_config.read(Folder(tmp_path / "tree", PurePosixPath("code")), name, runs)

    return read


def test_exports_are_read_with_arithmetic_on_nexp_and_the_name_of_the_file(source, shut):
    text = "export DGXNNODES=1\nexport WALLTIME=$((${NEXP} * 80))\nHIDDEN=1\n"
    text += "export DGXSYSTEM=$(basename $(readlink -f ${BASH_SOURCE[0]}) | sed 's/^config_//' | sed 's/\\.sh$//')\n"
    found = source(text, runs=2)
    assert found.exports == {"DGXNNODES": "1", "WALLTIME": "160", "DGXSYSTEM": "one"}
    assert (found.minutes, found.number("DGXNNODES"), found.notes) == (160, 1, ())


def test_crlf_is_taken_off_and_told(source):
    found = source("export A=1\r\nexport B=two\r\n")
    assert found.exports == {"A": "1", "B": "two"}
    assert "CRLF" in found.notes[0]


def test_a_missing_common_file_is_told_or_taken_from_the_folder_beside(source, tmp_path):
    text = "export A=1\n. $(dirname ${BASH_SOURCE[0]})/config_common.sh\n"
    assert "config_common.sh, which is missing" in source(text).notes[0]
    beside = tmp_path / "tree" / "other"
    beside.mkdir()
    (beside / "config_common.sh").write_text("export B=2\n")
    found = source(text)
    assert found.exports == {"A": "1", "B": "2"}
    assert "that of other is taken" in found.notes[0]


def test_a_config_in_a_folder_of_configs_finds_the_common_file_above(source):
    found = source(". $(dirname $BASH_SOURCE)/config_common.sh\n", name="configs/config_a.sh",
                   config_common__sh="export B=2\n")  # fmt: skip
    assert found.exports == {"B": "2"}


def test_an_env_file_exports_all_of_its_variables(source):
    assert source("A=1\nB=2\n", name="one.env").exports == {"A": "1", "B": "2"}


def test_a_config_that_ends_the_shell_or_breaks_it_still_tells_what_it_exported(source):
    assert source("export A=1\nexit 3\n").exports == {"A": "1"}
    found = source("export A=1\nif then\n")
    assert any(note.startswith("bash: ") for note in found.notes)


def test_a_config_that_never_ends_is_stopped(source, monkeypatch):
    monkeypatch.setattr(source_config, "SECONDS", 1)
    assert "did not end" in source("export A=1\nsleep 60\n").notes[0]


HOSTILE = (
    "export A=1\nrm -rf /* ../* {home} 2>/dev/null\n"
    "echo gone >{home}/mine 2>/dev/null\n"
    "export SECRET=$PODIUM_TEST_SECRET USERS=$(wc -l </etc/passwd 2>/dev/null) HOMES=$(ls {home} 2>/dev/null)\n"
    "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && export REACHED=1\n"
    "head -c 100000000 /dev/zero >big 2>/dev/null\nexport Z=1\n"
)


def test_nothing_outside_of_the_copy_is_seen_reached_or_changed(source, shut, tmp_path, monkeypatch):
    import socket

    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("mine")
    monkeypatch.setenv("PODIUM_TEST_SECRET", "secret")
    before = sorted(map(str, Path("/").iterdir()))
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = source(HOSTILE.format(home=home, port=server.getsockname()[1]))
    assert found.exports.get("SECRET", "") == ""
    assert "REACHED" not in found.exports
    assert found.exports.get("HOMES", "") == ""
    assert (home / "mine").read_text() == "mine"
    assert (tmp_path / "tree" / "code" / "config_one.sh").read_text().startswith("export A=1")
    assert sorted(map(str, Path("/").iterdir())) == before


WALLTIMES = {"80": 80, "00:30:00": 30, "01:00:00": 60, "12:30:30": 751, "1-00:00:00": 1440, "10:30": 11,
             "UNLIMITED": None, "": None, "$((NEXP*80))": None}  # fmt: skip


@pytest.mark.parametrize(("text", "minutes"), WALLTIMES.items())
def test_time_limits_are_read_in_all_their_forms(text, minutes):
    assert source_config.minutes(text) == minutes


@given(st.integers(0, 9), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_time_limit_is_rounded_up_to_whole_minutes(days, hours, minutes, seconds):
    text = f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    assert source_config.minutes(text) == days * 1440 + hours * 60 + minutes + (seconds > 0)


@given(st.text(max_size=40))
def test_any_text_is_a_number_of_minutes_or_none(text):
    assert source_config.minutes(text) is None or source_config.minutes(text) >= 0


def test_the_sandbox_sees_only_what_it_is_given(shut, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    (given / "file").write_text("x")
    words = ("bash", "-c", "ls /given; touch /given/new; echo $?; id -u; ls /tmp")
    inside = Inside(words, read=((str(given), "/given"),), seconds=20)
    output = tmp_path / "output"
    sandbox.run(inside, output)
    lines = output.read_text().split()
    assert lines[0] == "file"
    assert lines[1] != "0"
    assert not (given / "new").exists()
    assert str(Path.home()) not in output.read_text()
