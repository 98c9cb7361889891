"""The judgement: words, references, causes, nodes, marks; what changed; and how it is told."""

from __future__ import annotations

import http.server
import json
import threading
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nights import index_of, record, run_of, simulate
from podium.errors import BadEnvironment
from podium.nightly import changes, history, judge, page, show, tell
from podium.nightly.history import Mark
from podium.nightly.index import Index
from podium.nightly.verdict import Bars
from podium.report import plot

NOWHERE = Path("/nowhere")
BARS = Bars()


def mark(kind, night, **changes):
    facts = {"system": None, "benchmark": None, "was": None, "text": "new cooling", "time": "2026-12-01"}
    return Mark(kind, night, **facts | changes)


def judged(marks=(), night=None, bars=BARS, seed=1, nights=140, series=3, **planted):
    return judge.judge(index_of(np.random.default_rng(seed), nights, series, **planted), marks, night, bars)


def first(judgement):
    return judgement.verdicts[0]


def test_a_slowdown_is_told_with_its_size_its_interval_and_its_first_night():
    verdict = first(judged(shift=(130, 0.03)))
    assert (verdict.word, verdict.bad, verdict.since, verdict.good) == ("slower", True, "2025-05-11", "2025-05-10")
    assert verdict.low < 3 < verdict.high
    assert verdict.text.startswith("slower by ")


def test_a_verdict_stays_until_a_mark_accepts_the_new_level():
    assert first(judged(shift=(100, 0.03))).word == "slower"
    assert first(judged([mark(history.LEVEL, "2025-04-11")], shift=(100, 0.03))).word == "ok"
    assert first(judged([mark(history.LEVEL, "2025-04-11", benchmark="another")], shift=(100, 0.03))).word == "slower"


def test_a_better_level_is_told_and_after_two_weeks_expected():
    assert first(judged(nights=135, shift=(130, -0.04))).word == "faster"
    found = index_of(np.random.default_rng(3), 140, 1, shift=(90, -0.04))
    back = [
        (run, name, value * (1.0 if found.runs[run].night < "2025-05-14" else 1 / 0.96))
        for run, name, value in found.measures
    ]
    verdict = first(judge.judge(Index(found.runs, tuple(back), ()), []))
    assert (verdict.word, verdict.since) == ("slower", "2025-05-14"), "what was gained and lost again is a loss"


def test_a_change_that_nobody_cares_about_is_no_finding():
    assert first(judged(bars=Bars(0.05, 0.02), shift=(100, 0.03))).word == "ok"


def test_where_a_change_that_matters_could_not_be_seen_the_word_is_noisy_not_ok():
    verdict = first(judged(runs=1))
    assert verdict.word == "noisy"
    assert verdict.visible > 2
    assert first(judged(runs=5)).word == "ok"


def test_a_drift_is_told_in_percent_a_week():
    verdict = first(judged(nights=160, drift=(120, 0.006)))
    assert verdict.word == "slower"
    assert verdict.drift == pytest.approx(0.6, rel=0.35)
    assert "a week" in verdict.text


def test_one_wild_night_is_ok_but_told():
    found = index_of(np.random.default_rng(1), 140, 1)
    wild = [
        (run, name, value * (1.2 if found.runs[run].night == found.nights()[-1] else 1))
        for run, name, value in found.measures
    ]
    verdict = first(judge.judge(Index(found.runs, tuple(wild), ()), []))
    assert verdict.word == "ok"
    assert "not confirmed yet" in verdict.note


def test_a_night_without_runs_and_a_short_history_are_no_data_with_the_reason():
    found = index_of(np.random.default_rng(1), 40, 1)
    verdict = first(judge.judge(found, [], "2025-02-20"))
    assert (verdict.word, verdict.note) == ("no data", "no run that counts since 2025-02-09, 1 nights ago")
    verdict = first(judge.judge(found, [], "2025-01-05"))
    assert (verdict.word, verdict.note) == ("no data", "5 nights known, 9 needed")
    assert judge.judge(Index((), (), ()), []).verdicts == ()


def test_a_void_night_counts_for_nothing():
    found = index_of(np.random.default_rng(1), 140, 1)
    nights = found.nights()
    wild = [
        (run, name, value * (1.3 if found.runs[run].night in nights[-3:] else 1)) for run, name, value in found.measures
    ]
    spoiled = Index(found.runs, tuple(wild), ())
    assert first(judge.judge(spoiled, [])).word == "slower"
    assert first(judge.judge(spoiled, [mark(history.VOID, night) for night in nights[-3:]])).word == "no data"


