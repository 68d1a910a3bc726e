"""make bench-cuda: lets cuda-runner and then cpu-runner compute the same requests with the same model.

    beside_cpu.py CUDA_RUNNER CPU_RUNNER MODEL

A machine with a GPU may have no Node, so this is Python, with the standard library only.
"""

import json
import subprocess
import sys

REQUESTS = ["--prompt", "512", "--generate", "128", "--batch", "1,8,32"]
# The targets: a GPU has at least this many times the tokens a second, and at most this share of the time to the first token.
WANTED_SPEEDUP = 15
WANTED_FIRST_TOKEN_SHARE = 0.10


def measure(runner, model):
    command = [runner, "bench", "--model", model, *REQUESTS, "--json"]
    print("+", *command, file=sys.stderr, flush=True)
    try:
        finished = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    except OSError as error:
        sys.exit(f"{runner} does not start: {error}")
    if finished.returncode != 0:
        sys.exit(finished.returncode if finished.returncode > 0 else 128 - finished.returncode)
    return json.loads(finished.stdout)


def first_token_ms(figures):
    """The prompt's prefill gives the first token."""
    return 1000 * figures["prompt"] / figures["prefill_tok_s"]


def verdict(is_reached):
    return "reached" if is_reached else "missed"


def main():
    cuda_runner, cpu_runner, model = sys.argv[1:]
    cuda = measure(cuda_runner, model)
    cpu = measure(cpu_runner, model)
    print(f"{model}: {cuda['device']}, beside {cpu['device']} of {cpu['machine']}")
    for batch, speed in cuda["decode_tok_s"].items():
        ratio = speed / cpu["decode_tok_s"][batch]
        print(
            f"decode, batch {batch}: {speed:.1f} and {cpu['decode_tok_s'][batch]:.1f} tokens a second, "
            f"{ratio:.1f} times; wanted {WANTED_SPEEDUP}: {verdict(ratio >= WANTED_SPEEDUP)}"
        )
    share = first_token_ms(cuda) / first_token_ms(cpu)
    print(
        f"first token after a prompt of {cuda['prompt']}: {first_token_ms(cuda):.1f} and {first_token_ms(cpu):.1f} ms, "
        f"{100 * share:.1f} per cent; wanted {100 * WANTED_FIRST_TOKEN_SHARE:.0f}: "
        f"{verdict(share <= WANTED_FIRST_TOKEN_SHARE)}"
    )
    print(
        f"memory of the device beside the KV cache: {cuda['device_bytes_beside_kv_cache'] / 1e6:.1f} MB, "
        f"of which {cuda['weights_bytes'] / 1e6:.1f} are weights"
    )


main()
