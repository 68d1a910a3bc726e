#!/usr/bin/env python3
"""Writes nano-vllm-workload.json: the lengths of nano-vLLM's benchmark (its bench.py), 256 requests.

The ids themselves, uniform from 0 to 10000, only matter in that no two prompts begin alike; they are drawn because
the lengths come from the same generator. Python's random is the same in every version for these calls.
"""

import json
import pathlib
import random

NUM_SEQUENCES = 256
MAX_LENGTH = 1024

random.seed(0)
prompts = [[random.randint(0, 10000) for _ in range(random.randint(100, MAX_LENGTH))] for _ in range(NUM_SEQUENCES)]
max_tokens = [random.randint(100, MAX_LENGTH) for _ in range(NUM_SEQUENCES)]
workload = {"prompt_tokens": [len(prompt) for prompt in prompts], "max_tokens": max_tokens}
pathlib.Path(__file__).with_name("nano-vllm-workload.json").write_text(json.dumps(workload) + "\n")
