"""Attributes that are computed when somebody asks."""

import os
import threading

import pytest

from xla_backend.process.lazy import lazy


class _Slow:
    def __init__(self):
        self.computed = 0
        self.inside, self.go = threading.Event(), threading.Event()

    @lazy
    def value(self):
        """Of nothing."""
        self.computed += 1
        if threading.current_thread() is not threading.main_thread():
            self.inside.set()
            assert self.go.wait(30)
        return [self.computed]


def test_is_computed_once_for_each_object():
    slow, other = _Slow(), _Slow()
    assert slow.value is slow.value and slow.value == [1] and slow.computed == 1
    assert other.value == [1] and other.value is not slow.value
    assert _Slow.value.__doc__ == "Of nothing."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_does_not_wait_for_a_thread_of_its_parent():
    slow = _Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.inside.wait(30)
    first = slow.value  # nor does another thread
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, b"%d" % _Slow().value[0])
        os._exit(0)
    os.close(write)
    ready = threading.Event()
    got = []
    reader = threading.Thread(target=lambda: (got.append(os.read(read, 9)), ready.set()))
    reader.start()
    came = ready.wait(10)
    if not came:
        os.kill(child, 9)
    os.waitpid(child, 0)
    slow.go.set()
    thread.join()
    reader.join()
    os.close(read)
    assert came and got == [b"1"]
    assert slow.value is first
