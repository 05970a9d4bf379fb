#!/bin/bash
# What the old script asked for: ten passes, a snapshot after each, on CPUs.
exec umiak pod tutorial 2017 --config=trainer_config.lr.py \
  --dot_period=10 --log_period=50 --num_passes=10 --saving_period=1 --use_gpu=0
