"""What is not packed and why, with the last good tree left as it is; and that nothing planted gets into an archive."""

from __future__ import annotations

import json
import shutil
import tarfile

import pytest

from finished import described
from planted import SECRETS, SITE
from podium import files, manifest, plan
from podium.errors import BadInput, Findings
from podium.package import archive, inspect, layout, sources
from podium.runs import ledger
from support import SCRIPTED, first_plan


@pytest.fixture
def root(tmp_path, work_root):
    """A work root of five good runs, packed once: the tree that no refusal may touch."""
    config = work_root(tmp_path / "work")
    described(config)
    layout.pack(config)
    return config


def refused(config, error, words):
    """Packing is refused with these words; the last tree and its manifest are as they were. Returns the error."""
    before = manifest.of_folder(plan.tree_folder(config).parent)
    with pytest.raises(error) as raised:
        layout.pack(config)
    assert words in str(raised.value)
    assert manifest.of_folder(plan.tree_folder(config).parent) == before
    return raised.value


def folder(config):
    return plan.result_folder(config, first_plan(config))


def rewritten(path, change):
    """A JSON file with a change."""
    files.write_json(path, change(files.read_json(path)))


def test_an_edited_log_is_refused_though_its_verdict_is_older(root):
    log = folder(root) / "3" / "result.txt"
    log.write_text(log.read_text().replace("0.9", "0.91"))
    refused(root, BadInput, "3/result.txt: sha256")


def test_two_attempts_that_claim_one_number_are_refused(root):
    path = folder(root) / ledger.NAME
    lines = path.read_text().splitlines()
    again = json.dumps({**json.loads(lines[0]), "previous": ledger._digest(lines[-1])})
    path.write_text("\n".join([*lines, again]) + "\n")
    refused(root, BadInput, "attempt 0 was launched twice")


def test_the_record_of_another_attempt_is_refused(root):
    rewritten(folder(root) / "2" / "run.json", lambda record: {**record, "attempt": 1})
    refused(root, BadInput, "the record of attempt 2 is that of attempt 1")


def test_too_few_counted_runs_are_refused(root):
    path = plan.verdict_file(root, first_plan(root))
    rewritten(path, lambda verdict: {**verdict, "counted": verdict["counted"][:4]})
    refused(root, Findings, "host/resnet has too few runs")


def test_a_missing_description_is_refused(root):
    plan.system_file(root, "host").unlink()
    assert refused(root, BadInput, "is not described").next.startswith("podium describe --system host")


def test_a_file_over_the_limit_and_a_file_that_is_not_the_locked_one_are_refused(root, monkeypatch):
    source = sources.sources(root)[0]
    script = source.implementation / "run_and_time.sh"
    monkeypatch.setattr(sources, "LARGEST", 100)
    refused(root, BadInput, "is larger than any file of a submission may be")
    monkeypatch.undo()
    script.write_text("# edited\n")
    refused(root, BadInput, "is not what was locked")


@pytest.fixture
def implementation(tmp_path):
    """A copy of the scripted implementation, to be spoilt."""
    return shutil.copytree(SCRIPTED, tmp_path / "code" / "scripted")


def result(implementation) -> dict:
    entry = {"system": "host", "benchmark": "resnet", "implementation": str(implementation), "config": "good"}
    return {"results": [entry]}


def test_a_link_that_leaves_the_implementation_is_refused(tmp_path, work_root, implementation):
    outside = tmp_path / "somebody" / "notes.txt"
    outside.parent.mkdir()
    outside.write_text("mine")
    (implementation / "notes.txt").symlink_to(outside)
    (implementation.parent / "common").mkdir()
    (implementation.parent / "common" / "log.py").write_text("")
    (implementation / "common").symlink_to("../common")
    config = work_root(tmp_path / "work", **result(implementation))
    with pytest.raises(BadInput) as error:
        layout.pack(config)
    assert f"{implementation / 'notes.txt'} -> {outside}" in error.value.found
    assert "common" not in error.value.found.replace(str(tmp_path), ""), "what implementations share may be linked to"
    assert not plan.tree_folder(config).exists()


def test_nothing_that_was_planted_is_in_the_archive_and_the_logs_still_pass(tmp_path, work_root, implementation):
    planted = [*SECRETS.values(), *(value for kind, value in SITE.items() if kind != "work root")]
    (implementation / "deploy.sh").write_text("\n".join(planted))
    (implementation / "id_rsa").write_text(SECRETS["private key"])
    script = implementation / "run_and_time.sh"
    printed = "\n".join(
        f"printf '%s\\n' {json.dumps(SITE[kind])} >>$log" for kind in ("host", "address", "home", "user")
    )
    text = script.read_text().replace('"file": "run_and_time.sh"', '"file": "/home/bobmiller/code/run_and_time.sh"')
    script.write_text(
        text.replace("line POINT_IN_TIME cache_clear true", f"line POINT_IN_TIME cache_clear true\n{printed}")
    )
    known = {"hosts": ["dgx-a100-017", ".cluster.example.org", "registry.example.org"], "users": ["alicezhang"]}
    known |= {"patterns": {"project": r"\bPRJ-\d{4}\b"}}
    config = work_root(tmp_path / "work", **result(implementation), package={"scrub": known})
    described(config)
    before = manifest.of_folder(config.root / "runs")
    layout.pack(config)
    answer = inspect.inspect(config)
    assert answer["official"]["package"]["passed"], answer["messages"]
    archive.archive(config, force=True)
    with tarfile.open(archive.archive_file(config)) as tar:
        held = {item.name: tar.extractfile(item).read().decode("latin-1") for item in tar if item.isfile()}
    assert not any("id_rsa" in name for name in held)
    for kind, value in {**SECRETS, **SITE}.items():
        core = max((part for part in value.replace('"', " ").split() if "example" not in part), key=len, default=value)
        found = [name for name, text in held.items() if core in text and len(core) > 6 and "@" not in core]
        assert found == [] or kind in ("private key",), f"{kind} is in {found}"
    assert str(tmp_path) not in "".join(held.values()), "the work root"
    logs = [text for name, text in held.items() if "/results/" in name]
    assert len(logs) == 5 and all("SCRUBBED_HOST_" in text and "SCRUBBED_PATH_" in text for text in logs)
    assert manifest.of_folder(config.root / "runs") == before, "the logs in the work root stay as they were"
    diff = layout.scrub_file(config).with_suffix(".diff")
    assert "dgx-a100-017" in diff.read_text() and diff.stat().st_mode & 0o077 == 0
    receipt = files.read_json(archive.receipt_file(config))
    assert receipt["scrub"]["replaced"]["secret"] >= len(SECRETS) - 2 and receipt["scrub"]["withheld"]
