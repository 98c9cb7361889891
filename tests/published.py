"""A made round of published results, with implementations in the manner of each style; the scripts are our own.

What they "train" is `train.sh`: it writes the MLLOG lines of a run whose seconds the config sets. Published logs are
written beforehand, with the times that a test asks for.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

from synthetic import DESCRIPTION, record, write_log

EPOCHS = (35, 36, 37, 36, 35)
TRAIN = r"""#!/usr/bin/env bash
# Trains nothing: the log of a run that takes SECONDS_TO_TRAIN. `$1` is cache: only that event.
line() {
  printf ':::MLLOG {"namespace": "", "time_ms": %s, "event_type": "%s", "key": "%s", "value": %s, "metadata": {"file": "train.sh", "lineno": 1%s}}\n' \
    "$(date +%s%3N)" "$1" "$2" "$3" "${4:+, $4}"
}
if [ "${1:-}" = cache ]; then line POINT_IN_TIME cache_clear true; exit 0; fi
[ -r "${DATA:-/data}/train.rec" ] || { echo "no data at ${DATA:-/data}" >&2; exit 4; }
line INTERVAL_START init_start null
for key in submission_org:"$MLPERF_SUBMISSION_ORG" submission_platform:"$MLPERF_SUBMISSION_PLATFORM" \
  submission_division:closed submission_status:onprem submission_benchmark:resnet; do
  line POINT_IN_TIME "${key%%:*}" "\"${key#*:}\""
done
line POINT_IN_TIME seed "$SEED"
line POINT_IN_TIME global_batch_size "${GLOBAL_BATCH:-3264}"
line INTERVAL_END init_stop null
line INTERVAL_START run_start null
line POINT_IN_TIME train_samples 1281167
epochs=$((35 + SEED % 3))
sleep "$(awk "BEGIN { print $SECONDS_TO_TRAIN * $epochs / 36 }")"
line POINT_IN_TIME eval_accuracy 0.76 "\"epoch_num\": $epochs"
line INTERVAL_END run_stop null '"status": "success"'
"""
RUN_AND_TIME = (
    '#!/usr/bin/env bash\nset -e\nbash "$(dirname "$0")/train.sh"\necho "RESULT,IMAGE_CLASSIFICATION,,1,$USER,"\n'
)
CONFIG = """export DGXNNODES=1
export DGXNGPU=0
export BATCHSIZE=3264
export SECONDS_TO_TRAIN={seconds}
export DATADIR=/raid/their/data
export SEED=1
export DGXSYSTEM=$(basename $(readlink -f ${{BASH_SOURCE[0]}}) | sed 's/^config_//' | sed 's/\\.sh$//')
export WALLTIME=$((${{NEXP}} * 5))
. $(dirname ${{BASH_SOURCE[0]}})/config_common.sh
"""
DOCKERFILE = """ARG FROM_IMAGE_NAME=nvcr.io/nvidian/mxnet:21.05-py3
FROM ${FROM_IMAGE_NAME}
WORKDIR /workspace/image_classification
COPY . .
"""
RUN_WITH_DOCKER = r"""#!/bin/bash
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
"""
RUN_SUB = r"""#!/bin/bash
#SBATCH --exclusive
set -eux
: "${CONT:?CONT not set}"
: "${DGXSYSTEM:?DGXSYSTEM not set}"
: "${NEXP:=5}"
: "${LOGDIR:=./results}"
readonly name="image_classification_${SLURM_JOB_ID}"
mounts="${DATADIR}:/data,${LOGDIR}:/results"
mkdir -p "${LOGDIR}"
srun --ntasks="${SLURM_JOB_NUM_NODES}" --container-image="${CONT}" --container-name="${name}" true
srun -N1 -n1 --container-name="${name}" ibv_devinfo --list
for index in $(seq -w 1 "${NEXP}"); do
  (
    echo ":::DLPAL ${CONT} ${SLURM_JOB_ID} ${SLURM_JOB_NUM_NODES} ${SLURM_JOB_NODELIST}"
    srun --ntasks="${SLURM_JOB_NUM_NODES}" bash -c "sync && sudo /sbin/sysctl vm.drop_caches=3"
    srun --ntasks="${SLURM_JOB_NUM_NODES}" --container-name="${name}" bash train.sh cache
    srun -l --mpi=pmix --ntasks=1 --ntasks-per-node=1 --container-name="${name}" --container-mounts="${mounts}" ./run_and_time.sh
  ) |& tee "${LOGDIR}/${DATESTAMP}_${index}.log"
