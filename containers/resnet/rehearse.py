"""`run_and_time.sh --log-only --round R`: the loop of train.py, with a stand-in for its trainer."""

from __future__ import annotations

from common.contract import read_settings
from common.rehearsal import Rehearsal, open_log, prepare
from settings import Settings, blocks, check
from train import run

TRAIN_SECONDS, EVAL_SECONDS = 20.0, 2.0  # of an epoch and an evaluation; about what eight H200 need


def main() -> None:
    contract, world = prepare("resnet", rounds=("3.1.0", "4.0.0"))
    settings = read_settings(Settings)
    check(settings, world)
    rehearsal = Rehearsal(
        samples=(1281167, 50000),
        quality=(0.2, settings.target),
        evaluations=max(len(list(blocks(settings))) - 1, 1),  # the last one but one
        train_seconds=TRAIN_SECONDS,
        eval_seconds=EVAL_SECONDS,
    )
    run(contract, settings, world, open_log(contract, rehearsal), lambda: rehearsal)


if __name__ == "__main__":
    main()
