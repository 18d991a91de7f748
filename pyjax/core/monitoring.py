"""Events that libraries record, and listeners that are told about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjax.core.errors import new_error

_event_listeners: list[Callable[..., None]] = []
_duration_listeners: list[Callable[..., None]] = []
_time_span_listeners: list[Callable[..., None]] = []
_scalar_listeners: list[Callable[..., None]] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the event listeners that `event` happened."""
    for listener in tuple(_event_listeners):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the duration listeners that `event` took `duration` seconds."""
    for listener in tuple(_duration_listeners):
        listener(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell the time span listeners when `event` began and ended (seconds since the epoch)."""
    for listener in tuple(_time_span_listeners):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the scalar listeners a value."""
    for listener in tuple(_scalar_listeners):
        listener(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, **kwargs)` at each event."""
    _event_listeners.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, duration, **kwargs)` at each duration."""
    _duration_listeners.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, start_time, end_time, **kwargs)` at each time span."""
    _time_span_listeners.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, value, **kwargs)` at each scalar."""
    _scalar_listeners.append(callback)


def _remove(listeners: list[Any], callback: Callable[..., None]) -> None:
    if callback not in listeners:
        raise new_error(ValueError, f"{callback} is not registered as a listener")
    listeners.remove(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Stop calling an event listener; ValueError if it is not registered."""
    _remove(_event_listeners, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Stop calling a duration listener; ValueError if it is not registered."""
    _remove(_duration_listeners, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Stop calling a time span listener; ValueError if it is not registered."""
    _remove(_time_span_listeners, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Stop calling a scalar listener; ValueError if it is not registered."""
    _remove(_scalar_listeners, callback)


def clear_event_listeners() -> None:
    """Forget all listeners."""
    for listeners in (
        _event_listeners,
        _duration_listeners,
        _time_span_listeners,
        _scalar_listeners,
    ):
        listeners.clear()
