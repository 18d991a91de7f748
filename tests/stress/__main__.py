"""Run the stress scenarios, each in a process of its own: python -m tests.stress

  --seconds N   how long each scenario runs (default 40)
  --seed N      the seed of the first round (default: drawn)
  --rounds N    rounds, each with the next seed (default 1)
  names         only these scenarios

A scenario fails by a wrong value, an exception, a crash, or by running past its time. What it
prints ends with the command that repeats it.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.stress.runner import SCENARIOS, run_scenario


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress")
    parser.add_argument("names", nargs="*", choices=[[], *SCENARIOS], default=[])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.rounds):
        for name in options.names or SCENARIOS:
            outcome = run_scenario(name, seed, options.seconds)
            print(outcome, flush=True)
            failed += not outcome.passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
