#!/bin/bash
set -euxo pipefail
: "${DGXSYSTEM:?DGXSYSTEM not set}"
: "${CONT:?CONT not set}"
: "${NEXP:=5}"
: "${LOGDIR:=$(pwd)/results}"
readonly _config_file="./config_${DGXSYSTEM}.sh"
readonly _cont_name=image_classification
mounts=("--volume=${DATADIR}:/data" "--volume=${LOGDIR}:/results")
mkdir -p "${LOGDIR}"
mapfile -t names < <(env -i NEXP=1 bash -c ". ${_config_file} && compgen -e" | grep -E -v '^(PWD|SHLVL|SEED)')
mapfile -t names < <(for v in "${names[@]}"; do echo "--env=$v"; done)
docker container rm -f "${_cont_name}" || true
trap 'docker container rm -f "${_cont_name}" || true' EXIT
nvidia-docker run --rm --init --detach --net=host --uts=host --ipc=host --security-opt=seccomp=unconfined \
  --ulimit=stack=67108864 --name="${_cont_name}" "${mounts[@]}" "${CONT}" sleep infinity
docker exec -it "${_cont_name}" true
for index in $(seq 1 "${NEXP}"); do
  (
    sync && sudo /sbin/sysctl vm.drop_caches=3
    docker exec -it "${_cont_name}" bash train.sh cache
    docker exec -it "${names[@]}" "${_cont_name}" ./run_and_time.sh
  ) |& tee "${LOGDIR}/${DATESTAMP}_${index}.log"
  if [ "${CHECK_COMPLIANCE:-1}" -eq 1 ]; then
    docker exec -it "${_cont_name}" python3 -m mlperf_logging.compliance_checker "/results/${DATESTAMP}_${index}.log"
  fi
done
