"""What waiting threads cost where probes share processors: small trainings at once, spinning and not.

Needs torch (`pip install -e '.[torch]'`). Prints the ratio of the wall times; the machine should have fewer processors
than the trainings have threads altogether.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time


_TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(20)])
inputs = torch.randn(64, 256)
for _ in range(150):
    model(inputs).relu().square().mean().backward()
"""


def seconds(trainings: int, policy: str) -> float:
    """Run some trainings at once, with two threads each, and return the wall time in seconds until all have ended."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"} | ({"OMP_WAIT_POLICY": policy} if policy else {})
    begin = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", _TRAINING], env=environment) for _ in range(trainings)]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit(f"a training ended with code {max(codes)}")
    return time.monotonic() - begin


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainings", type=int, default=4, help="how many at once (default: 4)")
    trainings = parser.parse_args().trainings
    spinning, passive = seconds(trainings, ""), seconds(trainings, "PASSIVE")
    print(f"{trainings} trainings on {os.cpu_count()} processors: {spinning:.1f} s with the default,")
    print(f"{passive:.1f} s with OMP_WAIT_POLICY=PASSIVE: {spinning / passive:.1f} times as long")


if __name__ == "__main__":
    main()
