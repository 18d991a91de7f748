"""What holds for all tests."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """The hundreds of thousands of objects that the tests are made of stay for good: the garbage
    collector, which tests of what is let go call, need not look at them each time."""
    gc.collect()
    gc.freeze()
