"""Tell two spirals apart: a network with one hidden layer, in plain Python, logged as MLPerf's benchmarks are.

It shows the least that an implementation must do: read its environment, train to a target, write MLLOG lines.
"""

from __future__ import annotations

import csv
import json
import math
import os
import random
import sys
import time
from pathlib import Path

Point = tuple[float, float, int]
IDENTITY = {
    "submission_org": "MLPERF_SUBMISSION_ORG",
    "submission_platform": "MLPERF_SUBMISSION_PLATFORM",
    "submission_division": "MLPERF_DIVISION",
    "submission_status": "MLPERF_STATUS",
}


def log(kind: str, key: str, value: object = None, **metadata: object) -> None:
    """Append one MLLOG record to $LOGDIR/mllog.txt."""
    record = {"namespace": "", "time_ms": int(time.time() * 1000), "event_type": kind, "key": key, "value": value}
    with Path(os.environ["LOGDIR"], "mllog.txt").open("a", encoding="utf-8") as file:
        file.write(f":::MLLOG {json.dumps({**record, 'metadata': {'file': 'train.py', 'lineno': 1, **metadata}})}\n")


def read(name: str) -> list[Point]:
    """The points of a split: x, y, and which arm they are on."""
    with Path(os.environ["DATADIR"], f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [(float(row["x"]), float(row["y"]), int(row["arm"])) for row in csv.DictReader(file)]


class Network:
    """A point to `hidden` tanh units to one logistic unit."""

    def __init__(self, hidden: int, chance: random.Random) -> None:
        self.first = [[chance.gauss(0, 2) for _ in range(3)] for _ in range(hidden)]
        self.second = [chance.gauss(0, 1 / math.sqrt(hidden)) for _ in range(hidden + 1)]

    def forward(self, inputs: tuple[float, float, float]) -> tuple[list[float], float]:
        """The hidden units, and the probability of arm 1."""
        hidden = [math.tanh(sum(map(float.__mul__, weights, inputs))) for weights in self.first]
        score = sum(map(float.__mul__, self.second, [*hidden, 1.0]))
        return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))

    def step(self, batch: list[Point], rate: float) -> None:
        """One step of gradient descent on the mean cross entropy of a batch."""
        rate /= len(batch)
        for x, y, arm in batch:
            inputs = (x, y, 1.0)
            hidden, probability = self.forward(inputs)
            error = probability - arm
            for unit, value in enumerate(hidden):
                slope = error * self.second[unit] * (1 - value * value)
                self.first[unit] = [w - rate * slope * i for w, i in zip(self.first[unit], inputs, strict=True)]
                self.second[unit] -= rate * error * value
            self.second[-1] -= rate * error

    def accuracy(self, points: list[Point]) -> float:
        right = sum((self.forward((x, y, 1.0))[1] > 0.5) == (arm == 1) for x, y, arm in points)
        return right / len(points)


def main() -> int:
    """Status 0 when the target is met."""
    settings = os.environ
    Path(settings["LOGDIR"]).mkdir(parents=True, exist_ok=True)
    log("INTERVAL_START", "init_start")
    for key, variable in IDENTITY.items():
        log("POINT_IN_TIME", key, settings[variable])
    log("POINT_IN_TIME", "submission_benchmark", "spiral")
    log("POINT_IN_TIME", "seed", int(settings["SEED"]))
    batch, target = int(settings["BATCH"]), float(settings["TARGET"])
    log("POINT_IN_TIME", "global_batch_size", batch)
    chance = random.Random(int(settings["SEED"]))
    network = Network(int(settings["HIDDEN"]), chance)
    log("INTERVAL_END", "init_stop")
    log("INTERVAL_START", "run_start")
    training, held_out = read("train"), read("eval")
    met = False
    for epoch in range(1, int(settings["EPOCHS"]) + 1):
        chance.shuffle(training)
        for start in range(0, len(training), batch):
            network.step(training[start : start + batch], float(settings["RATE"]))
        accuracy = network.accuracy(held_out)
        log("POINT_IN_TIME", "eval_accuracy", accuracy, epoch_num=epoch)
        if met := accuracy >= target:
            break
    log("INTERVAL_END", "run_stop", status="success" if met else "aborted")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
