export DGXNNODES=1
export DGXNGPU=0
export DATADIR=/raid/their/data
export SEED=1
export DGXSYSTEM=$(basename $(readlink -f ${BASH_SOURCE[0]}) | sed 's/^config_//' | sed 's/\.sh$//')
export WALLTIME=$((${NEXP} * 5))
set -a
. $(dirname ${BASH_SOURCE[0]})/configs/tiny.env
set +a
