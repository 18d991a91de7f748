"""Joining a program of several processes: what one process can check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import pyjax
from pyjax import distributed


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No device was used yet."""
    monkeypatch.setattr(distributed, "are_initialised", lambda: False)
    yield
    distributed.shutdown()


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((), ValueError, "coordinator_address, num_processes and process_id"),
        (("localhost:1", 2), ValueError, "process_id"),
        (("localhost:1", 2, 2), ValueError, "process_id 2 of 2 processes"),
        (("localhost:1", 2, 0), NotImplementedError, "a program of 2 processes"),
    ],
)
def test_bad_calls(arguments: Any, error: type[Exception], text: str, fresh: None) -> None:
    with pytest.raises(error, match=text):
        distributed.initialize(*arguments)
    assert not distributed.is_initialized()


def test_once_and_again(fresh: None) -> None:
    distributed.initialize("localhost:1", 1, 0)
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match=r"(?s)called once.*shutdown"):
        distributed.initialize("localhost:1", 1, 0)
    distributed.shutdown()
    distributed.initialize("localhost:1", 1, 0)


def test_before_any_device() -> None:
    pyjax.devices()
    with pytest.raises(RuntimeError, match="before any device is used"):
        distributed.initialize("localhost:1", 1, 0)


def test_processes_of_devices() -> None:
    assert pyjax.process_count() == 1 and pyjax.process_indices() == [0]
    assert pyjax.local_devices(0) == pyjax.local_devices() == pyjax.devices()
    with pytest.raises(ValueError, match="unknown process_index 3: the processes are 0"):
        pyjax.local_devices(3)
