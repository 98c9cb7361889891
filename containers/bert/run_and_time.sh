#!/usr/bin/env bash
# One run, as the run contract asks: clear the cache, train to the target. The settings are already in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python3 common/clear_cache.py
exec python3 train.py
