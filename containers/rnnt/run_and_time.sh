#!/usr/bin/env bash
# One run of rnnt: clear the caches, then train until the target is met. Its environment: common/contract.py.
set -euo pipefail
cd "$(dirname "$0")"
python3 common/clear_cache.py
exec python3 train.py
