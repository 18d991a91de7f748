"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator

import pytest

# What is compiled must not depend on what somebody has compiled ahead in this checkout.
os.environ["PYJAX_INSTALLED_DIR"] = ""
# Tests are of optimised code, but for those of first code; or all of first code.
_ON_FIRST_CODE = os.environ.get("TEST_FIRST_CODE") == "1"
os.environ["PYJAX_FIRST_CODE"] = "1" if _ON_FIRST_CODE else "0"

# Shells have it ignored in what runs in the background, and so would all that tests start: they
# send it to programs, which are to be interrupted.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart() -> None:
    if _ON_FIRST_CODE:
        from tests.first_code import stay_on_first_code

        stay_on_first_code()


class _Kept:
    """Objects that the garbage collector looks at no more.

    Collections take as long as there are objects to look at. The tests themselves, and what caches
    keep of each, come to millions, and tests of what is let go collect often.
    """

    def __init__(self) -> None:
        self._looked_through = self._added = 0

    def add(self) -> None:
        """Whatever lives now. Those that died meanwhile are let go when there are four times as
        many: a look at all of them takes seconds."""
        gc.collect()
        self._added += len(gc.get_objects())
        if self._added > 3 * self._looked_through:
            gc.unfreeze()
            gc.collect()
            self._looked_through, self._added = len(gc.get_objects()), 0
        gc.freeze()


_kept = _Kept()


def pytest_collection_finish() -> None:
    _kept.add()


@pytest.fixture(scope="module", autouse=True)
def collections_look_at_one_module_of_tests() -> Iterator[None]:
    """Collections in a module of tests do not look at what modules before it have left."""
    yield
    _kept.add()
