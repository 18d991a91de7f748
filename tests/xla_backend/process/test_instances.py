"""Objects of a class are found, and nothing is disturbed by looking for them."""

import gc
import sysconfig
import threading
import time
import weakref

import pytest

import pyjax
import pyjax.numpy as jnp
from tests.threads import switching_often
from xla_backend.process import no_collections
from xla_backend.process.instances import instances_of
from xla_backend.process.no_collections import without_collections


class Node: ...


class Leaf(Node):
    __slots__ = ("below",)


class Liar:
    """A proxy that says it is a Node, and raises when it is asked."""

    @property
    def __class__(self):
        raise ZeroDivisionError


def test_of_a_class_and_of_those_below():
    node, leaf, liar = Node(), Leaf(), Liar()
    found = instances_of(Node)
    assert len(found) == 2 and any(x is node for x in found) and any(x is leaf for x in found)
    assert instances_of(Leaf) == [leaf]
    del found, node
    assert instances_of(Node) == [leaf]
    assert type(liar) is Liar


def test_arrays_and_programs():
    x = jnp.arange(7.0) + 1
    program = pyjax.jit(lambda x: x * 7 + 3).lower(x).compile()
    assert any(known is x for known in pyjax.live_arrays())
    client = pyjax.devices()[0].client
    executables = client.live_executables()
    assert any(known is program.runtime_executable() for known in executables)
    gone = weakref.ref(x)
    del x
    assert gone() is None


def _make_old_and_collect():
    no_collections._unseen = no_collections._limit + 1
    without_collections(int)


LOOKS = {
    "compiling": _make_old_and_collect,
    "live_arrays": pyjax.live_arrays,
    "live_executables": lambda: pyjax.devices()[0].client.live_executables(),
    "memory profile": pyjax.profiler.device_memory_profile,
}


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="threads do not take turns"
)
@pytest.mark.parametrize("look", LOOKS)
def test_other_threads_make_tuples_meanwhile(look, monkeypatch):
    """A tuple of what an iterator gives cannot get its length where somebody else has got hold of
    it, which ended threads anywhere with "bad argument to internal function"."""
    monkeypatch.setattr(no_collections, "_is_left_alone", False)
    monkeypatch.setattr(no_collections, "_unseen", 0)
    monkeypatch.setattr(no_collections, "_limit", 0)
    failed, done = [], threading.Event()

    def make():
        try:
            while not done.is_set():
                tuple(number for number in range(500))
        except SystemError as error:
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    try:
        with switching_often(1e-5):
            for thread in threads:
                thread.start()
            end = time.monotonic() + 1
            looks = 0
            while looks < 2 or (time.monotonic() < end and not failed):
                LOOKS[look]()
                looks += 1
    finally:
        done.set()
        if frozen:
            gc.freeze()
    for thread in threads:
        thread.join(30)
    assert not failed