done
"""
WRAPPER = """#!/bin/bash
cd ../mxnet
source config_one.sh
DGXSYSTEM="one" CONT=their-registry:resnet DATADIR=/path/to/preprocessed/data LOGDIR=/path/to/logfile ./run_with_docker.sh
"""


def code(root: Path, style: str, seconds: float = 0.2, submitter: str = "acme", system: str = "one") -> Path:
    """An implementation in a style below `<root>/<submitter>/benchmarks/resnet/implementations`; the submitter's folder."""
    home = root / submitter / "benchmarks" / "resnet" / "implementations"
    if style == "plain":
        folder = home / system
        text = RUN_AND_TIME.replace('train.sh"\n', 'train.sh" |& tee "$LOGDIR/run.log"\n')
        _script(folder / "run_and_time.sh", text.replace("set -e\n", 'set -e\nexport DATA="$DATADIR"\n'))
        _script(folder / "train.sh", TRAIN)
        (folder / "configs").mkdir()
        (folder / "configs" / "one.env").write_text(f"SECONDS_TO_TRAIN={seconds}\n")
        return root / submitter
    folder = home / "mxnet"
    _script(folder / "run_and_time.sh", RUN_AND_TIME)
    _script(folder / "train.sh", TRAIN)
    (folder / "config_one.sh").write_text(CONFIG.format(seconds=seconds))
    (folder / "config_common.sh").write_text("export OMPI_MCA_btl=^openib\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    if style == "slurm":
        _script(folder / "run.sub", RUN_SUB)
    else:
        _script(folder / "run_with_docker.sh", RUN_WITH_DOCKER)
    if style == "wrapper":
        _script(home / system / "run_and_time.sh", WRAPPER)
        _script(
            home / system / "setup.sh", "#!/bin/bash\ncd ../mxnet\ndocker build --pull -t their-registry:resnet .\n"
        )
    return root / submitter


def results(
    submitter: Path, seconds: float = 0.2, system: str = "one", epochs: Sequence[int] = EPOCHS, **description: str
) -> Path:
    """Published logs whose runs took `seconds` for 36 epochs, and the description; the result's folder."""
    draw = random.Random(7)
    place = submitter / "systems" / f"{system}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    facts = {"submitter": submitter.name, "system_name": system, "number_of_nodes": "1", "accelerators_per_node": "0"}
    place.write_text(json.dumps(DESCRIPTION | facts | description))
    folder = submitter / "results" / system / "resnet"
    for number, count in enumerate(epochs):
        write_log(
            folder / f"result_{number}.txt", log(number, seconds * count / 36 * draw.uniform(0.998, 1.002), count)
        )
    return folder


def log(seed: int, seconds: float, epochs: int, batch_size: int = 3264) -> list[str]:
    """The lines of one run."""
    keys = {"submission_benchmark": "resnet", "submission_division": "closed", "seed": seed}
    keys |= {"global_batch_size": batch_size, "train_samples": 1281167}
    stop = 3_000 + 1000 * seconds
    return [
        record("cache_clear", True),
        record("init_start", None, 1_000),
        *(record(key, value, 1_500) for key, value in keys.items()),
        record("run_start", None, 3_000),
        record("eval_accuracy", 0.76, stop - 1, epoch_num=epochs),
        record("run_stop", None, stop, status="success"),
    ]


def _script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
