#!/usr/bin/env bash
# Trains nothing: it writes the log of a run that took MILLISECONDS for 36 epochs, by a clock of its own, so that a
# busy machine changes no verdict. How many epochs it needs, and a little noise, come from SEED. `$1` is cache: only that.
now=$(date +%s%3N)
line() {
  printf ':::MLLOG {"namespace": "", "time_ms": %s, "event_type": "%s", "key": "%s", "value": %s, "metadata": {%s}}\n' \
    "$now" "$1" "$2" "$3" "\"file\": \"train.sh\", \"lineno\": 1${4:+, $4}"
}
if [ "${1:-}" = cache ]; then line POINT_IN_TIME cache_clear true; exit 0; fi
[ -r "${DATA:-/data}/train.rec" ] || { echo "no data at ${DATA:-/data}" >&2; exit 4; }
line INTERVAL_START init_start null
for pair in submission_org:"$MLPERF_SUBMISSION_ORG" submission_platform:"$MLPERF_SUBMISSION_PLATFORM" \
  submission_division:closed submission_status:onprem submission_benchmark:resnet; do
  line POINT_IN_TIME "${pair%%:*}" "\"${pair#*:}\""
done
line POINT_IN_TIME seed "$SEED"
line POINT_IN_TIME global_batch_size 3264
line INTERVAL_END init_stop null
line INTERVAL_START run_start null
line POINT_IN_TIME train_samples 1281167
epochs=$((35 + SEED % 3))
sleep "${SLEEP:-0.1}"
now=$((now + MILLISECONDS * epochs / 36 * (1000 + SEED % 5 - 2) / 1000))
line POINT_IN_TIME eval_accuracy 0.76 "\"epoch_num\": $epochs"
line INTERVAL_END run_stop null '"status": "success"'
