"""Handlers of threaded code by groups, each of which is one object that a process loads as a whole.

What most programs have is in one group, wherever it is written, so that few are loaded: each takes
a tenth of a millisecond. `_USUAL` are those that eight of the benchmark suite's programs have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_names import PREFIX

# By name: how many operands there are, and what writes the work.
Write = Callable[[Handler], None]
Handlers = dict[str, tuple[int, Write]]

_GROUP = "threaded.usual"
_USUAL = frozenset(
    "fetch point frame_address index1 index2 index3 index4 index_min_number index_shift widen.4 "
    "spread.0 spread.4 copy copy_word lanes_along.i32 lanes_below.i32 lanes_sum.i32 "
    "count count_to jump_unless_positive jump_unless_in_range "
    "load.4x1 load.4x16 load.4x32 load.4x64 load.4.masked load.4.apart load.4.apart.masked "
    "store.4x1 store.4x16 store.4x32 store.4x64 store.4.masked store.4.apart store.1x1 "
    "load.4.n store.4.n store.4x1.if gather.4.table gather.4.i32 "
    "update.add.f32.i32.masked add.f32.memory0 add.f32.memory1 subtract.f32.memory0 "
    "subtract.f32.memory1 multiply.f32.memory0 multiply.f32.memory1 maximum.f32.memory1 "
    "add.f32.1 add.f32.n subtract.f32.1 subtract.f32.n multiply.f32.1 multiply.f32.n divide.f32.1 "
    "divide.f32.n maximum.f32.1 maximum.f32.n minimum.f32.n negate.f32.n abs.f32.n sqrt.f32.n "
    "compare.GT.f32.n exponential.f32.n tanh.f32.n "
    "add.s32.1 add.s32.n subtract.s32.1 subtract.s32.n multiply.s64.1 minimum.s32.1 minimum.s32.n "
    "maximum.s32.1 maximum.s32.n compare.LT.s32.1 compare.LT.s32.n compare.EQ.s32.n "
    "compare.LE.u32.1 compare.GE.s32.n convert.s32.u32.1 convert.u32.s32.1 convert.pred.f32.n "
    "select.4.1 select.4.n and.pred.1 and.pred.n or.pred.1 or.pred.n".split()
)
_usual: dict[str, tuple[int, Write]] = {}


def declare_handlers(group: str, handlers: Handlers, jumps: Handlers | None = None) -> None:
    """Declares handlers: a group of those that are not usual. `jumps` are those that do not just go
    on to the next instruction when their work is done."""
    members: Handlers = {
        name: (n, partial(_and_on, write)) for name, (n, write) in handlers.items()
    }
    members |= jumps or {}
    _usual.update({name: members.pop(name) for name in _USUAL & members.keys()})
    for name, own in ((group, members), (_GROUP, dict(sorted(_usual.items())))):
        symbols = tuple([PREFIX + handler for handler in own])
        if symbols:
            register_group(name, symbols, partial(_emit, own))


def _and_on(write: Write, h: Handler) -> None:
    write(h)
    h.next()


def _emit(handlers: Handlers, module: ModuleWriter) -> None:
    for name, (operands, write) in handlers.items():
        write(Handler(module, name, operands))
