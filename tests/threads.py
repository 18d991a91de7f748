"""Work on several threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SECONDS = 300  # until threads count as waiting for each other


def together(*works: Callable[[], Any]) -> list[Any]:
    """The results of all works, which begin at the same time, each on a thread of its own; what one
    of them raises is raised here."""
    gate = threading.Barrier(len(works))
    results: list[Any] = [None] * len(works)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            gate.wait(SECONDS)
            results[number] = works[number]()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if failures:
        raise failures[0]
    return results


@contextmanager
def switching_often(seconds: float = 1e-6) -> Iterator[None]:
    """Python changes threads at almost any step."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
