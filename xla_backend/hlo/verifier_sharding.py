"""Constraints on shardings: they fit the shape of the instruction that carries them."""

from __future__ import annotations

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding, parse_sharding


def sharding_complaint(node: Instruction) -> str | None:
    """What is wrong with the sharding of an instruction, None if it has none or it fits."""
    text = node.annotations.get("sharding") if node.annotations else None
    return _complaint(parse_sharding(text), node.shape) if text else None


def _complaint(sharding: Sharding, shape: Shape) -> str | None:
    if sharding.kind == "tuple":
        leaves = shape.flatten() if shape.is_tuple else [shape]
        # sharding_c1
        if len(sharding.elements) != len(leaves) and shape.tuple_shapes:
            return f"sharding {sharding} has {len(sharding.elements)} parts, {shape} {len(leaves)}"
        complaints = (_complaint(e, leaf) for e, leaf in zip(sharding.elements, leaves))
        return next((c for c in complaints if c is not None), None)
    if not shape.is_array:
        return None
    if sharding.kind == "tiled":
        rank = len(sharding.tiles) - len(sharding.subgroups)
    elif sharding.kind == "mesh" and sharding.dimensions:  # `replicated` is for any rank
        rank = len(sharding.dimensions)
    else:
        return None
    # sharding_c2
    if rank != shape.rank:
        return f"sharding {sharding} is for rank {rank}, the shape is {shape}"
    return None
