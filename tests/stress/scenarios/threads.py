"""Eight threads: first calls, donation, options, cleared caches, errors, deletions, gradients. No
wrong value, no crash, no growth."""

from __future__ import annotations

import time

from tests.stress import work

# Caches are bounded by bytes, and fill up to their bounds.
_GROWTH = 400 << 20


def main() -> None:
    seed, seconds = work.arguments()
    workers = work.Workers(8, seed)
    work.until(seconds / 2, workers.stop)
    threads, memory = _least_threads(), work.resident_bytes()
    work.until(seconds / 2, workers.stop)
    grown, more = work.resident_bytes() - memory, _least_threads() - threads
    workers.finish()
    assert more <= 16, f"{more} more threads"
    assert grown < _GROWTH, f"{grown >> 20} MiB more in the second half"
    print(f"{workers.done} pieces of work, {grown >> 20} MiB more in the second half")


def _least_threads() -> int:
    """Of some moments: compilations split over threads come and go."""
    counts = [work.thread_count()]
    for _ in range(20):
        time.sleep(0.05)
        counts.append(work.thread_count())
    return min(counts)


if __name__ == "__main__":
    main()
