"""What is made without collections is old, and its garbage is found in the end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
import threading
import weakref

import pytest

from xla_backend.process import no_collections
from xla_backend.process.no_collections import with_few_collections, without_collections

pytestmark = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="there are no generations"
)


class Node:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _nothing_put_away(monkeypatch):
    collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.unfreeze()
    monkeypatch.setattr(no_collections, "_is_left_alone", False)
    gc.enable()
    yield
    if frozen:
        gc.freeze()
    if not collecting:
        gc.disable()


def test_what_was_made_is_old():
    node = without_collections(Node)
    assert any(known is node for known in gc.get_objects(generation=2))
    assert gc.isenabled() and not gc.get_freeze_count()


def test_what_python_has_put_away_itself_does_not_count():
    """Python 3.12 starts with some hundred such objects."""
    program = (
        "import gc; from xla_backend.process.no_collections import without_collections\n"
        "node = without_collections(lambda: [[]])\n"
        "print(any(known is node for known in gc.get_objects(generation=2)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"True\n"


def test_garbage_is_found_when_there_is_much_that_was_not_looked_at(monkeypatch):
    monkeypatch.setattr(no_collections, "_unseen", 0)
    monkeypatch.setattr(no_collections, "_limit", 5_000)
    first = weakref.ref(without_collections(Node))
    kept = []
    for _ in range(10):
        if first() is None:
            break
        kept.append(without_collections(lambda: [[] for _ in range(1_000)]))
    assert first() is None
    assert 4 <= len(kept) <= 6
    # The next look is when there are a quarter more.
    assert no_collections._limit >= max(1_000_000, len(gc.get_objects()) // 5)


def test_what_others_have_put_away_stays_there(monkeypatch):
    gc.freeze()
    before = gc.get_freeze_count()
    without_collections(Node)
    assert gc.get_freeze_count() >= before > 0
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("they were counted again"))
    without_collections(Node)
    monkeypatch.undo()
    gc.unfreeze()


def test_who_has_no_collections_gets_none(monkeypatch):
    monkeypatch.setattr(no_collections, "_make_old", lambda: pytest.fail("objects were moved"))
    gc.disable()
    without_collections(Node)
    assert not gc.isenabled()
    gc.enable()


def test_few_collections_are_fewer_and_what_was_made_is_old():
    before = gc.get_threshold()

    def look():
        return gc.get_threshold(), gc.isenabled(), with_few_collections(gc.get_threshold), Node()

    outer, enabled, inner, node = with_few_collections(look)
    assert enabled
    assert outer == inner == (no_collections._FEW, *before[1:])
    assert gc.get_threshold() == before
    assert any(known is node for known in gc.get_objects(generation=2))


def test_much_garbage_is_found_while_there_are_few_collections(monkeypatch):
    monkeypatch.setattr(no_collections, "_FEW", 2_000)

    def work():
        dead = []  # to ask the reference would hold the object just when the collector starts
        first = weakref.ref(Node(), dead.append)
        kept = []
        while not dead and len(kept) < 10_000:
            kept.append([])
        assert first() is None
        return len(kept)

    assert 500 < with_few_collections(work) < 3_000


def test_who_chooses_when_to_collect_is_left_alone(monkeypatch):
    before = gc.get_threshold()
    try:
        with_few_collections(lambda: gc.set_threshold(123, 4, 5))
        assert gc.get_threshold() == (123, 4, 5)
        gc.set_threshold(0)
        assert with_few_collections(gc.get_threshold)[0] == 0
    finally:
        gc.set_threshold(*before)
    monkeypatch.setattr(no_collections, "_make_old", lambda: pytest.fail("objects were moved"))
    gc.disable()
    assert with_few_collections(gc.get_threshold) == before


def test_thresholds_are_back_after_an_error():
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError):
        with_few_collections(lambda: 1 / 0)
    assert gc.get_threshold() == before


def test_an_interrupt_at_the_end_leaves_no_thresholds(monkeypatch):
    """A handler's exception comes after a call, here that of what looks at the thresholds."""
    before = gc.get_threshold()
    calls = []

    class Collector:
        def __getattr__(self, name):
            return getattr(gc, name)

        def get_threshold(self):
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return gc.get_threshold()

    monkeypatch.setattr(no_collections, "gc", Collector())
    with pytest.raises(KeyboardInterrupt):
        with_few_collections(Node)
    assert gc.get_threshold() == before and len(calls) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("during", [without_collections, with_few_collections])
def test_children_collect_as_ever(during):
    """Whatever another thread was doing when they were forked, and what the forking one does."""
    before, began, done = gc.get_threshold(), threading.Event(), threading.Event()

    def state_of_child():
        child = os.fork()
        if child == 0:
            os._exit(gc.isenabled() + 2 * (gc.get_threshold() == before))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    thread = threading.Thread(target=during, args=(lambda: (began.set(), done.wait(60)),))
    thread.start()
    try:
        assert began.wait(60)
        assert state_of_child() == 3
    finally:
        done.set()
        thread.join()
    # Who forks in the middle goes on there.
    assert during(state_of_child) == (2 if during is without_collections else 1)
    assert gc.isenabled() and gc.get_threshold() == before
