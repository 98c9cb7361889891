"""Verdicts on real, published results: equal to the unmodified official tool, also on what mutation makes of them."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from mutations import mutated
from podium import manifest
from podium.verdict import submission, tree
from podium.verdict.judge import Verdict
from podium.verdict.official import rulefiles
from podium.verdict.reading import cache
from podium.verdict.submission import Submission
from support import SHARED

FIXTURES = SHARED / "data" / "published" / "fixtures"
if not FIXTURES.exists():
    pytest.skip("no published results beside the checkout", allow_module_level=True)

ROUNDS = {"v1.0": "1.0.0", "v1.1": "1.1.0", "v3.0": "3.0.0", "v4.0": "4.0.0", "v5.1": "5.1.0"}
SUBMITTERS = sorted(path for path in FIXTURES.glob("v*/*") if (path / "results").is_dir())
LOGS = sorted(FIXTURES.rglob("*result_*.txt"))
ROWS = list(csv.DictReader((FIXTURES / "MANIFEST.csv").open(encoding="utf-8")))


def round_of(path: Path) -> str:
    return next(ROUNDS[part] for part in path.parts if part in ROUNDS)


def check(path: Path) -> Submission:
    seen, round = tree.read(path), round_of(path)
    known = cache.digests([log for result in seen.results for log in result.logs], round, None)
    return submission.check(seen, known, round)[0]


@pytest.fixture(scope="module")
def heard(tmp_path_factory) -> dict[Path, tuple[Submission, oracle.Heard, Path]]:
    """Every submitter, judged by both on a copy: the official tool writes into what it checks."""
    root = tmp_path_factory.mktemp("published")
    copies = {path: root / path.relative_to(FIXTURES) for path in SUBMITTERS}
    for path, copy in copies.items():
        shutil.copytree(path, copy, copy_function=shutil.copyfile)
        for folder, _, _ in os.walk(copy):
            Path(folder).chmod(0o755)
    ours = {path: check(copy) for path, copy in copies.items()}
    theirs = oracle.package_checker([(copy, round_of(path), ()) for path, copy in copies.items()])
    return {path: (ours[path], said, copies[path]) for path, said in zip(SUBMITTERS, theirs, strict=True)}


def ids(path: Path) -> str:
    return str(path.relative_to(FIXTURES))


@pytest.mark.parametrize("path", SUBMITTERS, ids=ids)
def test_the_package_checker_says_the_same(heard, path):
    ours, theirs, _ = heard[path]
    assert ours.plain == theirs.answer


@pytest.mark.parametrize("path", SUBMITTERS, ids=ids)
def test_every_result_gets_the_same_words_and_the_same_scaling(heard, path):
    """Without flags; where bert was read the other way than the tool does without its flag, the RCP test apart."""
    ours, theirs, copy = heard[path]
    for verdict in ours.verdicts:
        folder = verdict.result.shown()
        said = [oracle.normal(text) for text in verdict.messages]
        told = theirs.messages[folder]
        if verdict.official != verdict.plain or verdict.rcp.way == "train_samples":
            said, told = ([text for text in texts if "RCP" not in text] for texts in (said, told))
        assert said == told
        answer = _default(verdict)
        if verdict.closed and answer is not None:
            assert theirs.rcp.get(folder) == (answer.message if answer.passed else None)
            written = verdict.result.folder / "scaling.json"
            slower = answer.reference is not None and answer.mean >= answer.reference.mean
            factor = json.loads(written.read_text())["scaling_factor"] if written.exists() else None
            assert factor == (answer.scaling if answer.passed and not slower else None)


def _default(verdict: Verdict):
    """The RCP test as the tool makes it without its flag for bert."""
    outcome = verdict.rcp if verdict.rcp.way == "epoch_num" else verdict.rcp_otherwise
    return outcome.answer


@pytest.mark.parametrize("path", SUBMITTERS, ids=ids)
def test_with_the_flag_for_bert_the_words_are_the_same_too(heard, path):
    ours, _, copy = heard[path]
    chosen = [verdict for verdict in ours.verdicts if verdict.rcp.way == "train_samples"]
    if not chosen:
        pytest.skip("no result of this submitter is read by train_samples")
    (theirs,) = oracle.package_checker([(copy, round_of(path), ["--rcp-bert-train-samples"])])
    for verdict in chosen:
        assert [oracle.normal(text) for text in verdict.messages] == theirs.messages[verdict.result.shown()]
        answer = verdict.rcp.answer
        assert theirs.rcp.get(verdict.result.shown()) == (answer.message if answer.passed else None)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["kind"].startswith("result dir")], ids=lambda row: row["path"]
)
def test_the_listed_verdict_is_reproduced(row):
    """MANIFEST.csv, made with another harness around version 4.1.59."""
    (verdict,) = check(FIXTURES / row["path"]).verdicts
    assert sum(run.compliant for run in verdict.runs) == int(row["compliance_pass"])
    if row["compliance_dir"]:
        assert verdict.compliance == row["compliance_dir"].lower()
    if row["seed"]:
        assert verdict.seeds == row["seed"].lower()
    answer = _default(verdict)
    assert (answer.passed, answer.message) == (row["rcp"] == "pass", row["rcp_msg"])
    norm = float(row["rcp_norm"])
    assert math.isnan(norm) and math.isnan(answer.scaling) or answer.scaling == pytest.approx(norm, rel=1e-12)
    if row["rcp_with_bert_train_samples"]:
        other = verdict.rcp if verdict.rcp.way == "train_samples" else verdict.rcp_otherwise
        assert other.answer.passed == (row["rcp_with_bert_train_samples"] == "pass")


def test_what_the_tool_passes_over_is_told():
    close = check(FIXTURES / "v1.0" / "PCL")
    assert {finding.rule for finding in close.every} >= {"division-word"}
    nested = [finding for finding in check(FIXTURES / "v1.0" / "Habana").every if finding.rule == "logs-stray"]
    assert [finding.path for finding in nested] == ["Habana/results/SYS-420GH-TNGR/resnet/bert"]


@pytest.mark.parametrize("path", LOGS, ids=ids)
def test_every_log_is_known_as_the_official_functions_know_it(path):
    oracle.compare(path, round_of(path))


@pytest.mark.parametrize("round", rulefiles.rounds())
def test_a_log_of_every_benchmark_is_judged_alike_under_every_round(round):
    """Rounds without published results are held this way too: most logs break their rules, each in its own words."""
    smallest = {path.parent.name: path for path in sorted(LOGS, key=lambda path: -path.stat().st_size)}
    for path in smallest.values():
        oracle.compare(path, round)


def test_checking_twice_gives_the_same_and_leaves_the_tree(tmp_path):
    path = FIXTURES / "v3.0" / "Azure"
    before = manifest.of_folder(path)
    logs = [log for result in tree.read(path).results for log in result.logs]
    first = cache.digests(logs, "3.0.0", tmp_path)
    assert cache.digests(logs, "3.0.0", tmp_path) == first
    assert check(path) == check(path)
    assert manifest.of_folder(path) == before


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_spoilt_logs_get_the_official_answer(data):
    small = [path for path in LOGS if path.stat().st_size < 40_000]
    path = data.draw(st.sampled_from(small))
    content = data.draw(mutated(st.just(path.read_bytes())))
    with tempfile.TemporaryDirectory() as place:
        spoilt = Path(place) / "result_0.txt"
        spoilt.write_bytes(content)
        oracle.compare(spoilt, round_of(path))
