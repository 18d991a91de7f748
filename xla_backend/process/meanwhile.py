"""meanwhile(work): one thing is made on another thread while the body makes another.

For work that spends its time outside of the interpreter (inside LLVM), whose result is remembered
somewhere, and which the body's successor asks for anyway. So an error is not raised here: who asks
then makes it again, and gets the same error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def meanwhile(work: Callable[[], object]) -> Iterator[None]:
    """`work()` runs on a thread of its own while the body runs; both have ended afterwards.

    >>> made = []
    >>> with meanwhile(lambda: made.append(1)):
    ...     pass
    >>> made
    [1]
    """

    def run() -> None:
        with suppress(Exception):  # who needs the result makes it again, and meets the same error
            work()

    thread = threading.Thread(target=run, name="pyjax: meanwhile", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
