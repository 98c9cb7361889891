# Start the processes of an implementation, one per GPU; sourced by its run_and_time.sh, in its folder.
#   run_and_time.sh                         one run, as the environment says (contract.py)
#   run_and_time.sh --log-only --round R    no training: the log that a closed run of round R would leave
# On one node it is started once; on several, by srun once per GPU, or with torchrun's variables.
if [[ $# -gt 0 ]]; then
    exec python3 rehearse.py "$@"
fi

nodes=${DGXNNODES:-1} gpus=${DGXNGPU:-0} tasks=${SLURM_STEP_NUM_TASKS:-1}
processes=$((nodes * (gpus > 0 ? gpus : 1)))
if [[ $nodes -gt 1 && -z ${RANK:-} && $tasks -ne $processes ]]; then
    echo "DGXNNODES=$nodes DGXNGPU=$gpus: expected srun with $processes tasks, found $tasks" >&2
    exit 2
fi
if [[ ${LOCAL_RANK:-${SLURM_LOCALID:-0}} -eq 0 ]]; then
    python3 common/clear_cache.py # once on every node
fi
if [[ -n ${RANK:-} || $tasks -eq $processes ]]; then
    exec python3 train.py
fi
exec python3 -m torch.distributed.run --standalone --nproc-per-node="$processes" train.py
