#!/bin/bash
cd ../mxnet
source config_one.sh
DGXSYSTEM="one" CONT=their-registry:resnet DATADIR=/path/to/preprocessed/data LOGDIR=/path/to/logfile ./run_with_docker.sh
