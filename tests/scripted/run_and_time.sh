#!/usr/bin/env bash
# An implementation that trains nothing: it writes the log of a run whose course the config decides. For tests of the
# workflow alone, where a real training would only cost time.
set -euo pipefail
[ -z "${STUBBORN:-}" ] || trap '' TERM

log=$LOGDIR/mllog.txt
mkdir -p "$LOGDIR"
line() { # line TYPE KEY VALUE [METADATA]
  printf ':::MLLOG {"namespace": "", "time_ms": %s, "event_type": "%s", "key": "%s", "value": %s, "metadata": {"file": "run_and_time.sh", "lineno": 1%s}}\n' \
    "$(date +%s%3N)" "$1" "$2" "$3" "${4:+, $4}" >>"$log"
}

[ -z "${REHEARSED:-}" ] || line POINT_IN_TIME podium_rehearsal true
line POINT_IN_TIME cache_clear true
line INTERVAL_START init_start null
line POINT_IN_TIME submission_benchmark "\"$BENCHMARK\""
line POINT_IN_TIME submission_org "\"$MLPERF_SUBMISSION_ORG\""
line POINT_IN_TIME submission_division "\"$MLPERF_DIVISION\""
line POINT_IN_TIME submission_status "\"$MLPERF_STATUS\""
line POINT_IN_TIME submission_platform "\"$MLPERF_SUBMISSION_PLATFORM\""
line POINT_IN_TIME seed "$SEED"
line POINT_IN_TIME global_batch_size 32
line INTERVAL_END init_stop null
line INTERVAL_START run_start null
line POINT_IN_TIME train_samples 512
line POINT_IN_TIME eval_samples 160
line INTERVAL_START block_start null '"first_epoch_num": 1, "epoch_count": 1'
extra=0
[ ! -f extra_sleep ] || read -r extra <extra_sleep || true # what somebody planted on top of each step
[ "${STEPS:-0}" = 0 ] || exec 9<> <(:) # nothing ever comes from it: to sleep without a process
for ((step = 1; step <= ${STEPS:-0}; step++)); do
  began=${EPOCHREALTIME/./}
  read -rt "$STEP_SECONDS" -u 9 || true
  [ "$extra" = 0 ] || read -rt "$extra" -u 9 || true
  elapsed=$((${EPOCHREALTIME/./} - began))
  [ -z "${LOG_STEPS:-}" ] || printf '%d.%06d 32 1000000\n' $((elapsed / 1000000)) $((elapsed % 1000000)) >>"$LOGDIR/steps.txt"
  if [ "${STOP_AFTER_SAMPLES:-0}" -gt 0 ] && [ $((32 * step)) -ge "$STOP_AFTER_SAMPLES" ]; then
    line INTERVAL_END run_stop null '"status": "aborted"'
    exit 1
  fi
done
line POINT_IN_TIME eval_accuracy "$QUALITY" '"epoch_num": 1'
line INTERVAL_END block_stop null '"first_epoch_num": 1'
sleep "${SLEEP:-0}"
case "${STATUS:-}" in
  nan) line POINT_IN_TIME train_loss NaN; sleep 30 ;;
  half) printf ':::MLLOG {"namespace": "", "time_ms": 17' >>"$log"; kill -9 $$ ;;
  full) dd if=/dev/zero of="$LOGDIR/ballast" bs=1M || true; line POINT_IN_TIME train_samples 1; exit 1 ;;
esac
[ "${STATUS:-}" = silent ] && { echo "no run_stop: the machine is gone" >&2; exit 7; }
line INTERVAL_END run_stop null "\"status\": \"$STATUS\""
