"""What runs threaded code (`targets.cpu.threaded`): how handlers are written, and who calls them.

  void pyjax_threaded_block(ptr context, i64 block)         a stage of a kernel
  void pyjax_threaded_called<n>(ptr data, ptr own, i64...)  a kernel that a routine calls
  i32 pyjax_threaded_entry(ptr code, ptr args, ptr outs, ptr arena)    a program

Each takes the frame of a piece of code on the stack, puts its own arguments there, and goes to the
first instruction. A handler is `void h(ptr code, ptr frame)`: `code` is where its own instruction
is, its address first and then its operands. It ends with a jump to the handler of the next one, so
that no stack grows and the processor foresees each jump by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.threaded_names import (
    ANEW,
    ARENA,
    ARGUMENTS,
    BLOCK,
    CALLED_PARAMETERS,
    CONSTANT,
    CONTEXT,
    ENTRY,
    NUMBER,
    OPTIMISED,
    OUTPUTS,
    OWN,
    PARAMETERS,
    PREFIX,
    PROGRAM,
    RETURN,
    STATUS,
    called,
)

_ALIGNMENT = 64
_HANDLER = (("ptr", "code"), ("ptr", "frame"))
_TYPES = ("ptr", "ptr")


class Handler:
    """A handler that is being written.

    Args:
      name: behind the prefix.
      operands: words of the instruction beside the address.
    """

    def __init__(self, module: ModuleWriter, name: str, operands: int) -> None:
        self.w = module.function(PREFIX + name, _HANDLER)
        self._operands = operands

    def word(self, number: int, ty: str = "i64") -> str:
        """An operand itself."""
        assert number < self._operands
        return self.w.load(ty, self.w.gep("i64", "%code", 1 + number))

    def slot(self, number: int) -> str:
        """The address of the slot that an operand is the offset of."""
        return self.w.gep("i8", "%frame", self.word(number))

    def load(self, number: int, ty: str) -> str:
        """The value in the slot that an operand says."""
        return load_slot(self.w, ty, self.slot(number))

    def store(self, number: int, ty: str, value: str) -> None:
        """Put a value into the slot that an operand says."""
        store_slot(self.w, ty, value, self.slot(number))

    def next(self) -> None:
        """Go to the next instruction."""
        self.go(self.w.gep("i64", "%code", 1 + self._operands))

    def go(self, code: str) -> None:
        """Go to an instruction."""
        handler = self.w.load("ptr", code)
        self.w.line(f"musttail call void {handler}(ptr {code}, ptr %frame)")
        self.w.ret()


def load_slot(w: FunctionWriter, ty: str, slot: str) -> str:
    """The value in a slot; a single bit is a byte there."""
    if ty == "i1":
        return w.cmp("ne", "i8", w.load("i8", slot), "0")
    return w.load(ty, slot)


def store_slot(w: FunctionWriter, ty: str, value: str, slot: str) -> None:
    """Put a value into a slot."""
    if ty == "i1":
        w.store("i8", w.cast("zext", "i1", value, "i8"), slot)
    else:
        w.store(ty, value, slot)


def register() -> None:
    """Declares runners and what all code has."""
    runners = (BLOCK, ENTRY, *[called(n) for n in CALLED_PARAMETERS])
    register_group("threaded", (*runners, RETURN, CONSTANT), _emit)


def _emit(module: ModuleWriter) -> None:
    _run(module, BLOCK, [("ptr", "context"), ("i64", "block")], (CONTEXT, NUMBER))
    for count in CALLED_PARAMETERS:
        parameters = [("i64", f"p{i}") for i in range(count)]
        places = (CONTEXT, OWN, *[PARAMETERS + 8 * i for i in range(count)])
        _run(module, called(count), [("ptr", "data"), ("ptr", "own"), *parameters], places)
    w = module.function(
        ENTRY, [("ptr", "code"), ("ptr", "args"), ("ptr", "outs"), ("ptr", "arena")], "i32"
    )
    frame = _frame(w, "%code")
    for place, text in ((ARGUMENTS, "%args"), (OUTPUTS, "%outs"), (ARENA, "%arena")):
        w.store("ptr", text, w.gep("i8", frame, place))
    w.store("i32", "0", w.gep("i8", frame, STATUS))
    _start(w, "%code", frame)
    w.ret("i32", w.load("i32", w.gep("i8", frame, STATUS)))
    handler = module.function(RETURN, _HANDLER)
    handler.ret()
    constant = Handler(module, "constant", 2)
    constant.store(0, "i64", constant.word(1))
    constant.next()


def _run(
    module: ModuleWriter,
    name: str,
    parameters: Sequence[tuple[str, str]],
    places: Sequence[int],
) -> None:
    """A runner whose first argument is a table that begins with the address of the subroutine."""
    w = module.function(name, parameters)
    code = w.load("ptr", f"%{parameters[0][1]}")
    frame = _frame(w, code)
    for (ty, parameter), place in zip(parameters, places, strict=True):
        w.store(ty, f"%{parameter}", w.gep("i8", frame, place))
    _start(w, code, frame)
    w.ret()


def _frame(w: FunctionWriter, subroutine: str) -> str:
    """Stack memory for the frame of a subroutine, whose first word is its size."""
    return w.value(f"alloca i8, i64 {w.load('i64', subroutine)}, align {_ALIGNMENT}")


def _start(w: FunctionWriter, subroutine: str, frame: str) -> None:
    code = w.load("ptr", w.gep("i64", subroutine, 1))
    w.call_pointer(w.load("ptr", code), "void", [("ptr", code), ("ptr", frame)])


def thunk_text(target: TargetInfo) -> str:
    """The module of a program's `entry`: optimised code, if there is any, else the table, which may
    end because there is optimised code meanwhile."""
    module = ModuleWriter(target)
    module.add(f"@{PROGRAM} = external global i64\n@{OPTIMISED} = external global ptr")
    parameters = [("ptr", "args"), ("ptr", "outs"), ("ptr", "arena")]
    w = module.function("entry", parameters, "i32")
    arguments = ", ".join(f"ptr %{name}" for _, name in parameters)
    find = lambda: w.value(f"load atomic ptr, ptr @{OPTIMISED} acquire, align 8")
    optimised = find()
    threaded, quick = w.new_label("threaded"), w.new_label("quick")
    ended, anew = w.new_label("ended"), w.new_label("anew")
    w.cond_br(w.cmp("eq", "ptr", optimised, "null"), threaded, quick)
    w.label(quick)
    w.ret("i32", w.value(f"musttail call i32 {optimised}({arguments})"))
    w.label(threaded)
    first = [("ptr", f"@{PROGRAM}"), *[(ty, f"%{name}") for ty, name in parameters]]
    status = w.call(ENTRY, "i32", first)
    w.cond_br(w.cmp("eq", "i32", status, str(ANEW)), anew, ended, likely=False)
    w.label(anew)
    w.ret("i32", w.value(f"musttail call i32 {find()}({arguments})"))
    w.label(ended)
    w.ret("i32", status)
    return module.to_text()
