#!/usr/bin/env bash
# One run: DATADIR, LOGDIR, SEED and the identity come from the caller, the hyperparameters from configs/.
set -euo pipefail
cd "$(dirname "$0")"
exec python train.py
