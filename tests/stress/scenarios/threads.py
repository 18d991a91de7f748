"""Eight threads: first calls, donation, options, cleared caches, errors, deletions, gradients. No
wrong value, no crash, no growth."""

from __future__ import annotations

import time

from tests.stress import work

# Caches are bounded by bytes, and fill up to their bounds.
_GROWTH = 400 << 20
# Seconds in which threads are gone that still compile when the work is done.
_SETTLED = 30


def main() -> None:
    seed, seconds = work.arguments()
    workers = work.Workers(8, seed)
    work.until(seconds / 2, workers.stop)
    threads, memory = work.thread_count(), work.resident_bytes()
    work.until(seconds / 2, workers.stop)
    grown = work.resident_bytes() - memory
    workers.finish()
    # Compilations split over threads come and go: any number may be there at one moment.
    deadline = time.monotonic() + _SETTLED
    while work.thread_count() > threads and time.monotonic() < deadline:
        time.sleep(0.05)
    more = work.thread_count() - threads
    assert more <= 0, f"{more} more threads"
    assert grown < _GROWTH, f"{grown >> 20} MiB more in the second half"
    print(f"{workers.done} pieces of work, {grown >> 20} MiB more in the second half")


if __name__ == "__main__":
    main()
