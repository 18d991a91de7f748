"""Eight threads: first calls, donation, options, cleared caches, errors, deletions, gradients. No
wrong value, no crash, no growth."""

from __future__ import annotations

from tests.stress import work

# Caches are bounded by bytes, and fill up to their bounds.
_GROWTH = 400 << 20


def main() -> None:
    seed, seconds = work.arguments()
    workers = work.Workers(8, seed)
    work.until(seconds / 2, workers.stop)
    threads, memory = work.thread_count(), work.resident_bytes()
    work.until(seconds / 2, workers.stop)
    grown, more = work.resident_bytes() - memory, work.thread_count() - threads
    workers.finish()
    # Compilations split over threads come and go.
    assert more <= 16, f"{more} more threads"
    assert grown < _GROWTH, f"{grown >> 20} MiB more in the second half"
    print(f"{workers.done} pieces of work, {grown >> 20} MiB more in the second half")


if __name__ == "__main__":
    main()
