#!/usr/bin/env bash
# One run: the entry of the run contract (common/contract.py). Hyperparameters come from a sourced configs/<name>.env.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python3 common/clear_cache.py
exec python3 train.py
