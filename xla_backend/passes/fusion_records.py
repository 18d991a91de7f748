"""What was decided about a fusion, written on it: in its backend_config, so that it is printed and
parsed with the module.

    fusion(x), kind=kLoop, calls=softmax, backend_config={"rows": {"dimensions": [4, 64], ...}}

One pass decides and records; buffers, lowering and code generation read. Instructions inside go by
their number in the post order of the fused computation, which does not depend on names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.output_fusion import ResultShape
from xla_backend.passes.row_space import RowPlanning, RowSpace

_KEY = "backend_config"
_ROWS, _EPILOGUE = "rows", "epilogue"


class RowPlan(NamedTuple):
    """How a fused computation runs over the rows of `space`: loop after loop over each row.

    Fields:
      reduces: reductions of each loop (the last loop may have none).
      stores: outputs of whole arrays that are written in each loop.
      keeps: elements that each loop stores for later ones, instead of computing them again.
      row_roots: outputs of one value per row.
      read_where_written: parameters that are read for the last time where the loop that writes
        results has just been.
    """

    space: RowSpace
    reduces: Sequence[Sequence[Instruction]]
    stores: Sequence[Sequence[Instruction]]
    keeps: Sequence[Sequence[Instruction]]
    row_roots: Sequence[Instruction]
    read_where_written: frozenset[int]

    @property
    def loops(self) -> int:
        return len(self.reduces)


class EpilogueRecord(NamedTuple):
    """What a kOutput fusion is: how the result of its product is walked through, and the parameter
    that it is the sum of product and parameter of, if it is nothing else."""

    shape: ResultShape
    adds_to: int | None


def record_rows(fusion: Instruction, planning: RowPlanning) -> bool:
    """Write down how a fusion runs over rows. True iff that is news."""
    return _record(fusion, _rows_record(fusion, planning))


def records_rows(fusion: Instruction, planning: RowPlanning | None) -> bool:
    """Whether what is written about rows on a fusion, if anything is, is this."""
    if _ROWS not in _read(fusion):
        return True
    return planning is not None and record_text(fusion) == _text(_rows_record(fusion, planning))


def _rows_record(fusion: Instruction, planning: RowPlanning) -> dict[str, Any]:
    number = {node: i for i, node in enumerate(fusion.called[0].post_order())}
    loops = zip(planning.reduces, planning.stores, planning.keeps)
    rows = {
        "dimensions": planning.space.dimensions,
        "reduced": planning.space.reduced,
        "loops": [
            {
                name: [number[node] for node in nodes]
                for name, nodes in zip(("reduces", "stores", "keeps"), loop)
                if nodes
            }
            for loop in loops
        ],
        "read_where_written": planning.read_where_written,
    }
    return {_ROWS: rows}


def rows_of(fusion: Instruction) -> RowPlan | None:
    """The plan of a fusion that runs over rows; None of others.

    Raises:
      HloError: what is written on the fusion does not fit its computation.
    """
    rows = _read(fusion).get(_ROWS)
    if rows is None:
        return None
    fused = fusion.called[0]
    order = fused.post_order()

    def nodes(name: str) -> list[list[Instruction]]:
        return [[order[i] for i in loop.get(name, ())] for loop in rows["loops"]]

    try:
        reduces, stores, keeps = nodes("reduces"), nodes("stores"), nodes("keeps")
    except IndexError:
        raise misfit(fusion) from None
    inside = {n for n in order if n.opcode is Opcode.REDUCE}
    roots = dict.fromkeys(fused.outputs)
    stored = {root for loop in stores for root in loop}
    if not {n for loop in reduces for n in loop} <= inside or not stored <= set(roots):
        raise misfit(fusion)
    return RowPlan(
        RowSpace(tuple(rows["dimensions"]), tuple(rows["reduced"])),
        reduces,
        stores,
        keeps,
        [root for root in roots if root not in stored],
        frozenset(rows["read_where_written"]),
    )


def record_epilogue(fusion: Instruction, record: EpilogueRecord) -> None:
    """Write down what a kOutput fusion is."""
    _record(fusion, {_EPILOGUE: {**record.shape._asdict(), "adds_to": record.adds_to}})


def epilogue_record(fusion: Instruction) -> EpilogueRecord:
    """What is written on a kOutput fusion.

    Raises:
      HloError: nothing is.
    """
    found = _read(fusion).get(_EPILOGUE)
    if found is None:
        raise misfit(fusion)
    adds_to = found.pop("adds_to")
    return EpilogueRecord(ResultShape(**found), adds_to)


def record_text(fusion: Instruction) -> str:
    """All that is written on a fusion: part of what code for it depends on."""
    return (fusion.annotations or {}).get(_KEY, "")


def _record(fusion: Instruction, record: dict[str, Any]) -> bool:
    text = _text(record)
    if record_text(fusion) == text:
        return False
    fusion.annotations = {**(fusion.annotations or {}), _KEY: text}
    return True


def _text(record: dict[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


def _read(fusion: Instruction) -> dict[str, Any]:
    text = record_text(fusion)
    return json.loads(text) if text else {}


def misfit(fusion: Instruction) -> HloError:
    """What to raise about a fusion that is not what is written on it."""
    return HloError(
        f"the backend_config {record_text(fusion)!r} of {fusion!r} does not fit its computation: "
        "run the passes that form fusions again, which write it"
    )
