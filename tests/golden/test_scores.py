"""Scores against published ones: the fixtures' logs to 1e-9, and every row of round 3.0 from its run times."""

from __future__ import annotations

import csv

import pytest

from podium.verdict import tree
from podium.verdict.score import rows
from podium.verdict.score.olympic import olympic
from support import SHARED

PUBLISHED = SHARED / "data" / "published"
pytestmark = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no shared/data/published beside the checkout")

# The official score is of the first kind of run times there is; these logs the official summarizer falls over (power
# logs that start when they stop), so that there is no figure to compare with.
NO_OFFICIAL_SCORE = {"v4.0/smc-dc-power/results/1xSMC-H100-SXM-80GB/dlrm_dcnv2/"}
# Their logs count epochs where the RCPs count samples: the manifest has the checker's answer without
# --rcp-bert-train-samples, a factor of millions; ours reads train_samples.
READ_BY_SAMPLES = {
    "v1.0/nettrix/results/X660 G45_SXM4-80G-BPS_pytorch/bert/",
    "v1.0/NVIDIA/results/dgxa100_ngc21.05_pytorch/bert/",
}


def manifest() -> dict[str, dict[str, str]]:
    if not PUBLISHED.is_dir():
        return {}
    with (PUBLISHED / "fixtures" / "MANIFEST.csv").open() as file:
        return {row["path"]: row for row in csv.DictReader(file) if row["kind"].startswith("result dir")}


def published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def scored() -> dict[str, rows.Row]:
    found = {}
    for version in ("v1.0", "v3.0", "v4.0", "v5.1"):
        for row in rows.scores(tree.read(PUBLISHED / "fixtures" / version), f"{version[1:]}.0"):
            found[f"{version}/{row.submitter}/results/{row.system}/{row.benchmark}/"] = row
    return found


def same(mine: float | None, theirs: str, within: float) -> bool:
    if theirs in ("", "nan"):
        return mine is None
    return mine is not None and abs(mine - float(theirs)) <= within


@pytest.mark.parametrize("path", manifest())
def test_a_fixture_has_its_published_score_and_scaling(scored, path):
    mine, theirs = scored[path], manifest()[path]
    if path not in NO_OFFICIAL_SCORE:
        assert same(mine.official_minutes, theirs["score_minutes_unscaled"], 1e-9)
        assert same(mine.published_minutes, theirs["score_minutes_published"], 1e-9)
    assert same(mine.published_scaling, theirs["published_scaling"], 1e-9)
    if path in READ_BY_SAMPLES:
        assert mine.norm.endswith("by train_samples")
        assert mine.rcp_norm == 1.0
    else:
        assert same(mine.rcp_norm, theirs["rcp_norm"], 1e-9)


def test_every_published_score_of_round_3_follows_from_its_run_times():
    rows = published("published_scores_v3.0.csv")
    for row in rows:
        statuses = ["success"] * int(row["n_logs"]) if row["statuses"] == "all success" else row["statuses"].split(";")
        times = [float(t) if s == "success" else None for t, s in zip(row["times"].split(";"), statuses, strict=True)]
        minutes = olympic(times, row["benchmark"]).minutes
        assert minutes == pytest.approx(float(row["score_minutes"]), abs=1e-4), row["path"]
    assert len(rows) == 177


def test_the_rows_of_round_3_that_we_have_logs_of_agree(scored):
    compared = 0
    for row in published("published_scores_v3.0.csv"):
        mine = scored.get(f"v3.0/{row['path']}/")
        if mine is not None:
            assert mine.raw_minutes == pytest.approx(float(row["score_minutes"]), abs=1e-4)
            compared += 1
    assert compared == 10


def test_the_scaling_of_round_3_is_the_official_one(scored):
    compared = 0
    for row in published("official_verdicts_v3.0.csv"):
        mine = scored.get(f"v3.0/{row['submitter']}/results/{row['system']}/{row['benchmark']}/")
        if mine is not None:
            assert same(mine.rcp_norm, row["rcp_norm"], 1e-9)
            assert same(mine.official_minutes, row["official_score_unscaled"], 1e-9)
            compared += 1
    assert compared == 11
