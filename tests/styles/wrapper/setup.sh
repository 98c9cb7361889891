#!/bin/bash
cd ../mxnet
docker build --pull -t their-registry:resnet .
