"""`run_and_time.sh --log-only --round R`: the loop of train.py, with a stand-in for its trainer."""

from __future__ import annotations

from common.contract import read_settings
from common.rehearsal import Rehearsal, open_log, prepare
from model import Sizes
from settings import EVAL_SAMPLES, Settings, blocks, check
from train import run

TRAIN_SECONDS, EVAL_SECONDS = 19.0, 1.0  # from one evaluation to the next, and of one; about what eight H100 need
TRAIN_FILES = 2048  # as NVIDIA's reference cuts the data set


def main() -> None:
    contract, world = prepare("bert", rounds=("3.1.0", "4.0.0", "4.1.0", "5.0.0"))
    settings = read_settings(Settings)
    check(settings, Sizes(), world)
    rehearsal = Rehearsal(
        samples=(TRAIN_FILES, EVAL_SAMPLES),
        quality=(0.34, settings.target),
        evaluations=max(len(list(blocks(settings))) - 1, 1),  # the last one but one
        train_seconds=TRAIN_SECONDS,
        eval_seconds=EVAL_SECONDS,
    )
    run(contract, settings, world, open_log(contract, rehearsal), lambda: rehearsal)


if __name__ == "__main__":
    main()
