#!/usr/bin/env bash
set -e
bash "$(dirname "$0")/train.sh"
echo "RESULT,IMAGE_CLASSIFICATION,,1,$USER,"
