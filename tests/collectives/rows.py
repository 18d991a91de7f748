"""The rows of the sweep: a call, where it is mapped, how it is transformed, and of what dtype.

A row is known by its key, `call | context | transformation | dtype | shape`, of which it is made
anew (`row_of`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.collectives.calls import (
    CALLS,
    CALLS_OF_TWO,
    CENTRAL,
    CENTRAL_OF_TWO,
    OF_EVERY_DTYPE,
    Shape,
)

# Where the axes come from. "-": shard_map with check_vma=False.
OF_ONE = [
    "vmap", "vmap 1", "vmap of others", "shard_map", "shard_map-", "some axes", "some axes-",
    "pmap",
]  # fmt: skip
OF_TWO = [
    "vmap, vmap", "shard_map, both", "shard_map-, both", "vmap in shard_map", "vmap in shard_map-",
    "shard_map in vmap", "vmap in pmap",
]  # fmt: skip

# Of the mapped function ("of ..."), or inside of it.
OF_IT = [
    "of jvp",
    "of vjp",
    "of linearize",
    "of vmap",
    "of grad of grad",
    "of vmap of grad",
    "of jacfwd",
]
INSIDE = [
    "jvp", "vjp", "grad", "vmap", "vmap 1", "grad of vmap", "jit", "scan", "cond", "while",
    "checkpoint", "custom_vjp", "grad of scan", "grad of cond", "unmapped in vmap",
]  # fmt: skip
DTYPES = [
    "bool", "int8", "uint8", "int16", "int32", "uint32", "float16", "bfloat16", "float8_e4m3fn",
    "float8_e5m2", "complex64",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """`transformation`: one of the above, "" for none, "eager" without `jit`, or "P()": its result
    is said to be the same everywhere."""

    call: str
    context: str
    transformation: str
    dtype: str
    shape: Shape

    @property
    def key(self) -> str:
        shape = "x".join(map(str, self.shape))
        return " | ".join((self.call, self.context, self.transformation, self.dtype, shape))


def row_of(key: str) -> Row:
    call, context, transformation, dtype, shape = key.split(" | ")
    return Row(
        call, context, transformation, dtype, tuple(map(int, filter(None, shape.split("x"))))
    )


def _everywhere() -> list[Row]:
    found = []
    for contexts, calls in ((OF_ONE, CALLS), (OF_TWO, CALLS_OF_TWO)):
        for shape, of_shape in calls.items():
            for call in of_shape:
                for context in contexts:
                    found.append(Row(call, context, "", "float32", shape))
                for context in (contexts[0], contexts[3] if contexts is OF_ONE else contexts[1]):
                    found.append(Row(call, context, "eager", "float32", shape))
                if "shard_map" in contexts:
                    found.append(Row(call, "shard_map", "P()", "float32", shape))
    return found


def _transformed() -> list[Row]:
    found = []
    for calls, shape, contexts in (
        (CENTRAL, (4, 8), ["vmap", "shard_map", "shard_map-", "some axes", "pmap"]),
        (CENTRAL_OF_TWO, (8, 8), ["vmap, vmap", "shard_map, both", "shard_map-, both",
                                  "vmap in shard_map"]),
    ):  # fmt: skip
        for call in calls:
            for context in contexts:
                for transformation in (*OF_IT, *INSIDE):
                    found.append(Row(call, context, transformation, "float32", shape))
    return found


def _dtypes() -> list[Row]:
    return [
        Row(call, context, transformation, dtype, (4, 8))
        for call in OF_EVERY_DTYPE
        for context in ("vmap", "shard_map")
        for dtype in DTYPES
        for transformation in ("", "of jvp", *(["of vjp"] if dtype == "complex64" else []))
    ]


ROWS: dict[str, Row] = {row.key: row for row in (*_everywhere(), *_dtypes(), *_transformed())}
