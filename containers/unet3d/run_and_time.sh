#!/usr/bin/env bash
# One run, from clearing the cache to run_stop; the run contract is in the environment (README.md).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python3 common/clear_cache.py
exec python3 train.py
