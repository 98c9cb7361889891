"""Trees that are good, spoilt and odd: the unmodified package checker's answer, and a finding where it has none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import oracle
from podium import manifest
from podium.errors import BadInput
from podium.verdict import submission, tree
from podium.verdict.findings import ERROR, Finding, rules
from podium.verdict.reading import cache
from podium.verdict.submission import Submission
from synthetic import ROUND, log, record, write_description, write_log
from synthetic import tree as good_tree


def check(path: Path, round: str = ROUND) -> Submission:
    seen = tree.read(path)
    known = cache.digests([item for result in seen.results for item in result.logs], round, None)
    return submission.check(seen, known, round)[0]


def result(submitter: Path) -> Path:
    return submitter / "results" / "one" / "resnet"


def described(**changes) -> Callable[[Path], None]:
    return lambda submitter: write_description(submitter, "one", changes)


def relog(number: int, *lines: str, **changes) -> Callable[[Path], None]:
    """Write a log anew with other values, and more lines."""
    seed = changes.pop("seed", number)
    return lambda submitter: (
        write_log(result(submitter) / f"result_{number}.txt", [*log(seed, **changes), *lines]) and None
    )


def all_logs(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def spoil(submitter: Path) -> None:
        for number in range(5):
            write_log(result(submitter) / f"result_{number}.txt", change(log(number)))

    return spoil


def both(*spoil: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda submitter: [one(submitter) for one in spoil] and None


def params(text: str, place: str = "results/one/resnet") -> Callable[[Path], None]:
    return lambda submitter: (submitter / place / "package_checker_params").write_text(text) and None


def power(*names: str) -> Callable[[Path], None]:
    def spoil(submitter: Path) -> None:
        for name in names:
            path = result(submitter) / "power" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    return spoil


def without_division(submitter: Path) -> None:
    path = submitter / "systems" / "one.json"
    content = json.loads(path.read_text())
    del content["division"]
    path.write_text(json.dumps(content))


def fast(lines: list[str]) -> list[str]:
    return [line.replace('"epoch_num": 36', '"epoch_num": 20') for line in lines]


def move(old: str, new: str) -> Callable[[Path], None]:
    return lambda submitter: shutil.move(submitter / old, submitter / new) and None


EVERY_POWER = [f"result_{number}/node_0.txt" for number in range(5)]

# What is done to a good tree, and the rules of the errors that are found.
SPOILT: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "good": (lambda submitter: None, set()),
    # the runs
    "one log fails": (relog(0, quality=0.1), set()),
    "two logs fail": (both(relog(0, quality=0.1), relog(1, quality=0.1)), {"log-target", "runs-not-compliant"}),
    "a log lacks": (lambda s: (result(s) / "result_4.txt").unlink(), {"run-count"}),
    "a log more": (relog(5), {"run-count"}),
    "a log is a folder": (
        both(lambda s: (result(s) / "result_4.txt").unlink(), lambda s: (result(s) / "result_4.txt").mkdir()),
        {"log-unreadable"},
    ),
    "a log is a broken link": (
        both(lambda s: (result(s) / "result_4.txt").unlink(), lambda s: (result(s) / "result_4.txt").symlink_to("no")),
        {"log-unreadable", "repository-link"},
    ),
    "half a record": (relog(0, ":::MLLOG {half"), {"seed-unreadable"}),
    "no metadata": (relog(0, ':::MLLOG {"key": "x", "value": 1, "time_ms": 1}'), {"log-record"}),
    "quality is null": (relog(0, quality=None), {"log-value-type"}),
    "another benchmark in the logs": (
        all_logs(lambda lines: [line.replace('"resnet"', '"ssd"') for line in lines]),
        {"benchmark-other", "log-key", "log-value", "runs-not-compliant"},
    ),
    "a benchmark that is none": (
        all_logs(lambda lines: [line.replace('"resnet"', '"vgg"') for line in lines]),
        {"log-no-rules", "benchmark-other", "rcp-unknown"},
    ),
    "the logs are of the open division": (
        all_logs(lambda lines: [line.replace('"closed"', '"open"') for line in lines]),
        {"division-other"},
    ),
    "other files": (lambda s: (result(s) / "notes.txt").write_text("mine"), set()),
    "a hidden file": (lambda s: (result(s) / ".hidden").write_text("mine"), {"repository-name"}),
    # seeds
    "seeds repeat": (relog(1, seed=0), {"seed-repeated"}),
    "a seed twice in a log": (relog(1, record("seed", 1)), {"seed-repeated"}),
    "several seeds": (relog(1, record("seed", 77)), set()),
    "no seed": (all_logs(lambda lines: [line for line in lines if '"seed"' not in line]), {"seed-missing"}),
    "a seed that is none": (relog(1, record("seed", "many")), {"seed-unreadable"}),
    "seed bypass": (both(relog(1, seed=0), params("seed-checker-bypass")), set()),
    # convergence
    "too fast": (all_logs(fast), {"rcp-too-fast"}),
    "too fast, bypassed": (both(all_logs(fast), params("rcp-bypass")), set()),
    "too fast, bypass with a line end": (both(all_logs(fast), params("rcp-bypass\n")), {"rcp-too-fast"}),
    "too fast, bypass in the old spelling": (both(all_logs(fast), params("rcp_bypass")), {"rcp-too-fast"}),
    "too fast, bypass of the system": (both(all_logs(fast), params("rcp-bypass", "results/one")), set()),
    "no reference": (
        all_logs(lambda lines: [line.replace("3264", "1000000") for line in lines]),
        {"rcp-missing"},
    ),
    "batch sizes differ": (relog(2, global_batch_size=1632), {"rcp-batch-sizes"}),
    "no batch size": (
        all_logs(lambda lines: [line for line in lines if "global_batch_size" not in line]),
        {"log-key", "runs-not-compliant", "rcp-batch-size"},
    ),
    "aborted": (
        all_logs(lambda lines: [line.replace("success", "aborted") for line in lines]),
        {"rcp-convergence"},
    ),
    "no place of an evaluation": (relog(0, record("eval_accuracy", 0.76, 1)), {"rcp-unreadable"}),
    # the description
    "no description": (lambda s: (s / "systems" / "one.json").unlink(), {"description-missing"}),
    "no systems": (lambda s: shutil.rmtree(s / "systems"), {"description-missing"}),
    "half a description": (lambda s: (s / "systems" / "one.json").write_text("{"), {"description-unreadable"}),
    "a list as description": (
        lambda s: (s / "systems" / "one.json").write_text("[]"),
        {"description-field", "description-unreadable"},
    ),
    "no division": (without_division, {"description-field", "description-unreadable"}),
    "numbers in the description": (described(accelerators_per_node=8, submitter=5), {"description-unreadable"}),
    "number_of_nodes as number": (described(number_of_nodes=8), set()),
    "division close": (described(division="close"), set()),
    "division close, and too fast": (both(described(division="close"), all_logs(fast)), {"rcp-too-fast"}),
    "division Closed, and no seeds": (
        both(described(division="Closed"), all_logs(lambda lines: [line for line in lines if '"seed"' not in line])),
        {"seed-missing"},
    ),
    "division open": (both(described(division="open"), all_logs(fast)), set()),
    "division null": (described(division=None), set()),
    "a description alone": (lambda s: write_description(s, "other", {}), set()),
    # the tree
    "no results": (lambda s: shutil.rmtree(s / "results"), {"results-missing"}),
    "nothing in results": (lambda s: shutil.rmtree(s / "results" / "one"), {"results-empty"}),
    "no logs": (
        lambda s: [path.unlink() for path in result(s).iterdir()] and None,
        {"results-empty", "run-count", "rcp-no-logs"},
    ),
    "a misspelt benchmark": (move("results/one/resnet", "results/one/resnet50"), {"benchmark-unknown"}),
    "a folder that is no system": (
        lambda s: (s / "results" / ".ipynb" / "x").mkdir(parents=True),
        {"description-missing", "repository-name"},
    ),
    "logs too deep": (lambda s: shutil.copytree(result(s), result(s) / "again") and None, set()),
    "a file in results": (lambda s: (s / "results" / "checker.log").write_text(""), set()),
    # power
    "power of all runs": (power(*EVERY_POWER), set()),
    "power of one run lacks": (power(*EVERY_POWER[1:]), set()),
    "power of two runs lacks": (power(*EVERY_POWER[2:]), {"runs-not-compliant"}),
    "power without runs": (power("readme"), {"power-layout"}),
    "power of a node without number": (power(*EVERY_POWER, "result_0/node_a.txt"), {"power-layout"}),
}
NAMES = {
    "a space": "on e",
    "a plus": "one+",
    "a pattern": "on[e]",
    "a star": "on*",
    "letters of other alphabets": "één",
}


@dataclass(frozen=True)
class Case:
    submitter: Path
    official: oracle.Heard
    ours: Submission
    wanted: set[str]


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Case]:
    """Every spoilt tree judged by both, ours first: the official tool writes into what it checks."""
    root = tmp_path_factory.mktemp("trees")
    trees: dict[str, tuple[Path, set[str]]] = {}
    for number, (name, (spoil, wanted)) in enumerate(SPOILT.items()):
        submitter = good_tree(root / str(number))
        spoil(submitter)
        trees[name] = submitter, wanted
    for number, (name, system) in enumerate(NAMES.items()):
        submitter = good_tree(root / f"name{number}", system)
        errors = {"name-pattern", "run-count", "rcp-no-logs"} if "[" in system else set()
        trees[f"named with {name}"] = submitter, errors | ({"repository-name"} if " " in system else set())
    ours = {name: check(submitter) for name, (submitter, _) in trees.items()}
    heard = oracle.package_checker([(submitter, ROUND, ()) for submitter, _ in trees.values()])
    return {
        name: Case(submitter, official, ours[name], wanted)
        for (name, (submitter, wanted)), official in zip(trees.items(), heard, strict=True)
    }


def everything() -> list[str]:
    return [*SPOILT, *(f"named with {name}" for name in NAMES)]


@pytest.mark.parametrize("name", everything())
def test_the_answer_is_the_official_one(cases, name):
    case = cases[name]
    assert case.ours.official == case.official.answer, case.official.output[-500:]


@pytest.mark.parametrize("name", everything())
def test_the_words_are_the_official_ones(cases, name):
    """Up to where the official tool falls over, in every folder that it came to."""
    case = cases[name]
    for verdict in case.ours.verdicts:
        theirs = case.official.messages.get(verdict.result.shown())
        if theirs is not None:
            ours = [oracle.normal(text) for text in verdict.messages]
            assert ours[: len(theirs)] == theirs
            assert len(ours) == len(theirs) or case.official.answer == "none"


@pytest.mark.parametrize("name", everything())
def test_what_is_wrong_is_named(cases, name):
    case = cases[name]
    errors = {finding.rule for finding in case.ours.every if finding.level == ERROR}
    assert errors == case.wanted
    assert (case.ours.word == "compliant") == (not case.wanted)
    assert all(finding.rule in rules() for finding in case.ours.every)
    if case.ours.official == "none":
        assert any(finding.official == "falls over" for finding in case.ours.every)


def test_a_log_without_batch_size_gets_the_answer_of_its_place_in_the_folder(tmp_path):
    """The RCP checker takes logs as the file system lists them, and falls over where such a log is not the first."""
    submitters = [good_tree(tmp_path / str(number)) for number in range(5)]
    for number, submitter in enumerate(submitters):
        write_log(result(submitter) / f"result_{number}.txt", ["chatter"])
    ours = [check(submitter).official for submitter in submitters]
    assert ours == [heard.answer for heard in oracle.package_checker([(item, ROUND, ()) for item in submitters])]


def test_one_broken_result_does_not_hide_the_others(tmp_path):
    submitter = good_tree(tmp_path)
    relog(0, quality=None)(submitter)
    write_description(submitter, "two", {})
    for seed in range(5):
        write_log(submitter / "results" / "two" / "resnet" / f"result_{seed}.txt", log(seed))
    ours = check(submitter)
    assert [(item.result.system, item.official) for item in ours.verdicts] == [("one", "none"), ("two", "pass")]
    assert ours.official == "none"


@pytest.mark.parametrize(
    "part", [".", "results", "results/one", "results/one/resnet", "results/one/resnet/result_0.txt"]
)
def test_any_part_of_a_tree_can_be_checked(tmp_path, part):
    submitter = good_tree(tmp_path)
    ours = check(submitter / part)
    assert (ours.name, ours.official, ours.word) == ("tests", "pass", "compliant")
    assert ours.verdicts[0].runs[0].path == "tests/results/one/resnet/result_0.txt"


def test_a_folder_of_logs_outside_of_any_tree_is_judged_by_what_they_say(tmp_path):
    submitter = good_tree(tmp_path)
    shutil.copytree(result(submitter), tmp_path / "some" / "logs" / "here")
    (verdict,) = check(tmp_path / "some" / "logs" / "here").verdicts
    assert (verdict.result.benchmark, verdict.division, verdict.official) == ("resnet", "closed", "pass")


def test_a_round_is_a_folder_of_submitters(tmp_path):
    (tmp_path / "round").mkdir()
    for name in ("a", "b"):
        shutil.move(good_tree(tmp_path / name), tmp_path / "round" / name)
    seen = tree.read(tmp_path / "round")
    assert (seen.kind, [item.name for item in seen.submitters]) == ("round", ["a", "b"])
    assert [item.name for item in tree.read(tmp_path / "round", ("b",)).submitters] == ["b"]
    with pytest.raises(BadInput, match="no submitter c"):
        tree.read(tmp_path / "round", ("c",))
    assert tree.read(tmp_path / "round" / "b", ("b",)).kind == "submitter"
    with pytest.raises(BadInput, match="the tree of one submitter"):
        tree.read(tmp_path / "round" / "b", ("c",))


@pytest.mark.parametrize(
    "make", [lambda path: None, lambda path: path.mkdir(), lambda path: (path / "x").mkdir(parents=True)]
)
def test_what_holds_no_results_is_refused(tmp_path, make):
    make(tmp_path / "tree")
    with pytest.raises(BadInput):
        tree.read(tmp_path / "tree")


def test_nothing_appears_in_the_tree_and_nothing_vanishes(tmp_path):
    submitter = good_tree(tmp_path)
    all_logs(fast)(submitter)
    (result(submitter) / "scaling.json").write_text('{"scaling_factor": 2.0}')
    before = manifest.of_folder(submitter)
    times = {path: path.stat().st_mtime_ns for path in submitter.rglob("*")}
    check(submitter)
    assert manifest.of_folder(submitter) == before
    assert {path: path.stat().st_mtime_ns for path in submitter.rglob("*")} == times


def test_a_tree_that_is_too_deep_to_walk_through_is_a_finding(tmp_path):
    submitter = good_tree(tmp_path)
    deepest = submitter / "benchmarks"
    deepest.mkdir()
    while len(deepest.parts) < 1100:
        deepest = deepest / "d"
        deepest.mkdir()
    try:
        ours = check(submitter)
    finally:
        while deepest != submitter:  # from the inside out, for what clears up after tests walks through too
            deepest.rmdir()
            deepest = deepest.parent
    assert [finding.rule for finding in ours.repository.findings] == ["repository-depth"]
    assert ours.official == "pass"


def test_links_are_followed_and_a_relative_one_is_no_error(tmp_path):
    """The official repository checker looks a relative link up from where it is started, and calls it broken."""
    submitter = good_tree(tmp_path)
    (submitter / "benchmarks").mkdir()
    (submitter / "benchmarks" / "here").symlink_to("../systems/one.json")
    (submitter / "benchmarks" / "gone").symlink_to("../systems/none.json")
    ours = check(submitter)
    found = {finding.rule: finding.level for finding in ours.repository.findings}
    assert found == {"repository-link": "error", "repository-link-relative": "warning"}
    assert ours.repository.official == "fail"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("rcp-bypass\n", True),
        ("rcp_bypass\n", True),
        ("rcp-bypass", False),
        ("--rcp-bypass\n", True),
        ("nothing\n", False),
    ],
)
def test_flags_in_the_root_count_in_both_spellings_where_the_script_reads_them(tmp_path, text, counts):
    submitter = good_tree(tmp_path)
    all_logs(fast)(submitter)
    params(text, ".")(submitter)
    ours = check(submitter)
    (parameter,) = ours.parameters
    assert parameter.counts == counts
    assert (ours.official, ours.plain) == ("pass" if counts else "fail", "fail")
    assert counts or any(finding.rule == "params-ignored" for finding in ours.findings)


def bert(lines: list[str], epoch: int, samples: int) -> list[str]:
    """Logs as old rounds had them: epochs or samples as epoch_num, samples as train_samples."""
    kept = [line for line in lines if "sgd" not in line and "train_samples" not in line]
    texts = [line.replace('"resnet"', '"bert"').replace('"epoch_num": 36', f'"epoch_num": {epoch}') for line in kept]
    return [*texts[:-1], record("train_samples", samples), texts[-1]]


@pytest.mark.parametrize(
    ("epoch", "way", "passed", "otherwise"),
    [(1, "train_samples", True, False), (2_700_000, "epoch_num", True, True), (100, "train_samples", True, False)],
)
def test_bert_is_read_by_epochs_or_samples_as_its_logs_say(tmp_path, epoch, way, passed, otherwise):
    submitter = good_tree(tmp_path, "one", "bert")
    for seed in range(10):
        lines = bert(log(seed, global_batch_size=448), epoch, 2_700_000)
        write_log(submitter / "results" / "one" / "bert" / f"result_{seed}.txt", lines)
    (verdict,) = check(submitter, "1.0.0").verdicts
    assert (verdict.rcp.way, verdict.rcp.answer.passed, verdict.rcp_otherwise.answer.passed) == (way, passed, otherwise)
    assert verdict.rcp.why


def test_what_is_kept_is_used_and_made_anew_where_it_is_spoilt(tmp_path, monkeypatch):
    submitter = good_tree(tmp_path)
    logs = sorted(result(submitter).iterdir())
    first = cache.digests(logs, ROUND, tmp_path / "cache")
    kept = [path for path in (tmp_path / "cache").rglob("*.json")]
    assert len(kept) == 5
    kept[0].write_text('{"half')
    kept[1].write_text(json.dumps({"compliant": False}))
    assert cache.digests(logs, ROUND, tmp_path / "cache") == first
    monkeypatch.setattr(cache.digest, "of_log", lambda *_: pytest.fail("a log was read again"))
    assert cache.digests(logs, ROUND, tmp_path / "cache") == first


def test_a_log_that_changed_a_round_that_changed_is_read_again(tmp_path):
    path = write_log(tmp_path / "result_0.txt", log())
    assert cache.digests([path], ROUND, tmp_path / "cache")[path].compliant
    assert not cache.digests([path], "2.0.0", tmp_path / "cache")[path].compliant
    write_log(path, log(quality=0.1))
    assert not cache.digests([path], ROUND, tmp_path / "cache")[path].compliant


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    path = write_log(tmp_path / "result_0.txt", log())
    (tmp_path / "cache").write_text("a file")
    assert cache.digests([path], ROUND, tmp_path / "cache")[path].compliant


def test_several_processes_give_the_same_answer(tmp_path, monkeypatch):
    submitter = good_tree(tmp_path)
    logs = sorted(result(submitter).iterdir())
    alone = cache.digests(logs, ROUND, None)
    monkeypatch.setattr(cache, "SMALL", 0)
    assert cache.digests(logs, ROUND, None) == alone


def test_every_finding_has_all_its_parts():
    for rule in rules().values():
        assert all((rule.title, rule.rule, rule.source, rule.checker, rule.fix)), rule.id
    finding = Finding("seed-missing", ERROR, "a/b", 3, "a seed", "none")
    assert {"rule", "title", "file", "line", "expected", "found", "fix", "source"} <= finding.as_json().keys()
