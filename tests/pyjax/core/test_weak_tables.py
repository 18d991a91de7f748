"""Tables that hold their keys weakly."""

import gc
import threading
from functools import partial

from pyjax.core.weak_tables import PerFunction, WeakIdentityTable
from tests.threads import together

SECONDS = 60


def test_threads_that_ask_at_once_get_one_thing():
    gate = threading.Barrier(3)

    def make() -> list[int]:
        gate.wait(SECONDS)  # none has anything before all have asked
        return []

    table = PerFunction(make)

    def fun() -> None: ...

    found = together(*[partial(table.of, fun)] * 3)
    assert found[0] is found[1] is found[2] is table.of(fun)
    assert len(table) == 1
    del fun
    gc.collect()
    assert len(table) == 0


def test_a_function_with_other_code_has_something_else():
    table = PerFunction(list)

    def fun() -> int:
        return 1

    def other() -> int:
        return 2

    before = table.of(fun)
    fun.__code__ = other.__code__
    assert table.of(fun) is not before
    assert table.of(fun) is table.of(fun)


def test_what_is_there_stays():
    table = WeakIdentityTable()
    key = {1}
    assert table.set_default(key, "first") == "first"
    assert table.set_default(key, "second") == "first"
    entry = table._entries[id(key)]
    del key
    gc.collect()
    # As if an object had gone just now, and another one had its address.
    for each in [{i} for i in range(10)]:
        table._entries[id(each)] = entry
        assert table.set_default(each, "new") == "new"
