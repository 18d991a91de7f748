"""The sizes that a convolution's routine takes, which do without what writes it; `conv` says what
they are for."""

from __future__ import annotations

SPATIAL = ("0", "1", "2")


def _three(name: str) -> tuple[str, ...]:
    return tuple(name + d for d in SPATIAL)


# n: batch per group; groups; ci, co: channels per group. x*, w*, o*: strides in elements
# (b: batch, c: channel, i: input channel, o: output channel, g: group, 0 1 2: spatial).
FIELDS: tuple[str, ...] = (
    "n", "groups", "ci", "co",
    *_three("in"), *_three("win"), *_three("out"), *_three("stride"), *_three("pad"),
    *_three("xdil"), *_three("wdil"),
    "xb", "xc", "xg", *_three("x"),
    "wi", "wo", "wg", *_three("w"),
    "ob", "oc", "og", *_three("o"),
)  # fmt: skip
# A window this many times larger than the output is the depth of one product.
LARGE_WINDOW = 4


def pack_dims(**fields: int) -> list[int]:
    """The dims array from keyword arguments, one per name in FIELDS.

    Raises:
      TypeError: a field is missing or unknown.
    """
    unknown = set(fields) - set(FIELDS)
    missing = set(FIELDS) - set(fields)
    if unknown or missing:
        raise TypeError(f"conv dims: unknown {sorted(unknown)}, missing {sorted(missing)}")
    return [fields[name] for name in FIELDS]
