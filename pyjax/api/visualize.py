"""Drawings of how arrays lie on devices. Layer: api."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pyjax.api.debugging import inspect_array_sharding
from pyjax.core.errors import new_error
from pyjax.sharding.shardings import Sharding

_COLOURS = (41, 42, 43, 44, 45, 46, 100, 101, 102, 103, 104, 105)


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: Any = None,
) -> None:
    """Print which device holds which part of an array with one or two dimensions.

    Args:
      shape: of the array.   sharding: how it lies.
      use_color: give each part a colour, where the output is a terminal.
      scale: how large the drawing is.
      min_width, max_width: of a part, and of the drawing, in characters.
      color_map: a function of the number of a part that gives the number of a colour (ANSI).
    Raises:
      ValueError: other numbers of dimensions.

    >>> import pyjax
    >>> from pyjax.sharding import SingleDeviceSharding
    >>> on_one = SingleDeviceSharding(pyjax.devices()[0])
    >>> visualize_sharding((4,), on_one, use_color=False)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """
    sizes = tuple(shape)
    if len(sizes) not in (1, 2):
        raise new_error(
            ValueError,
            "`visualize_sharding` only works for shapes with 1 and 2 dimensions, got "
            f"{sizes}; reshape the array, or print sharding.devices_indices_map(shape).",
        )
    parts = _parts(sizes, sharding)
    coloured = use_color and sys.stdout.isatty()
    rows = sorted({row for row, _ in parts})
    columns = sorted({column for _, column in parts})
    names = [[_name(parts.get((r, c), [])) for c in columns] for r in rows]
    longest = max(len(name) for line in names for name in line)
    most = max(1, (max_width - 1) // len(columns) - 1)
    width = max(min(max(min_width, longest + 2), most), round(min_width * scale))
    height = max(1, round(scale) if len(rows) == 1 else round(2 * scale) - 1)
    inner = ["─" * width] * len(columns)
    print("┌" + "┬".join(inner) + "┐")
    for r, line in enumerate(names):
        if r:
            print("├" + "┼".join(inner) + "┤")
        for k in range(height):
            shown = line if k == height // 2 else [""] * len(line)
            cells = [_cell(text, width) for text in shown]
            if coloured:
                numbers = [r * len(columns) + c for c in range(len(columns))]
                cells = [_coloured(n, cell, color_map) for n, cell in zip(numbers, cells)]
            print("│" + "│".join(cells) + "│")
    print("└" + "┴".join(inner) + "┘")


def _parts(shape: tuple[int, ...], sharding: Sharding) -> dict[tuple[int, int], list[Any]]:
    """Devices by where their part begins."""
    found: dict[tuple[int, int], list[Any]] = {}
    for device, index in sharding.devices_indices_map(shape).items():
        starts = [part.start or 0 for part in index]
        place = (starts[0], starts[1]) if len(starts) == 2 else (0, starts[0])
        found.setdefault(place, []).append(device)
    return found


def _name(devices: Sequence[Any]) -> str:
    if not devices:
        return ""
    numbers = ",".join(str(device.id) for device in sorted(devices, key=lambda d: d.id))
    return f"{devices[0].platform.upper()} {numbers}"


def _cell(text: str, width: int) -> str:
    if len(text) > width:
        text = text[: max(0, width - 1)] + "…"
    return text.center(width)


def _coloured(number: int, cell: str, color_map: Any) -> str:
    colour = color_map(number) if color_map else _COLOURS[number % len(_COLOURS)]
    return f"\x1b[{colour}m{cell}\x1b[0m"


def visualize_array_sharding(arr: Any, **kwargs: Any) -> None:
    """`visualize_sharding` of an array; inside of `jit` when the program is compiled.

    Raises:
      ValueError: it has no one or two dimensions.

    >>> from pyjax import numpy as jnp
    >>> visualize_array_sharding(jnp.ones((2, 2)), use_color=False)
    ┌─────────┐
    │  CPU 0  │
    └─────────┘
    """

    def draw(sharding: Sharding) -> None:
        visualize_sharding(arr.shape, sharding, **kwargs)

    inspect_array_sharding(arr, callback=draw)