def test_a_renamed_system_keeps_its_history():
    found = index_of(np.random.default_rng(1), 60, 1)
    runs = tuple(replace(run, system="new" if run.night >= "2025-02-20" else "cluster") for run in found.runs)
    renamed = Index(runs, found.measures, ())
    words = {one.series.system: one.word for one in judge.judge(renamed, []).verdicts}
    assert words == {"cluster": "no data", "new": "noisy"}, "50 nights of another name and 10 of its own"
    (verdict,) = judge.judge(renamed, [mark(history.RENAMED, "2025-02-20", system="new", was="cluster")]).verdicts
    assert (verdict.series.system, len(verdict.series.course.night)) == ("new", 60)


def test_runs_without_a_measure_or_that_failed_are_passed_over():
    one, other = record("2025-01-01", 0, 0.25), record("2025-01-01", 1, 0.25, outcome="failed")
    found = Index((run_of(one), run_of(other)), ((0, "step", float("nan")), (0, "init", 0.0), (1, "step", 0.25)), ())
    assert judge.judge(found, []).verdicts == ()


# Where a change comes from


def together(shifted):
    """Two systems with three benchmarks each; those of `shifted` get slower on the same night."""
    runs, measures = [], []
    for number, (system, benchmark) in enumerate((s, b) for s in ("a", "b") for b in ("bert", "resnet", "rnnt")):
        ratio = 0.05 if (system, benchmark) in shifted else 0.0
        found = simulate(np.random.default_rng(number), 60, shift=(50, ratio), nodes=4)
        for place, (night, value) in enumerate(zip(found.night, found.value, strict=True)):
            date = f"2025-{night // 28 + 1:02}-{night % 28 + 1:02}"
            measures.append((len(runs), "step", float(value)))
            runs.append(run_of(record(date, place, float(value), benchmark=benchmark, system=system)))
    order = sorted(range(len(runs)), key=lambda place: runs[place].night)
    back = {old: new for new, old in enumerate(order)}
    return Index(tuple(runs[place] for place in order), tuple((back[run], *rest) for run, *rest in measures), ())


@pytest.mark.parametrize(
    ("shifted", "kind", "words"),
    [
        ({("a", "bert"), ("a", "resnet"), ("a", "rnnt")}, "system", "all benchmarks of a: the system"),
        ({("a", "bert"), ("a", "resnet")}, "system", "2 of 3 benchmarks of a"),
        ({("a", "bert"), ("b", "bert")}, "software", "bert on all systems"),
        ({("a", "bert")}, "software", "a/bert and not the other benchmarks there"),
    ],
)
def test_system_and_software_are_told_apart_by_what_else_got_slower(shifted, kind, words):
    (cause,) = judge.judge(together(shifted), []).causes
    assert cause.kind == kind
    assert words in cause.text
    assert len(cause.verdicts) == len(shifted)


def test_a_slow_node_is_named_and_no_series_is_slower():
    judgement = judged(series=1, nights=170, slow=(7, 120, 0.04))
    assert [node.node for node in judgement.slow] == ["node7"]
    assert judgement.worse == ()
    assert "slow node node7 of cluster" in "\n".join(tell.summary(judgement, NOWHERE))


# What changed


def test_changes_are_ranked_by_what_they_are_and_by_how_often_they_change_anyway():
    base = {
        "driver": {"nvidia": "570.1"},
        "host": "n1",
        "packages": {"torch": "2.13", "six": "1"},
        "kernel": {"release": "6.1"},
    }
    nights = [[base | {"host": f"n{night}", "variables": {"NCCL_DEBUG": str(night)}}] for night in range(5)]
    bad = base | {"driver": {"nvidia": "575.2"}, "host": "n9", "packages": {"torch": "2.14", "six": "1", "new": "1"}}
    bad |= {"variables": {"NCCL_DEBUG": "9"}}
    found = changes.ranked(nights, [bad])
    assert [change.fact for change in found] == [
        "driver.nvidia", "packages.torch", "packages.new", "variables.NCCL_DEBUG", "host"
    ]  # fmt: skip
    assert (found[0].before, found[0].after, found[0].earlier) == (("570.1",), ("575.2",), 0)
    assert found[-1].kind == "node"
    assert tell.told(found[2]) == "[packages] packages.new: absent -> 1"


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ("driver.nvidia", "driver"),
        ("network.mlx5_0.firmware", "firmware"),
        ("bios.version", "firmware"),
        ("packages.nvidia-nccl-cu13", "collectives and transport"),
        ("versions.nccl", "collectives and transport"),
        ("versions.cuda", "framework"),
        ("image", "image"),
        ("gpu.clocks.max.sm", "clocks and limits"),
        ("packages.clocked", "packages"),
        ("disk.options", "disk and data"),
        ("site.switch", "settings"),
        ("host", "node"),
    ],
)
def test_facts_are_of_a_kind(fact, kind):
    assert changes.kind(fact) == kind


