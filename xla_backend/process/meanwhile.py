"""meanwhile(work): one thing is made on another thread while the body makes another.

For work that spends its time outside of the interpreter (inside LLVM), whose result is remembered
somewhere, and which the body's successor asks for anyway. So an error is not raised here: who asks
then makes it again, and gets the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context
from queue import SimpleQueue

from xla_backend.process.kept_threads import on_kept_thread


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """`work()` runs on another thread while the body runs; both have ended afterwards.

    >>> made = []
    >>> with meanwhile(lambda: made.append(1)):
    ...     pass
    >>> made
    [1]
    """

    ended: SimpleQueue[None] = SimpleQueue()

    def run() -> None:
        with suppress(Exception):  # who needs the result makes it again, and meets the same error
            Context().run(work)
        ended.put(None)

    on_kept_thread(run)
    try:
        yield
    finally:
        ended.get()
