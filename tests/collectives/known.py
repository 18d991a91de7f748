"""Where rows differ from the reference, and why they stay so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tests.collectives.recorded import load


@dataclass(frozen=True)
class Known:
    """Rows that differ.

    Attributes:
      what: which differences (see `compare.differences`).
      rows: a regular expression that is searched in keys.
      text: one that is searched in the reference's message.
    """

    what: str
    rows: str
    reason: str
    text: str = ""

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        return re.compile(self.rows), re.compile(self.text)

    def covers(self, key: str, difference: str) -> bool:
        rows, text = self.patterns
        return (
            difference in self.what.split(", ")
            and rows.search(key) is not None
            and text.search(load()[key].get("text", "")) is not None
        )


KNOWN = [
    # -- what the reference gets wrong -----------------------------------------------------------
    Known(
        "types, value",
        r"(all_to_all|pswapaxes)\(.* \| vmap of others \|",
        "of an operand that is not mapped the reference's vmap gives a dimension too many",
    ),
    Known(
        "types, value",
        r"all_to_all\(.*WEAK.* \| vmap",
        "of an operand that is not mapped the reference's vmap gives a dimension too many",
    ),
    Known(
        "types, refused",
        r"p(max|min)\(.*axis_index_groups=.* \| (shard_map|some axes)",
        "results of groups differ from group to group; the reference's types say that they are the "
        "same everywhere",
    ),
    Known(
        "value",
        r"all_gather\(.*to='invarying'.* \| (shard_map-|pmap|vmap)",
        "without types nothing says that cotangents are the same everywhere, and what all get has "
        "the sum of them for a cotangent; the reference takes its own slice of its own one, which "
        "is wrong where they differ",
    ),
    Known(
        "types",
        r"psum_scatter\(x > 0, 'i'\) \| vmap of others",
        "the reference takes booleans there only, and says that their sums are weak integers",
    ),
    Known(
        "refused",
        r"psum_scatter\(x, 'i', scatter_dimension=1\) \| vmap",
        "under vmap the reference does not compare the dimension with the axis",
    ),
    Known(
        "refused",
        r"ppermute\(x, 'i', \[\(-1, 0\)\]\)",
        "positions count from 0, as under the reference's vmap",
    ),
    Known(
        "another error",
        r"ppermute\(x, 'i', \[\((-1, 0|0, 4)\)\]\) \| shard_map \| P\(\)",
        "positions are looked at before out_specs",
    ),
    Known(
        "another error",
        r"pcast\(x, 'k', to='varying'\) \| vmap \| eager",
        "an axis that is not bound is a NameError, as elsewhere",
    ),
    Known(
        "another error",
        r"axis_index_groups=OF_BOTH.* \| (vmap in shard_map|shard_map in vmap)",
        "groups of positions along an axis of a mesh and one of a vmap are not implemented",
    ),
    Known(
        "value",
        r"ppermute\(x, \('i', 'j'\).* \| (vmap, vmap|shard_map in vmap)",
        "the reference cannot; along axes of vmaps positions count in the order of names, along "
        "those of a mesh in its order",
    ),
    # -- what the reference does not do ----------------------------------------------------------
    Known(
        "not refused",
        "pbroadcast",
        "the reference has no transpose, and runs it on other devices only",
    ),
    Known(
        "not refused",
        r"all_to_all\(",
        "the reference's transpose of an exchange of whole slices gives the wrong shape",
        "^Expected cotangent type",
    ),
    Known(
        "not refused",
        r"(all_to_all|psum_scatter)\(.*-[12]",
        "axes count from the end, as everywhere",
        "cannot reshape|verifier errors|cannot select an axis",
    ),
    Known(
        "not refused",
        r"psum_scatter\(.* \| vmap 1 \|",
        "the reference loses the mapped dimension if it is not the first",
        "tuple index out of range",
    ),
    Known(
        "not refused",
        r"\| 4x0$",
        "parts without elements are parts",
        "verifier errors|broadcast input",
    ),
    Known(
        "not refused",
        r"\| (vmap in shard_map|shard_map in vmap|shard_map|some axes) \|",
        "axes of meshes and of vmaps and dimensions are summed over together, as two of a kind are",
        "can only accept axis_name which corresponds",
    ),
    Known(
        "not refused",
        r"(ppermute|pshuffle)\(x, \('[ij]', '[ij]'\)",
        "pairs of positions along an axis of devices and one of a vmap are sent, too",
        "must be unique|index out of range",
    ),
    Known(
        "not refused",
        r"psum\(x, -1\)",
        "dimensions count from the end, as everywhere",
        "out-of-bounds",
    ),
    Known(
        "not refused",
        "to='(unreduced|reduced)'",
        "without types nothing says what is still to be summed: it is left out",
        "Unsupported pcast|all_gather_reduced only|unreduced in out_specs",
    ),
    Known(
        "not refused",
        r"all_gather\(.*to='invarying'.* \| vmap",
        "a vmap has no types along its axis, and gathers",
        "pvary should be called",
    ),
]


def reason_of(key: str, difference: str) -> str | None:
    return next((known.reason for known in KNOWN if known.covers(key, difference)), None)
