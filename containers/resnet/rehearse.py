"""`run_and_time.sh --log-only --round R`: the loop of train.py, with a stand-in for its trainer."""

from __future__ import annotations

from common.contract import read_settings
from common.rehearsal import Rehearsal, open_log, prepare
from train import Settings, check, run

# What eight H200 need for an epoch and an evaluation with the reference's sizes, and when they meet the target.
TRAIN_SECONDS, EVAL_SECONDS, EVALUATIONS = 20.0, 2.0, 9


def main() -> None:
    contract, world = prepare("resnet", rounds=("3.1.0", "4.0.0"))
    settings = read_settings(Settings)
    check(settings, world)
    rehearsal = Rehearsal(
        samples=(1281167, 50000),
        quality=(0.2, settings.target),
        evaluations=EVALUATIONS,
        train_seconds=TRAIN_SECONDS,
        eval_seconds=EVAL_SECONDS,
    )
    run(contract, settings, world, open_log(contract, rehearsal), lambda: rehearsal)


if __name__ == "__main__":
    main()
