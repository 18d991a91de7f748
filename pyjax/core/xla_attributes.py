"""What users tell the compiler about operations: names and values that programs carry along.

An operation's attributes are part of its place (`source_info.Frame`), as the names of its scopes
are, so that they stay with it where a program is replayed, differentiated or batched; lowering
writes them as `frontend_attributes`. Those in force are a value that tracing depends on: what is
kept between calls is kept for each. Layer: core.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyjax._config.registry import unlisted_option
from pyjax.core.source_info import Frame

Attributes = tuple[tuple[str, str], ...]

attributes_in_force = unlisted_option("XLA metadata", ())


def attribute_text(value: Any) -> str:
    """The text that stands for a value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def attributes_with(outer: Attributes, updates: Mapping[str, Any]) -> Attributes:
    """Attributes with some set anew, or taken out by None; sorted by name."""
    values = dict(outer)
    for name, value in updates.items():
        if value is None:
            values.pop(name, None)
        else:
            values[name] = attribute_text(value)
    return tuple(sorted(values.items()))


def attributed(place: Frame | None, attributes: Attributes) -> Frame | None:
    """The place of an operation that is recorded where these are in force; those that it had keep
    their values."""
    if place is None or place.attributes == attributes:
        return place
    return place.updated(attributes=attributes_with(attributes, dict(place.attributes)))
