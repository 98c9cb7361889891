"""`podium prepare`: what is the same for all data sets: subsets, leftovers, what survives an interruption."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import pytest

from podium import cli, files, manifest
from podium.data import librispeech
from podium.data import prepare as command
from podium.errors import BadInput

PARAMS = {
    "imagenet": ("recordio", {}, {"train": 16, "val": 16}),
    "librispeech": ("wav", {"vocab_size": 10}, {"utterances": 4}),
    "kits19": ("npy", {"min_shape": [16, 24, 24], "evaluation_cases": [16, 17, 18]}, {"train": 2, "evaluation": 2}),
    "wikipedia": ("hdf5", {"max_seq_length": 40, "dupe_factor": 1}, {"articles": 8, "eval_articles": 2}),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The demo's sources, each made once."""
    made: dict[str, Path] = {}

    def source(dataset: str) -> Path:
        if dataset not in made:
            made[dataset] = tmp_path_factory.mktemp(dataset)
            importlib.import_module(f"podium.data.demo.{dataset}").make(made[dataset])
        return made[dataset]

    return source


def words(dataset: str, source: Path, to: Path, *more: str) -> list[str]:
    layout, params, _ = PARAMS[dataset]
    (to.parent / "params.json").write_text(json.dumps(params))
    given = ["--layout", layout, "--params", str(to.parent / "params.json"), "--workers", "1"]
    return ["prepare", dataset, "--from", str(source), "--to", str(to), *given, *more]


@pytest.mark.parametrize("dataset", PARAMS)
def test_take_means_the_same_for_all_sets_and_marks_the_manifest(dataset, sources, tmp_path):
    assert cli.main(words(dataset, sources(dataset), tmp_path / "to", "--take", "2")) == 0
    content = manifest.read(tmp_path / "to")
    layout, _, expected = PARAMS[dataset]
    assert content.counts["subset"] is True
    assert content.params["take"] == 2
    assert {name: content.counts[name] for name in expected} == expected
    assert command.module(dataset).invariants(tmp_path / "to", layout, content.counts) == []


def test_without_take_or_with_0_it_is_no_subset(sources, tmp_path):
    for number, more in enumerate(([], ["--take", "0"])):
        assert cli.main(words("librispeech", sources("librispeech"), tmp_path / f"to{number}", *more)) == 0
        assert manifest.read(tmp_path / f"to{number}").counts["subset"] is False


@pytest.mark.parametrize("take", [-1, True, "2", 1.5])
def test_a_take_that_is_no_number_is_refused(take, sources, tmp_path):
    with pytest.raises(BadInput, match="parameter take"):
        command.prepare("imagenet", sources("imagenet"), "recordio", tmp_path / "to", {"take": take}, 1)


def test_a_subset_does_not_replace_a_whole_set(sources, tmp_path, capsys):
    whole = words("librispeech", sources("librispeech"), tmp_path / "to")
    assert cli.main(whole) == 0
    assert cli.main([*whole, "--take", "2"]) == 2
    assert "holds a whole set" in capsys.readouterr().err
    assert manifest.read(tmp_path / "to").counts["subset"] is False


def test_a_whole_set_and_another_subset_replace_a_subset(sources, tmp_path):
    for take in ("3", "2", "0"):
        assert cli.main(words("librispeech", sources("librispeech"), tmp_path / "to", "--take", take)) == 0
    assert manifest.read(tmp_path / "to").counts["subset"] is False


def test_what_a_killed_process_left_half_written_never_reaches_a_manifest(sources, tmp_path, monkeypatch):
    def leaving(job):  # the real work, and beside it what a dying process writes late
        (job.to / "sub" / ".hidden").mkdir(parents=True)
        for name in (".librispeech.wav.x7k2", "sub/.late", "sub/.hidden/part"):
            (job.to / name).write_bytes(b"half")
        return real(job)

    real = librispeech.prepare
    monkeypatch.setattr(librispeech, "prepare", leaving)
    to = tmp_path / "to"
    assert cli.main(words("librispeech", sources("librispeech"), to)) == 0
    assert not [entry for entry in manifest.read(to).files if "/." in f"/{entry.path}"]
    assert manifest.differences(to, manifest.read(to)) == []
    assert not [path for path in files.walk(to) if any(part.startswith(".") for part in path.parts)]


def test_what_was_counted_is_not_counted_again_after_a_kill_during_the_hashing(sources, tmp_path, monkeypatch):
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    call = words("librispeech", sources("librispeech"), tmp_path / "to")
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "of_folder", killed)
        assert cli.main(call) == 130
    monkeypatch.setattr(librispeech, "prepare", killed)
    assert cli.main(call) == 0
    assert manifest.read(tmp_path / "to").counts["utterances"] == 240


def test_what_is_made_of_a_set_that_is_not_official_is_not_official_either(sources, tmp_path):
    source = shutil.copytree(sources("librispeech"), tmp_path / "source")
    marked = {manifest.OFFICIAL: False, "form": "dump"}
    manifest.write(source, manifest.of_folder(source, counts=marked))
    assert cli.main(words("librispeech", source, tmp_path / "to")) == 0
    counts = manifest.read(tmp_path / "to").counts
    assert (counts["official"], counts["subset"]) == (False, False)
    assert "form" not in counts


def test_a_parameter_may_have_the_name_that_the_reference_gives_it(sources, tmp_path):
    for number, name in enumerate(("eval_samples", "num_examples_to_pick")):
        params = {"max_seq_length": 40, "dupe_factor": 1, name: 7}
        made = command.prepare("wikipedia", sources("wikipedia"), "hdf5", tmp_path / f"{number}", params, 1)
        assert (made.counts["eval_instances"], made.params["eval_samples"]) == (7, 7)


@pytest.mark.parametrize("dataset", PARAMS)
def test_a_target_that_cannot_be_written_is_said(dataset, sources, tmp_path, capsys):
    command_line = words(dataset, sources(dataset), tmp_path / "to")
    command_line[command_line.index("--to") + 1] = "/sys/podium"  # where not even root may make a folder
    assert cli.main(command_line) == 3
    assert "cannot write /sys" in capsys.readouterr().err
