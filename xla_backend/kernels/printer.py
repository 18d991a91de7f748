"""Prints kernels of the loop IR the way one would write them in Python."""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import FloorDiv, Index, Mod
from xla_backend.kernels.ir import (
    BufferRole,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
)

_INFIX = {
    Opcode.ADD: "+",
    Opcode.SUBTRACT: "-",
    Opcode.MULTIPLY: "*",
    Opcode.DIVIDE: "/",
    Opcode.REMAINDER: "%",
    Opcode.AND: "&",
    Opcode.OR: "|",
    Opcode.XOR: "^",
    Opcode.SHIFT_LEFT: "<<",
    Opcode.SHIFT_RIGHT_ARITHMETIC: ">>",
}
_COMPARE = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
_NAMES = {
    Opcode.EXPONENTIAL: "exp",
    Opcode.LOG_PLUS_ONE: "log1p",
    Opcode.EXPONENTIAL_MINUS_ONE: "expm1",
}


def kernel_to_text(kernel: Kernel) -> str:
    """The whole kernel as text; constants are written where they are used."""
    return _Printer(kernel).text()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.next = 0

    def text(self) -> str:
        kernel = self.kernel
        parameters = []
        for buffer in kernel.buffers:
            role = (
                ""
                if buffer.role in (BufferRole.OPERAND, BufferRole.OUTPUT)
                else f" {buffer.role.value}"
            )
            parameters.append(f"{buffer.name}:{role} {buffer.element_type}[{buffer.size}]")
        self.lines.append(f"def {kernel.name}({', '.join(parameters)}):")
        for output, operand in kernel.in_place.items():
            self.lines.append(
                f"    out{output}[:] = p{operand}  # in place where they share memory"
            )
        self._block(kernel.stages, 1)
        return "\n".join(self.lines) + "\n"

    def _name(self, value: Value) -> str:
        name = self.names.get(value)
        if name is None:
            name = f"v{self.next}"
            self.next += 1
            self.names[value] = name
        return name

    def _index(self, index: Index) -> str:
        parts: list[str] = []
        for atom, c in sorted(index.terms.items(), key=lambda term: term[0].depth):
            text = self._atom(atom)
            if abs(c) != 1:
                text = f"{abs(c)}*{text}"
            if parts:
                parts.append((" + " if c > 0 else " - ") + text)
            else:
                parts.append(text if c > 0 else f"-{text}")
        if index.constant or not parts:
            if not parts:
                return str(index.constant)
            parts.append(f" {'+' if index.constant > 0 else '-'} {abs(index.constant)}")
        return "".join(parts)

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, Value):
            return self._name(atom)
        if isinstance(atom, FloorDiv | Mod):
            sign = "//" if isinstance(atom, FloorDiv) else "%"
            inner = self._index(atom.index)
            if " " in inner:
                inner = f"({inner})"
            return f"({inner} {sign} {atom.divisor})"
        return atom.name

    def _block(self, statements: list[Statement], depth: int) -> None:
        for statement in statements:
            self._statement(statement, depth)

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _statement(self, s: Statement, depth: int) -> None:
        if isinstance(s, Constant):
            self.names[s.result] = _constant_text(s.value)
        elif isinstance(s, Load):
            guard = f" if {self._name(s.guard)} else 0" if s.guard else ""
            where = f"{s.buffer.name}[{self._index(s.index)}]"
            self._line(depth, f"{self._name(s.result)} = {where}{guard}")
        elif isinstance(s, Store):
            values = ", ".join(self._name(v) for v in s.values)
            where = self._index(s.index)
            if len(s.values) > 1:
                where = f"{where} : {self._index(s.index + len(s.values))}"
            prefix = f"if {self._name(s.guard)}: " if s.guard else ""
            self._line(depth, f"{prefix}{s.buffer.name}[{where}] = {values}")
        elif isinstance(s, Compute):
            self._line(depth, f"{self._name(s.result)} = {self._expression(s)}")
        elif isinstance(s, IndexValue):
            self._line(depth, f"{self._name(s.result)} = {s.result.type}({self._index(s.index)})")
        elif isinstance(s, InRange):
            text = f"{s.low} <= {self._index(s.index)} < {s.high}"
            self._line(depth, f"{self._name(s.result)} = {text}")
        elif isinstance(s, Loop):
            self._loop(s, depth)

    def _expression(self, s: Compute) -> str:
        names = [self._name(o) for o in s.operands]
        if s.opcode in _INFIX and len(names) == 2:
            return f"{names[0]} {_INFIX[s.opcode]} {names[1]}"
        if s.opcode is Opcode.COMPARE:
            order = ", total order" if s.attributes.total_order else ""
            return f"{names[0]} {_COMPARE[s.attributes.direction.value]} {names[1]}{order}"
        if s.opcode is Opcode.NEGATE:
            return f"-{names[0]}"
        if s.opcode is Opcode.NOT:
            return f"~{names[0]}"
        if s.opcode is Opcode.SELECT:
            return f"{names[1]} if {names[0]} else {names[2]}"
        if s.opcode in (Opcode.CONVERT, Opcode.BITCAST_CONVERT):
            how = "" if s.opcode is Opcode.CONVERT else ".from_bits"
            return f"{s.result.type}{how}({names[0]})"
        name = _NAMES.get(s.opcode) or s.opcode.value.replace("-", "_")
        extra = []
        if s.opcode is Opcode.REDUCE_PRECISION:
            extra = [f"e{s.attributes.exponent_bits}m{s.attributes.mantissa_bits}"]
        return f"{name}({', '.join(names + extra)})"

    def _loop(self, loop: Loop, depth: int) -> None:
        marks = []
        if loop.parallel:
            marks.append("parallel")
        if loop.tile > 1:
            marks.append(f"tile {loop.tile}")
        if loop.vector > 1:
            marks.append(f"vector {loop.vector}")
        comment = f"  # {', '.join(marks)}" if marks else ""
        for carry in loop.carries:
            # One name for the whole life of a carried value, as an accumulator variable has.
            name = f"acc{self.next}"
            self.next += 1
            if carry.init in self.names and self.names[carry.init].startswith("acc"):
                name = self.names[carry.init]
            else:
                self._line(depth, f"{name} = {self._name(carry.init)}")
            self.names[carry.phi] = name
            self.names[carry.result] = name
        self._line(depth, f"for {loop.var.name} in range({loop.var.extent}):{comment}")
        self._block(loop.body, depth + 1)
        updates = [
            (self.names[c.phi], self._name(c.next)) for c in loop.carries if c.next is not None
        ]
        updates = [(name, value) for name, value in updates if name != value]
        if updates:
            left = ", ".join(name for name, _ in updates)
            self._line(depth + 1, f"{left} = {', '.join(value for _, value in updates)}")
        elif not loop.body:
            self._line(depth + 1, "pass")


def _constant_text(value: Any) -> str:
    text = str(value)
    return text if not text.startswith("-") else f"({text})"
