"""Nights of real processes: a step that somebody made slower is found, with what changed, and by bisection."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from podium import cli, files, plan
from podium import config as configuration
from podium.images import build
from podium.nightly import history
from podium.runs import ledger
from support import SCRIPTED, config_text, first_plan

NIGHTLY = {"results": [{"system": "host", "benchmark": "resnet", "runs": 2, "samples": 192}], "smallest_percent": 30}
ARGUMENTS = ("--system", "host", "--benchmark", "resnet")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A work root with data, and a scripted implementation of its own, whose steps can be made slower."""
    from podium import manifest

    base = tmp_path_factory.mktemp("site")
    source = base / "implementation"
    shutil.copytree(SCRIPTED, source)
    text = config_text(base / "work", "steps", nightly=NIGHTLY)
    text["results"][0]["implementation"] = str(source)
    path = base / "config.yaml"
    path.write_text(yaml.safe_dump(text))
    config = configuration.load(path)
    folder = plan.layout_folder(config, config.dataset("imagenet"))
    folder.mkdir(parents=True)
    (folder / "train.rec").write_bytes(b"records")
    manifest.write(folder, manifest.of_folder(folder))
    return config, source


def built(config, source: Path, extra: str | None) -> dict:
    """Build the implementation with an extra sleep in its step; returns its lock."""
    (source / "extra_sleep").unlink(missing_ok=True)
    if extra:
        (source / "extra_sleep").write_text(extra)
    build.build(config, first_plan(config))
    return files.read_json(plan.image_file(config, first_plan(config)))


def nightly(config, *words: str) -> int:
    return cli.main(["nightly", *words[:1], "--config", str(config.path), *words[1:]])


def a_night(config, name: str) -> int:
    return cli.main(["nightly", "--config", str(config.path), "--night", name])


def answer(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_a_planted_slowdown_is_found_within_three_nights_with_the_image_as_what_changed(site, capsys):
    config, source = site
    built(config, source, None)
    statuses = [a_night(config, f"2026-11-{day:02}") for day in range(1, 13)]
    assert statuses == [0] * 12, capsys.readouterr().err
    built(config, source, "0.15")
    statuses = [a_night(config, f"2026-11-{day:02}") for day in range(13, 16)]
    assert statuses[-1] == 1, capsys.readouterr()
    capsys.readouterr()
    assert nightly(config, "show", "--json") == 1
    told = answer(capsys)
    series = {item["metric"]: item for item in told["series"]}
    assert (series["step"]["word"], series["step"]["since"]) == ("slower", "2026-11-13")
    assert 150 < series["step"]["percent"] < 450  # from 50 ms to 200 ms, on a machine with other work
    (cause,) = told["causes"]
    assert (cause["since"], cause["last_good"]) == ("2026-11-13", "2026-11-12")
    assert cause["changes"][0]["kind"] == "image"
    page = (config.root / "reports" / "nightly.html").read_text()
    assert "slower by" in page and "http" not in page.replace("http://www.w3.org", "")


def test_a_night_lies_apart_from_the_submission_and_was_cut_as_asked(site):
    config, _ = site
    assert not plan.result_folder(config, first_plan(config)).exists()
    records = [history.read(path) for path in (config.root / "nightly/history/2026-11-01").iterdir()]
    assert {record.outcome for record in records} == {"cut"}
    assert {record.steps["count"] for record in records} == {6}
    run = files.read_json(config.root / "nightly" / records[0].folder / "run.json")
    assert run["outcome"] == "not_converged"


def test_a_night_that_is_started_again_runs_nothing_twice(site):
    config, _ = site
    before = sorted(path for path in (config.root / "nightly").rglob("*.json"))
    a_night(config, "2026-11-15")
    assert sorted(path for path in (config.root / "nightly").rglob("*.json")) == before


def test_a_night_that_is_killed_goes_on_and_loses_or_repeats_no_run(site):
    config, _ = site
    command = [sys.executable, "-m", "podium", "nightly", "--config", str(config.path), "--night"]
    for day, file in enumerate(("job.json", "run.json", "result.txt"), 1):
        name = f"2026-12-{day:02}"
        runs = config.root / "nightly" / "nights" / name / "runs" / "host" / "resnet"
        head = subprocess.Popen([*command, name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not list(runs.glob(f"*/{file}")) and time.monotonic() < deadline:
            time.sleep(0.005)
        head.kill()
        head.wait()
        a_night(config, name)
        assert len(list((config.root / "nightly" / "history" / name).iterdir())) == 2
        assert len([item for item in ledger.attempts(runs) if item.countable]) == 2
        assert len(ledger.attempts(runs)) == 2, "what went on without its head is waited for, not launched again"


def test_bisection_over_images_names_the_first_slow_one(site, capsys, tmp_path):
    config, source = site
    locks = []
    for number, extra in enumerate((None, "0.0001", "0.0002", "0.15", "0.1501")):
        lock = built(config, source, extra)
        folder = tmp_path / str(number)
        shutil.copytree(lock["implementation"], folder / "implementation")
        files.write_json(folder / "image.json", lock | {"implementation": str(folder / "implementation")})
        locks.append(str(folder / "image.json"))
    assert nightly(config, "bisect", *ARGUMENTS, "--json", "--images", *locks) == 1
    told = answer(capsys)
    assert (told["last_good"], told["first_bad"]) == (locks[2], locks[3])
    assert told["share"] > 0.7 and told["low"] > 0
    assert nightly(config, "bisect", *ARGUMENTS, "--json", "--images", *locks) == 1
    assert answer(capsys)["measured"] == told["measured"], "the same question is answered from what was measured"


def test_bisection_over_commits_names_the_slow_one_and_leaves_the_checkout_alone(site, capsys):
    config, source = site
    git = ["git", "-C", str(source), "-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    commits = []
    for extra in (None, "0.0001", "0.15", "0.1501"):
        (source / "extra_sleep").write_text(extra or "0")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"sleep {extra}"], check=True)
        commits.append(
            subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        )
    (source / "extra_sleep").write_text("left lying here")
    assert nightly(config, "bisect", *ARGUMENTS, "--json", "--commits", "--good", commits[0], "--bad", "HEAD") == 1
    told = answer(capsys)
    assert (told["last_good"], told["first_bad"]) == (commits[1], commits[2])
    assert (source / "extra_sleep").read_text() == "left lying here"


def test_bisection_over_drivers_selects_each_by_the_site_s_command(site, capsys):
    """The driver is a file outside of the image that every step sleeps by."""
    config, source = site
    driver, log = source.parent / "driver", source.parent / "selected"
    script = source / "run_and_time.sh"
    script.write_text(script.read_text().replace("extra_sleep", str(driver)))
    built(config, source, None)
    names = ["0.0000", "0.0001", "0.15", "0.1501"]
    words = ("--candidates", *names, "--select", f"echo $1 > {driver}; echo $1 >> {log}")
    assert nightly(config, "bisect", *ARGUMENTS, "--json", *words) == 1
    told = answer(capsys)
    assert (told["last_good"], told["first_bad"]) == ("0.0001", "0.15")
    selected = log.read_text().split()
    assert all(one != other for one, other in zip(selected, selected[1:], strict=False)), "it is in place already"
