#!/usr/bin/env bash
# One run: the entry of the run contract (common/contract.py); `--log-only --round R` rehearses its log.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source common/launch.sh
