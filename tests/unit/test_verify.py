"""`podium verify`: its three depths, what is published of a whole set, and the source of what is made again."""

from __future__ import annotations

import json

import pytest

from podium import cli, files, manifest, plan
from podium import config as configuration
from podium.data import fetch, prepare, published, sources, verify
from podium.errors import BadInput

SETS = {"librispeech": {"source": "demo", "layout": "wav", "params": {"vocab_size": 10}}}


@pytest.fixture
def ready(write_config):
    """A config whose LibriSpeech, the demo's, is fetched and prepared."""
    config = configuration.load(write_config(data={"sets": SETS}))
    dataset = config.dataset("librispeech")
    sources.make(config, dataset)
    fetch.fetch(config, dataset)
    raw, to = plan.raw_folder(config, dataset.name), plan.layout_folder(config, dataset)
    prepare.prepare(dataset.name, raw, dataset.layout, to, dict(dataset.params), 1)
    return config


def words(config, *more: str) -> list[str]:
    return ["verify", "librispeech", "--config", str(config.path), *more]


def spoil(config, same_size: bool) -> str:
    """Change a WAV of the layout; returns its path in it."""
    folder = plan.layout_folder(config, config.dataset("librispeech"))
    path = next(folder.glob("dev-clean-wav/*/*/*.wav"))
    path.write_bytes(path.read_bytes()[: -2 if same_size else -4] + (b"\x7f\x7f" if same_size else b""))
    return str(path.relative_to(folder))


@pytest.mark.parametrize("depth", verify.DEPTHS)
def test_a_good_set_passes_at_every_depth(ready, depth, capsys):
    assert cli.main(words(ready, "--depth", depth, "--seed", "5")) == 0
    told = capsys.readouterr().out
    assert ("6 items made again, seed 5" in told) == (depth == "sample")
    answer = files.read_json(verify.verified_file(plan.layout_folder(ready, ready.dataset("librispeech"))))
    assert (answer["depth"], answer["problems"]) == (depth, [])


def test_quick_sees_sizes_and_full_sees_bytes(ready, capsys):
    path = spoil(ready, same_size=True)
    assert cli.main(words(ready, "--depth", "quick")) == 0
    assert cli.main(words(ready)) == 1
    assert f"{path}: sha256" in capsys.readouterr().err
    spoil(ready, same_size=False)
    assert cli.main(words(ready, "--depth", "quick")) == 1
    assert f"{path}: " in capsys.readouterr().err


def test_sample_finds_what_the_manifest_cannot_know(ready, capsys, monkeypatch):
    """A layout that was made wrong has the hashes of its manifest."""
    path = spoil(ready, same_size=True)
    folder = plan.layout_folder(ready, ready.dataset("librispeech"))
    content = manifest.read(folder)
    made = manifest.of_folder(folder, counts=content.counts, params=content.params, made_from=content.made_from)
    manifest.write(folder, made)
    assert cli.main(words(ready)) == 0
    monkeypatch.setattr(verify.Sample, "drawn", lambda self, items, *_, **__: list(items))
    assert cli.main(words(ready, "--depth", "sample")) == 1
    told = capsys.readouterr().err
    assert f"{path.rpartition('/')[2]}: expected the samples of the FLAC file, found others" in told
    assert "240 items made again, seed " in told


def test_sample_says_when_a_layout_cannot_be_read(ready, capsys):
    folder = plan.layout_folder(ready, ready.dataset("librispeech"))
    path = folder / "librispeech-dev-clean-wav.json"
    path.write_text("x" * path.stat().st_size)
    assert cli.main(words(ready, "--depth", "sample")) == 1
    assert "expected items that can be compared with the source" in capsys.readouterr().err


def test_sample_needs_the_source_that_the_layout_was_made_from(ready):
    raw = plan.raw_folder(ready, "librispeech")
    archive = raw / "dev-clean.tar.gz"
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(BadInput, match="is not what wav was made from"):
        verify.verify(ready, ready.dataset("librispeech"), "sample")
    manifest.write(raw, manifest.of_folder(raw))
    with pytest.raises(BadInput, match="is not what wav was made from"):
        verify.verify(ready, ready.dataset("librispeech"), "sample")


def test_in_the_closed_division_the_set_must_be_whole(ready, write_config, capsys):
    who = {"org": "tests", "division": "closed", "round": "3.1.0", "status": "research"}
    closed = configuration.load(write_config("closed", data={"sets": SETS}, submission=who))
    assert cli.main([*words(closed, "--depth", "quick"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["found"]
    assert "published counts: expected subsets dev-clean utterances 2703, found 48" in told
    assert "published counts: expected subsets test-other, found none" in told
    assert "published counts: expected train_up_to_16.7_s 278528 to 279039, found 192" in told


def test_published_counts_of_the_other_sets():
    right = {"train": 1281167, "val": 50000, "classes": 1000, "val_per_class": [50, 50]}
    assert published.differences("imagenet", right) == []
    assert published.differences("imagenet", right | {"png": []}) == [
        "published counts: expected png ['n02105855/n02105855_2933.JPEG'], found []"
    ]
    assert published.differences("kits19", {"cases": 209, "train": 168, "evaluation": 41}) == [
        "published counts: expected cases 210, found 209",
        "published counts: expected evaluation 42, found 41",
    ]
    assert published.differences("wikipedia", {"parts": 500, "train_instances": 156726829}) == []


def test_what_is_known_to_be_odd_is_named():
    (issue,) = published.known_issues("kits19", {"case_00043_x.npy", "case_00043_y.npy"})
    assert issue.startswith("case_00043_x.npy: ")
    assert "issue 545" in issue
    assert published.known_issues("kits19", {"case_00042_x.npy"}) == published.known_issues("imagenet", set()) == []