def test_runs_of_one_night_on_several_nodes_are_no_change():
    nights = [[{"host": "n1"}, {"host": "n2"}]]
    assert changes.ranked(nights, [{"host": "n2"}]) == []


def test_what_changed_is_read_from_the_history(tmp_path):
    runs = []
    for day in range(1, 6):
        facts = {"driver": {"nvidia": "1" if day < 4 else "2"}}
        one = record(f"2026-11-0{day}", 0, 0.25, environment=history.files.hash_json(facts))
        history.write(tmp_path, one, facts)
        runs.append(run_of(one))
    (change,) = changes.between(tmp_path, runs, "2026-11-03", "2026-11-04")
    assert (change.fact, change.before, change.after) == ("driver.nvidia", ("1",), ("2",))
    (tmp_path / "environments" / f"{runs[3].environment}.json").unlink()
    assert changes.between(tmp_path, runs, "2026-11-03", "2026-11-04") == [], "nothing is known of that night"


# Telling


def test_status_json_and_junit_say_the_same():
    judgement = judged(shift=(130, 0.05))
    told = tell.as_json(judgement, NOWHERE, ["a run"])
    assert told["status"] == tell.status(judgement) == 1
    json.dumps(told)
    root = ElementTree.fromstring(tell.junit(judgement, NOWHERE, ["run 3 <of> cluster\x00"]))
    failed = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert len(failed) == 1 and "slower by" in failed[0].find("failure").get("message")
    assert sum(int(suite.get("failures")) for suite in root) == 1
    assert len(list(root.iter("error"))) == 1
    assert tell.status(judged(), ["a run"]) == 3
    assert tell.status(judged()) == 0


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses it is told, and keeps what it gets."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.headers.get("X-Podium-Signature"), body))
        self.send_response(self.server.statuses.pop(0))
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver():
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.statuses = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server, f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_is_tried_again_and_signed(receiver, monkeypatch):
    import hashlib
    import hmac

    server, url = receiver
    server.statuses = [503, 429, 200]
    monkeypatch.setenv(tell.SECRET, "s3cret")
    waits = []
    tell.webhook(url, {"night": "2026-11-30"}, waits.append)
    signature, body = server.got[-1]
    assert signature == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert (json.loads(body), waits, len(server.got)) == ({"night": "2026-11-30"}, [2.0, 4.0], 3)


def test_a_webhook_that_refuses_is_not_asked_again_and_secrets_are_not_told(receiver, monkeypatch):
    server, url = receiver
    server.statuses = [403]
    monkeypatch.setenv(tell.SECRET, "s3cret")
    with pytest.raises(BadEnvironment) as caught:
        tell.webhook(f"{url}/t0ken?token=t0ken", {}, lambda _: None)
    assert "status 403" in str(caught.value)
    assert "t0ken" not in str(caught.value) and "s3cret" not in str(caught.value)
    monkeypatch.setenv("HOOK", url)
    server.statuses = [200]
    tell.webhook("$HOOK", {})
    assert len(server.got) == 2
    with pytest.raises(BadEnvironment, match="a URL in .NO_HOOK"):
        tell.webhook("$NO_HOOK", {})
    with pytest.raises(BadEnvironment, match="ConnectionError"):
        tell.webhook("http://127.0.0.1:1/", {}, lambda _: None)


def test_the_terminal_shows_a_line_a_series():
    lines = show.lines(judged(shift=(130, 0.05)))
    assert len(lines) == 3 and lines[0].startswith("! cluster/benchmark00/base/step")
    assert show.lines(judged(series=0)) == [
        "no run is known: podium nightly runs one, podium nightly import reads logs"
    ]
    assert show.sparkline([1.0, None, 3.0, 2.0]) == "▁ █▅"
    assert show.sparkline([2.0, 2.0]) == "▁▁"
    assert show.sparkline([None]) == " "


def test_the_page_stands_alone_and_shows_levels_marks_and_links(tmp_path):
    marks = [mark(history.LEVEL, "2025-03-01", text="<new> cooling")]
    judgement = judged(marks, shift=(130, 0.05))
    text = page.page(judgement, tmp_path / "nightly", tmp_path / "reports", ["run <1>"])
    assert "slower by" in text and 'class="mark"' in text and text.count('class="level"') >= 4
    assert "&lt;new&gt; cooling" in text and "<new>" not in text and "run &lt;1&gt;" in text
    assert 'href="../nightly/nights/2025-05-20/runs/cluster/benchmark00/' in text
    assert "http://" not in text and "<script" not in text
    assert "No night is known" in page.page(judged(series=0), tmp_path, tmp_path)


def test_ticks_of_a_plot_of_equal_values_do_not_fail():
    assert plot.ticks(1.0, 1.0)
