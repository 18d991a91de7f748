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
    """Tell the event listeners that `event` happened.

    >>> record_event("/demo/hit", size=3)  # nobody listens: nothing happens
    """
    for listener in tuple(_event_listeners):
        listener(event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the duration listeners that `event` took `duration` seconds.

    >>> record_event_duration_secs("/demo/load", 0.5)  # nobody listens: nothing happens
    """
    for listener in tuple(_duration_listeners):
        listener(event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell the time span listeners when `event` began and ended (seconds since the epoch).

    >>> record_event_time_span("/demo/load", 10.0, 12.5)  # nobody listens: nothing happens
    """
    for listener in tuple(_time_span_listeners):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the scalar listeners a value.

    >>> record_scalar("/demo/loss", 0.25, step=7)  # nobody listens: nothing happens
    """
    for listener in tuple(_scalar_listeners):
        listener(event, value, **kwargs)


def register_event_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, **kwargs)` at each event.

    >>> heard = {}
    >>> def listener(event, **kwargs):
    ...     heard[event] = kwargs
    >>> register_event_listener(listener)
    >>> record_event("/demo/hit", size=3)
    >>> unregister_event_listener(listener)
    >>> heard["/demo/hit"]
    {'size': 3}
    """
    _event_listeners.append(callback)


def register_event_duration_secs_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, duration, **kwargs)` at each duration.

    >>> heard = {}
    >>> def listener(event, duration, **kwargs):
    ...     heard[event] = duration
    >>> register_event_duration_secs_listener(listener)
    >>> record_event_duration_secs("/demo/load", 0.5)
    >>> unregister_event_duration_listener(listener)
    >>> heard["/demo/load"]
    0.5
    """
    _duration_listeners.append(callback)


def register_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, start_time, end_time, **kwargs)` at each time span.

    >>> heard = {}
    >>> def listener(event, start_time, end_time, **kwargs):
    ...     heard[event] = end_time - start_time
    >>> register_event_time_span_listener(listener)
    >>> record_event_time_span("/demo/load", 10.0, 12.5)
    >>> unregister_event_time_span_listener(listener)
    >>> heard["/demo/load"]
    2.5
    """
    _time_span_listeners.append(callback)


def register_scalar_listener(callback: Callable[..., None]) -> None:
    """Call `callback(event, value, **kwargs)` at each scalar.

    >>> heard = {}
    >>> def listener(event, value, **kwargs):
    ...     heard[event] = value
    >>> register_scalar_listener(listener)
    >>> record_scalar("/demo/loss", 0.25)
    >>> unregister_scalar_listener(listener)
    >>> heard["/demo/loss"]
    0.25
    """
    _scalar_listeners.append(callback)


def _remove(listeners: list[Any], callback: Callable[..., None]) -> None:
    if callback not in listeners:
        raise new_error(ValueError, f"{callback} is not registered as a listener")
    listeners.remove(callback)


def unregister_event_listener(callback: Callable[..., None]) -> None:
    """Stop calling an event listener; ValueError if it is not registered.

    >>> register_event_listener(print)
    >>> unregister_event_listener(print)
    >>> record_event("/demo/hit")  # nothing is printed
    """
    _remove(_event_listeners, callback)


def unregister_event_duration_listener(callback: Callable[..., None]) -> None:
    """Stop calling a duration listener; ValueError if it is not registered.

    >>> register_event_duration_secs_listener(print)
    >>> unregister_event_duration_listener(print)
    >>> record_event_duration_secs("/demo/load", 0.5)  # nothing is printed
    """
    _remove(_duration_listeners, callback)


def unregister_event_time_span_listener(callback: Callable[..., None]) -> None:
    """Stop calling a time span listener; ValueError if it is not registered.

    >>> register_event_time_span_listener(print)
    >>> unregister_event_time_span_listener(print)
    >>> record_event_time_span("/demo/load", 10.0, 12.5)  # nothing is printed
    """
    _remove(_time_span_listeners, callback)


def unregister_scalar_listener(callback: Callable[..., None]) -> None:
    """Stop calling a scalar listener; ValueError if it is not registered.

    >>> register_scalar_listener(print)
    >>> unregister_scalar_listener(print)
    >>> record_scalar("/demo/loss", 0.25)  # nothing is printed
    """
    _remove(_scalar_listeners, callback)


def clear_event_listeners() -> None:
    """Forget all listeners.

    >>> register_event_listener(print)
    >>> clear_event_listeners()
    >>> record_event("/demo/hit")  # nothing is printed
    """
    for listeners in (
        _event_listeners,
        _duration_listeners,
        _time_span_listeners,
        _scalar_listeners,
    ):
        listeners.clear()
