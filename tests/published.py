"""A made round of published results, with implementations in the manner of each style (tests/styles; our own scripts).

What they "train" is `train.sh`: it writes the MLLOG lines of a run whose seconds the config sets. Published logs are
written beforehand, with the times that a test asks for.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from podium import config, manifest, plan
from support import config_text
from synthetic import DESCRIPTION, record, write_log

STYLES = Path(__file__).parent / "styles"
EPOCHS = (35, 36, 37, 36, 35)
ENTRY = {"docker": "run_with_docker.sh", "wrapper": "run_with_docker.sh", "slurm": "run.sub"}
ROUND = "3.0.0"


def code(root: Path, style: str, seconds: float = 600, submitter: str = "acme", system: str = "one") -> Path:
    """An implementation of resnet in a style below `<root>/<submitter>`, a run of which logs `seconds` for 36 epochs.

    `style`: docker, wrapper, slurm or plain. Returns the submitter's folder.
    """
    home = root / submitter / "benchmarks" / "resnet" / "implementations"
    if style == "plain":
        shutil.copytree(STYLES / "plain", home / system)
        shutil.copy2(STYLES / "train.sh", home / system)
        (home / system / "configs" / "one.env").write_text(f"MILLISECONDS={1000 * seconds:.0f}\n")
        return root / submitter
    folder = home / "mxnet"
    folder.mkdir(parents=True)
    for name in ("train.sh", "run_and_time.sh", "config_one.sh", "config_common.sh", "Dockerfile", ENTRY[style]):
        shutil.copy2(STYLES / name, folder)
    config = (STYLES / "config_one.sh").read_text()
    (folder / "config_one.sh").write_text(
        config.replace("MILLISECONDS=600000\n", f"MILLISECONDS={1000 * seconds:.0f}\n")
    )
    if style == "wrapper":
        shutil.copytree(STYLES / "wrapper", home / system)
    return root / submitter


def results(
    submitter: Path, seconds: float = 600, system: str = "one", epochs: Sequence[int] = EPOCHS, **description: str
) -> Path:
    """Published logs whose runs took `seconds` for 36 epochs, and the description; the result's folder."""
    draw = random.Random(7)
    place = submitter / "systems" / f"{system}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    facts = {"submitter": submitter.name, "system_name": system, "number_of_nodes": "1", "accelerators_per_node": "0"}
    place.write_text(json.dumps(DESCRIPTION | facts | description))
    folder = submitter / "results" / system / "resnet"
    for number, count in enumerate(epochs):
        write_log(
            folder / f"result_{number}.txt", log(number, seconds * count / 36 * draw.uniform(0.998, 1.002), count)
        )
    return folder


def words(place: Path, style: str, seconds: float = 600, runs: int = 2, **system: object) -> list[str]:
    """A round, prepared data and a config below `place`; the words of `podium reproduce` that run it again.

    A run logs `seconds`, the published ones 600; `system` is what the config says of ours.
    """
    results(code(place / "round", style, seconds))
    path = place / "podium.yaml"
    here = {"host": {"nodes": 1, "gpus_per_node": 0} | system}
    path.write_text(yaml.safe_dump(config_text(place / "work", systems=here, reproduce={"runs": runs})))
    loaded = config.load(path)
    data = plan.layout_folder(loaded, loaded.dataset("imagenet"))
    data.mkdir(parents=True)
    (data / "train.rec").write_bytes(b"records")
    manifest.write(data, manifest.of_folder(data))
    asked = ["--submitter", "acme", "--system", "one", "--benchmark", "resnet", "--round", ROUND, "--yes", "--json"]
    return ["reproduce", str(place / "round"), *asked, "--config", str(path)]


def log(seed: int, seconds: float, epochs: int, batch_size: int = 3264, status: str = "success") -> list[str]:
    """The lines of one run."""
    keys = {"submission_benchmark": "resnet", "submission_division": "closed", "seed": seed}
    keys |= {"global_batch_size": batch_size, "train_samples": 1281167}
    stop = 3_000 + 1000 * seconds
    return [
        record("cache_clear", True),
        record("init_start", None, 1_000),
        *(record(key, value, 1_500) for key, value in keys.items()),
        record("run_start", None, 3_000),
        record("eval_accuracy", 0.76, stop - 1, epoch_num=epochs),
        record("run_stop", None, stop, status=status),
    ]
