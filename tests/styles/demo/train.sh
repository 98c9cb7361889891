#!/usr/bin/env bash
# The demo's training inside of a container, where the start scripts mount data and logs. `$1` is cache: nothing is
# done, for common/launch.sh drops cached data itself.
[ "${1:-}" = cache ] && exit 0
export DATADIR=/data LOGDIR=/results
source common/launch.sh
