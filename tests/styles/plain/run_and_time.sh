#!/usr/bin/env bash
set -e
export DATA="$DATADIR"
bash "$(dirname "$0")/train.sh" |& tee "$LOGDIR/run.log"
echo "RESULT,IMAGE_CLASSIFICATION,,1,$USER,"
