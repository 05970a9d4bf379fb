#!/bin/bash
# The same in 2016, when a cosine was still scaled by five.
exec umiak pod tutorial 2016 --config=./trainer_config.py --paddle_version=0.9 \
  --dot_period=10 --log_period=50 --num_passes=10 --saving_period=1 --use_gpu=0
