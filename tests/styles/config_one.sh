export DGXNNODES=1
export DGXNGPU=0
export BATCHSIZE=3264
export MILLISECONDS=600000
export DATADIR=/raid/their/data
export SEED=1
export DGXSYSTEM=$(basename $(readlink -f ${BASH_SOURCE[0]}) | sed 's/^config_//' | sed 's/\.sh$//')
export WALLTIME=$((${NEXP} * 5))
. $(dirname ${BASH_SOURCE[0]})/config_common.sh
