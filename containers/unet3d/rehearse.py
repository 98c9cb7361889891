"""`run_and_time.sh --log-only --round R`: the loop of train.py, with a stand-in for its trainer."""

from __future__ import annotations

from common.contract import read_settings
from common.rehearsal import Rehearsal, open_log, prepare
from settings import Settings, check
from train import run

# Seconds of an epoch and of an evaluation, about what eight H200 need; and the evaluation that meets the target, so
# that it comes after 393 thousand samples where an epoch has all 168 cases.
TRAIN_SECONDS, EVAL_SECONDS, EVALUATIONS = 0.3, 1.5, 68


def main() -> None:
    contract, world = prepare("unet3d", rounds=("3.1.0", "4.0.0"))
    settings = read_settings(Settings)
    check(settings, world)
    rehearsal = Rehearsal(
        samples=(168, 42),
        quality=(0.7, settings.target),
        evaluations=EVALUATIONS,
        train_seconds=TRAIN_SECONDS,
        eval_seconds=EVAL_SECONDS,
    )
    run(contract, settings, world, open_log(contract, rehearsal), lambda: rehearsal)


if __name__ == "__main__":
    main()
