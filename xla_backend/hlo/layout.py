"""What a layout says beyond the order of dimensions: tiles, memory space, element width ...

A `LayoutDetails` is what stands behind the colon in `f32[2,3]{1,0:T(8,128)S(1)}`. This compiler
keeps it and prints it back; it never changes what an instruction computes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from xla_backend.hlo.types import BY_NAME, PrimitiveType

Dims = tuple[int, ...]
COMBINE = -1  # a tile dimension written `*`: merged with the next more minor one


class SplitConfig(NamedTuple):
    """`SC(dimension:index,index)`: where a dimension is cut in pieces."""

    dimension: int
    indices: Dims


class LayoutDetails(NamedTuple):
    """The fields of a layout that are rarely set; the defaults print as nothing."""

    tiles: tuple[Dims, ...] = ()
    tail_padding_alignment: int = 1
    index_type: PrimitiveType | None = None
    pointer_type: PrimitiveType | None = None
    element_bits: int = 0
    memory_space: int = 0
    splits: tuple[SplitConfig, ...] = ()
    metadata_prefix_bytes: int = 0

    def __str__(self) -> str:
        """`T(8,128)(2,1)L(8)#(u32)*(u64)E(4)S(1)SC(0:4)M(8)`, what is set of it."""
        text = ""
        if self.tiles:
            text += "T" + "".join(f"({_tile_text(tile)})" for tile in self.tiles)
        if self.tail_padding_alignment != 1:
            text += f"L({self.tail_padding_alignment})"
        if self.index_type is not None:
            text += f"#({self.index_type})"
        if self.pointer_type is not None:
            text += f"*({self.pointer_type})"
        if self.element_bits:
            text += f"E({self.element_bits})"
        if self.memory_space:
            text += f"S({self.memory_space})"
        if self.splits:
            text += "SC" + "".join(
                f"({dimension}:{','.join(map(str, indices))})" for dimension, indices in self.splits
            )
        if self.metadata_prefix_bytes:
            text += f"M({self.metadata_prefix_bytes})"
        return text


DEFAULT_DETAILS = LayoutDetails()


def _tile_text(tile: Dims) -> str:
    return ",".join("*" if d == COMBINE else str(d) for d in tile)


_NUMBER = r"-?\d{1,18}"
# Compiled with the first layout that has details: most processes meet none.
_DETAILS = (
    r"(?:D\((?P<levels>[A-Z,]*)\))?"  # how sparse arrays were written; dense ones drop it
    r"(?:T(?P<tiles>(?:\((?:[\d,*]*)\))+))?"
    rf"(?:L\((?P<tail>{_NUMBER})\))?"
    r"(?:\#\((?P<index>\w+)\))?"
    r"(?:\*\((?P<pointer>\w+)\))?"
    rf"(?:E\((?P<bits>{_NUMBER})\))?"
    rf"(?:S\((?P<space>{_NUMBER})\))?"
    r"(?:SC(?P<splits>(?:\(\d{1,18}:\d{1,18}(?:,\d{1,18})*\))+))?"
    r"(?:M\((?P<prefix>\d{1,18})\))?"
)
_TILE_DIMENSION = re.compile(r"\d{1,18}|\*")
_GROUP = re.compile(r"\(([^()]*)\)")


def parse_details(text: str) -> LayoutDetails | None:
    """The record that `text` spells, without the colon; None where it says nothing.

    Raises:
      ValueError: not in the form and order `T L # * E S SC M`; the message says so.
    """
    match = re.fullmatch(_DETAILS, re.sub(r"\s+", "", text))
    if match is None:
        raise ValueError(
            "expected T(tile)..., L(n), #(type), *(type), E(n), S(n), SC(dim:index)..., M(n), "
            "in this order"
        )
    groups = match.groupdict()
    details = LayoutDetails(
        _tiles(groups["tiles"] or ""),
        int(groups["tail"] or 1),
        _type(groups["index"]),
        _type(groups["pointer"]),
        int(groups["bits"] or 0),
        int(groups["space"] or 0),
        _splits(groups["splits"] or ""),
        int(groups["prefix"] or 0),
    )
    return None if details == DEFAULT_DETAILS else details


def _tiles(text: str) -> tuple[Dims, ...]:
    tiles = []
    for group in _GROUP.findall(text):
        parts = group.split(",") if group else []
        if not all(_TILE_DIMENSION.fullmatch(part) for part in parts):
            raise ValueError(f"'{group}' is no tile: numbers or * separated by commas")
        tiles.append(tuple(COMBINE if part == "*" else int(part) for part in parts))
    return tuple(tiles)


def _type(name: str | None) -> PrimitiveType | None:
    if name is None:
        return None
    element_type = BY_NAME.get(name)
    if element_type is None:
        raise ValueError(f"unknown element type '{name}'")
    return element_type


def _splits(text: str) -> tuple[SplitConfig, ...]:
    splits = []
    for group in _GROUP.findall(text):
        dimension, _, indices = group.partition(":")
        splits.append(SplitConfig(int(dimension), tuple(map(int, indices.split(",")))))
    return tuple(splits)
