"""`run_and_time.sh --log-only --round R`: the loop of train.py, a stand-in for its trainer (common/rehearsal.py)."""

from __future__ import annotations

from common.contract import read_settings
from common.rehearsal import Rehearsal, open_log, prepare
from settings import Settings, check
from train import REFERENCE_EVALUATION, REFERENCE_TRAINING, run

# What eight H100 need for an epoch and an evaluation with the reference's sizes, and when they meet the target.
TRAIN_SECONDS, EVAL_SECONDS, EVALUATIONS = 19.0, 1.0, 49


def main() -> None:
    contract, world = prepare("rnnt", rounds=("3.0.0", "3.1.0"))
    settings = read_settings(Settings)
    check(settings, world)
    rehearsal = Rehearsal(
        samples=(REFERENCE_TRAINING.start, REFERENCE_EVALUATION),
        quality=(1.0, settings.target),
        evaluations=EVALUATIONS,
        train_seconds=TRAIN_SECONDS,
        eval_seconds=EVAL_SECONDS,
    )
    run(contract, settings, world, open_log(contract, rehearsal), lambda: rehearsal)


if __name__ == "__main__":
    main()
