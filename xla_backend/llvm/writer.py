"""Writes LLVM IR as text: one `ModuleWriter` per module, one `FunctionWriter` per function.

No LLVM middle-end pass runs after this, so the writer does at emission what those passes would do:
equal pure operations get one name (value numbering over dominating scopes), operations whose
operands are all defined outside a loop move in front of it, and integer arithmetic on constants
folds. Values and types are their LLVM texts (see `types`).

ModuleWriter(target)
  .function(name, params, result="void", internal=False, attributes="") -> FunctionWriter
        params: [(type, name)], e.g. [("ptr noalias", "x"), ("i64", "n")]; values: "%x", "%n"
  .declare(name, result, param_types)      an external function (bound by symbol when linked)
  .constant_bytes(data, align=64) -> "@c0" read-only data in the object
  .add(text)                               any top-level text;   .to_text() -> str

FunctionWriter (w)                         pure operations: value-numbered and hoisted
  .op(opcode, ty, a, b)                    add sub mul and or xor shl lshr ashr fadd fsub fmul fdiv
                                           sdiv udiv srem urem (these four are never hoisted)
  .fneg(ty, a)  .fma(ty, a, b, c)          fma is mul+add where the target has none
  .cmp(predicate, ty, a, b) -> i1s         predicates of icmp or fcmp, by the type
  .select(mask, ty, a, b)                  .not_(mask_ty, m)
  .cast(opcode, from_ty, a, to_ty)         bitcast trunc zext sext fptrunc fpext fptosi sitofp ...
  .intrinsic(name, ty, *args)              llvm.<name>.<suffix>, every argument of type ty
  .pure(text, *operands) -> value          any other; operands say where it may move
  .splat(ty, scalar) .iota(ty) .extract(ty, v, i) .insert(ty, v, s, i) .shuffle(ty, a, b, indices)
  .reduce(kind, ty, v)                     llvm.vector.reduce: add mul and or xor smax umin fmax
                                           fadd ... (fadd, fmul reassociate)
  .iadd(a, b) .isub(a, b) .imul(a, b)      index arithmetic; ints or values; folds constants
  .imin(a, b) .imax(a, b)                  signed, of indices
  .as_index(ty, a)                         a signed integer of type ty, as an index
  .index                                   the integer that indices are: i64; set it first if not
  .gep(elem_ty, ptr, index)                address of element `index`
memory and calls: in order, never merged
  .load(ty, ptr, align=None)   .store(ty, value, ptr, align=None)     align: element size if None
  .load_invariant(ty, ptr)                 a load that may be merged with equal ones (not hoisted)
  .active_mask(lanes, i, n)                lanes j with i + j < n
  .masked_load(ty, ptr, mask, passthru=None)  .masked_store(ty, value, ptr, mask)
  .gather(ty, base, index_ty, indices, mask=None, passthru=None)   base[indices[lane]], as `ty`
  .scatter(ty, value, base, index_ty, indices, mask=None)          lanes in ascending order
  .call(name, result_ty, [(ty, value)...]) -> value or ""          declares what the module lacks
  .call_pointer(ptr, result_ty, args)      .alloca(ty, count=1, align=None)  (in the entry block)
  .line(text)  .value(text)                any instruction in order, without / with a result
control flow
  with w.loop(lo, hi, step=1, carries=[(ty, init)], guard=True) as loop:
      loop.index, loop.carried[i];  loop.next = [values]     # then after it: loop.results[i]
      guard=False promises at least one round. Bounds are ints or index values.
  with w.if_(condition, likely=None): ...                    # no values leave
  w.if_else(condition, [tys], then_fn, else_fn, likely=None) -> [values]   each fn() -> [values]
  w.while_(carries, condition_fn, body_fn) -> [values]       condition_fn(values) -> i1
  .new_label(hint) .label(l) .br(l) .cond_br(c, l1, l2, likely=None) .phi(ty, [(value, label)])
        raw blocks; wrap code that does not dominate what follows in `with w.scope():`
  .block                                   name of the current block
  .ret(ty="void", value="")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from weakref import ref

from xla_backend.llvm.index_arithmetic import IndexArithmetic
from xla_backend.llvm.masked_moves import MaskedMove, masked_move
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import (
    bits_of,
    const,
    element,
    is_float,
    lanes,
    mask_of,
    suffix,
    vector,
    vector_const,
)

_TRAPPING = frozenset({"sdiv", "udiv", "srem", "urem"})
_COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "fadd", "fmul"})
_FLOAT_ARITHMETIC = ("fadd", "fsub", "fmul", "fdiv", "frem", "fneg")
_LIKELY = {True: ", !prof !0", False: ", !prof !1"}
_WEIGHTS = ((0, 2000, 1), (1, 1, 2000))
_PAST_CACHES = ", !nontemporal !3"


class ModuleWriter:
    """The text of one LLVM module. Declarations of intrinsics and callees are collected on use."""

    def __init__(self, target: TargetInfo, fast_math: Sequence[str] = ()) -> None:
        self.target = target
        self.fast_math = tuple(fast_math)
        self.attributes = ""  # of every function, beside the usual ones
        # LLVM's fast-math flags on arithmetic; none unless somebody asked for unsafe results.
        self.spelling = {op: " ".join([op, *fast_math]) for op in _FLOAT_ARITHMETIC if fast_math}
        self.declarations: dict[str, str] = {}
        self.functions: list[FunctionWriter | str] = []
        self._globals: list[str] = []
        self._constants: dict[tuple[bytes, int], str] = {}
        self._defined: set[str] = set()

    def function(
        self,
        name: str,
        params: Sequence[tuple[str, str]],
        result: str = "void",
        internal: bool = False,
        attributes: str = "",
    ) -> FunctionWriter:
        """Opens a function; it is complete once every block of its writer ends in a terminator.

        Take names that no C library has (put a dot or a prefix in): on some targets LLVM calls
        libm's `floor` or `rint`, and a function of that name would be called instead.
        """
        if name in self._defined:
            raise ValueError(f"function @{name} is already defined in this module; rename one")
        self._defined.add(name)
        writer = FunctionWriter(self, name, params, result, internal, attributes)
        self.functions.append(writer)
        return writer

    def declare(self, name: str, result: str, param_types: Sequence[str]) -> None:
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(param_types)})")

    def constant_bytes(self, data: bytes, align: int = 64) -> str:
        """Puts read-only bytes into the object; equal data is stored once. Returns the global's
        name.
        """
        name = self._constants.get((data, align))
        if name is None:
            name = f"@const.{len(self._constants)}"
            self._constants[data, align] = name
            text = "\\" + data.hex("\\").upper() if data else ""
            self._globals.append(
                f'{name} = internal constant [{len(data)} x i8] c"{text}", align {align}'
            )
        return name

    def has_function(self, name: str) -> bool:
        """Whether a function of this name is defined here (for helpers that are emitted once)."""
        return name in self._defined

    def add(self, text: str) -> None:
        """Adds any top-level text (a global variable, a hand-written function)."""
        self.functions.append(text)

    def to_text(self) -> str:
        bodies = [f if isinstance(f, str) else f.to_text() for f in self.functions]
        declared = [t for n, t in self.declarations.items() if n not in self._defined]
        return "\n".join([*self._globals, *bodies, *declared, *self.trailer()]) + "\n"

    def constant_definitions(self) -> dict[str, str]:
        """The line that defines each constant, by name (without @)."""
        return {name[1:]: line for name, line in zip(self._constants.values(), self._globals)}

    def trailer(self) -> list[str]:
        """Function attributes and metadata: the end of every module text."""
        attributes = (
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{self.target.vector_bits}" '
            f'"no-trapping-math"="true" {self.attributes}}}'
        )
        weights = [f'!{n} = !{{!"branch_weights", i32 {a}, i32 {b}}}' for n, a, b in _WEIGHTS]
        return [attributes, *weights, "!3 = !{i32 1}"]


class _Scope:
    """What is known inside one region: the value numbers it added, and where code can leave it."""

    __slots__ = ("keys", "preheader")

    def __init__(self, preheader: list | None) -> None:
        self.keys: list[str] = []
        self.preheader = preheader  # lines in front of a loop; None: nothing may leave this region


class Loop:
    """Handle of an open counted loop; see `FunctionWriter.loop`."""

    __slots__ = ("carried", "index", "next", "results")

    def __init__(self, index: str, carried: list[str]) -> None:
        self.index = index
        self.carried = carried
        self.next: list[str] = []
        self.results: list[str] = []


class FunctionWriter(IndexArithmetic):
    """Emits one function. See the module docstring for the operations."""

    def __init__(
        self,
        module: ModuleWriter,
        name: str,
        params: Sequence[tuple[str, str]],
        result: str,
        internal: bool,
        attributes: str,
    ) -> None:
        super().__init__(module.target)
        # Not the other way round as well: what is written goes with the module, without a cycle.
        self._module = ref(module)
        self.target = module.target
        self.name = name
        self.params = list(params)
        self.result = result
        self.internal = internal
        linkage = "internal " if internal else ""
        args = ", ".join(f"{ty} %{n}" for ty, n in params)
        self._header = f"define {linkage}{result} @{name}({args}) {attributes} #0 {{"
        self._allocas: list = []
        self._lines: list = ["entry:", self._allocas]
        self._count = 0
        self._labels = 0
        self._values: dict[str, str] = {}
        # Values that were widened without loss -> what they were made of.
        self.narrow_of: dict[str, str] = {}
        # Floats that are integers of 8 bits.
        self.bytes: set[str] = set()
        self._scopes: list[_Scope] = [_Scope(None)]
        self.block = "entry"
        self._has_fma = self.target.has_fma
        self._pointer_bytes = self.target.pointer_bits // 8
        self._spelling = module.spelling

    @property
    def module(self) -> ModuleWriter:
        module = self._module()
        assert module is not None, f"the module of @{self.name} is gone: keep it while writing"
        return module

    # ---- emission core ------------------------------------------------------------------------

    def value(self, text: str) -> str:
        """Emits an instruction with a result, in order; never merged or moved."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {text}")
        depth = len(self._scopes) - 1
        if depth:
            self._depth[name] = depth
        return name

    def line(self, text: str) -> None:
        """Emits an instruction without a result, in order."""
        self._lines.append("  " + text)

    def pure(self, text: str, *operands: str, hoist: bool = True) -> str:
        """Emits a pure instruction, or returns the name of an equal one that dominates this point.

        `operands` are the values the text mentions: the instruction moves in front of every
        enclosing loop that defines none of them.
        """
        known = self._values.get(text)
        if known is not None:
            return known
        scopes = self._scopes
        depth = len(scopes) - 1
        lines = self._lines
        if hoist and depth and scopes[depth].preheader is not None:
            depth_of = self._depth
            needed = 0
            for operand in operands:
                at = depth_of.get(operand, 0)
                if at > needed:
                    needed = at
            while depth > needed and (before := scopes[depth].preheader) is not None:
                lines = before
                depth -= 1
        self._count += 1
        name = f"%v{self._count}"
        lines.append(f"  {name} = {text}")
        self._values[text] = name
        scopes[depth].keys.append(text)
        if depth:
            self._depth[name] = depth
        return name

    def once(self, key: str, write: Callable[[], Sequence[str]]) -> list[str]:
        """The values that `write` returns, or those of an equal key that dominate this point: for
        what is pure but more than an instruction."""
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = "\n".join(write())
            self._scopes[-1].keys.append(key)
        return known.split("\n")

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A region that does not dominate what follows: its value numbers are forgotten at the
        end.
        """
        self._push(None)
        yield
        self._pop()

    def _push(self, preheader: list | None) -> None:
        self._scopes.append(_Scope(preheader))

    def _pop(self) -> None:
        values = self._values
        for key in self._scopes.pop().keys:
            del values[key]

    # ---- pure operations ----------------------------------------------------------------------

    def op(self, opcode: str, ty: str, a: str, b: str) -> str:
        if opcode in _COMMUTATIVE and b < a:
            a, b = b, a
        if self._spelling:
            opcode = self._spelling.get(opcode, opcode)
        return self.pure(f"{opcode} {ty} {a}, {b}", a, b, hoist=opcode not in _TRAPPING)

    def fneg(self, ty: str, a: str) -> str:
        return self.pure(f"{self._spelling.get('fneg', 'fneg')} {ty} {a}", a)

    def fma(self, ty: str, a: str, b: str, c: str) -> str:
        """a*b + c, fused where the target fuses, else in two roundings."""
        if self._has_fma:
            return self.intrinsic("fma", ty, a, b, c)
        return self.op("fadd", ty, self.op("fmul", ty, a, b), c)

    def cmp(self, predicate: str, ty: str, a: str, b: str) -> str:
        kind = "fcmp" if is_float(ty) else "icmp"
        return self.pure(f"{kind} {predicate} {ty} {a}, {b}", a, b)

    def select(self, mask: str, ty: str, a: str, b: str) -> str:
        if a == b or mask == "true" or mask == "splat (i1 true)":
            return a
        return self.pure(f"select {mask_of(ty)} {mask}, {ty} {a}, {ty} {b}", mask, a, b)

    def not_(self, ty: str, a: str) -> str:
        return self.op("xor", ty, a, const(ty, -1 if element(ty) != "i1" else 1))

    def cast(self, opcode: str, from_ty: str, a: str, to_ty: str) -> str:
        if from_ty == to_ty:
            return a
        return self.pure(f"{opcode} {from_ty} {a} to {to_ty}", a)

    def intrinsic(self, name: str, ty: str, *args: str) -> str:
        full = f"llvm.{name}.{suffix(ty)}"
        if full not in self.module.declarations:
            self.module.declare(full, ty, [ty] * len(args))
        return self.pure(f"call {ty} @{full}({', '.join([f'{ty} {a}' for a in args])})", *args)

    def splat(self, ty: str, scalar: str) -> str:
        """A scalar value in every lane (constants too); the scalar itself for a scalar type."""
        if ty[0] != "<":
            return scalar
        elem = element(ty)
        if scalar[0] not in "%@":
            return f"splat ({elem} {scalar})"
        first = self.pure(f"insertelement {ty} poison, {elem} {scalar}, i64 0", scalar)
        return self.shuffle(ty, first, "poison", [0] * lanes(ty))

    def iota(self, ty: str) -> str:
        """0, 1, 2, ... as constants of an integer or float vector type."""
        return vector_const(element(ty), list(range(lanes(ty))))

    def extract(self, ty: str, v: str, lane: int | str) -> str:
        if ty[0] != "<":
            return v
        return self.pure(f"extractelement {ty} {v}, i64 {lane}", v, str(lane))

    def insert(self, ty: str, v: str, scalar: str, lane: int | str) -> str:
        text = f"insertelement {ty} {v}, {element(ty)} {scalar}, i64 {lane}"
        return self.pure(text, v, scalar, str(lane))

    def shuffle(self, ty: str, a: str, b: str, indices: Sequence[int]) -> str:
        """Lanes picked from a (0..n-1) and b (n..2n-1); as many lanes as indices (at least 2)."""
        if not any(indices):
            mask = "zeroinitializer"
        else:
            mask = f"<{', '.join([f'i32 {i}' if i >= 0 else 'i32 poison' for i in indices])}>"
        return self.pure(f"shufflevector {ty} {a}, {ty} {b}, <{len(indices)} x i32> {mask}", a, b)

    def reduce(self, kind: str, ty: str, v: str) -> str:
        """Combines the lanes; fadd and fmul in any order. The value itself for a scalar."""
        if ty[0] != "<":
            return v
        elem = element(ty)
        name = f"llvm.vector.reduce.{kind}.{suffix(ty)}"
        if kind in ("fadd", "fmul"):
            start = const(elem, -0.0 if kind == "fadd" else 1.0)
            self.module.declare(name, elem, [elem, ty])
            return self.pure(f"call reassoc {elem} @{name}({elem} {start}, {ty} {v})", v)
        self.module.declare(name, elem, [ty])
        return self.pure(f"call {elem} @{name}({ty} {v})", v)

    # ---- memory -------------------------------------------------------------------------------

    def load(self, ty: str, ptr: str, align: int | None = None) -> str:
        return self.value(f"load {ty}, ptr {ptr}, align {align or self._align(ty)}")

    def load_invariant(self, ty: str, ptr: str, align: int | None = None) -> str:
        text = f"load {ty}, ptr {ptr}, align {align or self._align(ty)}"
        return self.pure(text, ptr, hoist=False)

    def store(
        self,
        ty: str,
        value: str,
        ptr: str,
        align: int | None = None,
        *,
        past_caches: bool = False,
    ) -> None:
        """`past_caches`: nobody reads it soon. Where others may read it at all, a fence comes
        first."""
        hint = _PAST_CACHES if past_caches else ""
        align = align or self._align(ty)
        self._lines.append(f"  store {ty} {value}, ptr {ptr}, align {align}{hint}")

    def active_mask(self, n_lanes: int, i: str, n: str | int) -> str:
        """Mask of lanes j with i + j < n; LLVM's intrinsic for it would count in 64 bits."""
        if n_lanes == 1:
            return self.cmp("slt", "i64", i, str(n))
        left, ty = self.imin(self.imax(self.isub(n, i), 0), n_lanes), vector("i32", n_lanes)
        count = self.splat(ty, self.cast("trunc", self.index, left, "i32"))
        return self.cmp("ugt", ty, count, self.iota(ty))

    def masked_load(self, ty: str, ptr: str, mask: str, passthru: str | None = None) -> str:
        """Loads the lanes in the mask; the others are `passthru` (zero by default) and not
        touched.
        """
        other = passthru or const(ty, 0)
        if ty[0] != "<":
            return self.if_else(mask, [ty], lambda: [self.load(ty, ptr)], lambda: [other])[0]
        move = masked_move(self.target, ty)
        if move is not None:
            loaded = self._load_by_registers(move, ty, ptr, mask)
            return loaded if passthru is None else self.select(mask, ty, loaded, passthru)
        name = f"llvm.masked.load.{suffix(ty)}.p0"
        mask_ty = mask_of(ty)
        self.module.declare(name, ty, ["ptr", "i32", mask_ty, ty])
        return self.value(
            f"call {ty} @{name}(ptr {ptr}, i32 {_align(ty)}, {mask_ty} {mask}, {ty} {other})"
        )

    def masked_store(self, ty: str, value: str, ptr: str, mask: str) -> None:
        if ty[0] != "<":
            with self.if_(mask):
                self.store(ty, value, ptr)
            return
        move = masked_move(self.target, ty)
        if move is not None:
            self.module.declare(move.store, "void", ["ptr", move.signs, move.type])
            for lane, place, signs in self._registers(move, ty, ptr, mask):
                part = self._slice(ty, value, lane, move.lanes)
                given = f"ptr {place}, {move.signs} {signs}, {move.type} {part}"
                self.line(f"call void @{move.store}({given})")
            return
        name = f"llvm.masked.store.{suffix(ty)}.p0"
        mask_ty = mask_of(ty)
        self.module.declare(name, "void", [ty, "ptr", "i32", mask_ty])
        self.line(f"call void @{name}({ty} {value}, ptr {ptr}, i32 {_align(ty)}, {mask_ty} {mask})")

    def _registers(
        self, move: MaskedMove, ty: str, ptr: str, mask: str
    ) -> list[tuple[int, str, str]]:
        """The registers of a vector in memory: first lane, address, signs that are its mask."""
        mask_ty = mask_of(ty)
        part_ty = vector("i1", move.lanes)
        found = []
        for lane in range(0, lanes(ty), move.lanes):
            part = self._slice(mask_ty, mask, lane, move.lanes)
            signs = self.pure(f"sext {part_ty} {part} to {move.signs}", part)
            # Not inbounds: the array may end before a register whose lanes are all left out.
            place = f"getelementptr {element(ty)}, ptr {ptr}, i64 {lane}"
            found.append((lane, self.pure(place, ptr) if lane else ptr, signs))
        return found

    def _load_by_registers(self, move: MaskedMove, ty: str, ptr: str, mask: str) -> str:
        self.module.declare(move.load, move.type, ["ptr", move.signs])
        parts = [
            self.value(f"call {move.type} @{move.load}(ptr {place}, {move.signs} {signs})")
            for _, place, signs in self._registers(move, ty, ptr, mask)
        ]
        part_ty = move.type
        while len(parts) > 1:  # a power of two of them
            count = 2 * lanes(part_ty)
            pairs = zip(parts[::2], parts[1::2])
            parts = [self.shuffle(part_ty, a, b, range(count)) for a, b in pairs]
            part_ty = vector(element(ty), count)
        return parts[0]

    def _slice(self, ty: str, value: str, first: int, count: int) -> str:
        """Lanes first .. first + count of a vector."""
        if count == lanes(ty):
            return value
        return self.shuffle(ty, value, "poison", range(first, first + count))

    def pointers(self, ty: str, base: str, index_ty: str, indices: str) -> tuple[str, str]:
        """(type, addresses) of elements of an array, those of the vector `ty`."""
        pointer_ty = f"<{lanes(ty)} x ptr>"
        text = f"getelementptr inbounds {element(ty)}, ptr {base}, {index_ty} {indices}"
        return pointer_ty, self.pure(text, base, indices)

    def gather(
        self,
        ty: str,
        base: str,
        index_ty: str,
        indices: str,
        mask: str | None = None,
        passthru: str | None = None,
        step: str | None = None,
    ) -> str:
        """Lane j is element indices[j] of the array at base; lanes outside the mask are
        passthru. `step`: the vector whose elements are counted, if others than are gathered.
        """
        if ty[0] != "<":
            ptr = self.pure(
                f"getelementptr inbounds {ty}, ptr {base}, {index_ty} {indices}", base, indices
            )
            return self.load(ty, ptr) if mask is None else self.masked_load(ty, ptr, mask, passthru)
        step = step or ty
        pointer_ty, pointers = self.pointers(step, base, index_ty, indices)
        n, elem, align = lanes(ty), element(ty), _align(step)
        if mask is None and (self.target.vector_bits < 512 or bits_of(ty) < 32):
            # LLVM has gather instructions for 32 and 64 bits only; without a mask plain loads are
            # as good.
            result = "poison"
            for j in range(n):
                scalar = self.load(elem, self.extract(pointer_ty, pointers, j), align)
                result = self.insert(ty, result, scalar, j)
            return result
        name = f"llvm.masked.gather.{suffix(ty)}.v{n}p0"
        mask_ty = mask_of(ty)
        self.module.declare(name, ty, [pointer_ty, "i32", mask_ty, ty])
        return self.value(
            f"call {ty} @{name}({pointer_ty} {pointers}, i32 {align}, "
            f"{mask_ty} {mask or const(mask_ty, 1)}, {ty} {passthru or const(ty, 0)})"
        )

    def scatter(
        self,
        ty: str,
        value: str,
        base: str,
        index_ty: str,
        indices: str,
        mask: str | None = None,
    ) -> None:
        """Stores lane j to element indices[j] of the array at base, ascending: the last one
        wins.
        """
        if ty[0] != "<":
            ptr = self.pure(
                f"getelementptr inbounds {ty}, ptr {base}, {index_ty} {indices}", base, indices
            )
            if mask is None:
                self.store(ty, value, ptr)
            else:
                self.masked_store(ty, value, ptr, mask)
            return
        pointer_ty, pointers = self.pointers(ty, base, index_ty, indices)
        name = f"llvm.masked.scatter.{suffix(ty)}.v{lanes(ty)}p0"
        mask_ty = mask_of(ty)
        self.module.declare(name, "void", [ty, pointer_ty, "i32", mask_ty])
        self.line(
            f"call void @{name}({ty} {value}, {pointer_ty} {pointers}, i32 {_align(ty)}, "
            f"{mask_ty} {mask or const(mask_ty, 1)})"
        )

    def place(self) -> list[str]:
        """A place in the code for lines that are known later: add them to this list."""
        lines: list[str] = []
        self._lines.append(lines)
        return lines

    def alloca(self, ty: str, count: int = 1, align: int | None = None) -> str:
        """Stack memory in the entry block (so that it is taken once, not per loop round)."""
        self._count += 1
        name = f"%v{self._count}"
        spelled = ty if count == 1 else f"[{count} x {ty}]"
        self._allocas.append(f"  {name} = alloca {spelled}, align {align or self._align(ty)}")
        return name

    def call(self, name: str, result: str, args: Sequence[tuple[str, str]] = ()) -> str:
        """Calls a function of this module or an external one (declared on first use)."""
        self.module.declare(name, result, [ty for ty, _ in args])
        text = f"call {result} @{name}({', '.join([f'{ty} {a}' for ty, a in args])})"
        if result != "void":
            return self.value(text)
        self.line(text)
        return ""

    def call_pointer(self, ptr: str, result: str, args: Sequence[tuple[str, str]] = ()) -> str:
        text = f"call {result} {ptr}({', '.join([f'{ty} {a}' for ty, a in args])})"
        if result != "void":
            return self.value(text)
        self.line(text)
        return ""

    # ---- control flow -------------------------------------------------------------------------

    def new_label(self, hint: str = "b") -> str:
        self._labels += 1
        return f"{hint}{self._labels}"

    def label(self, label: str) -> None:
        """Starts a block; the one before must have ended in a branch."""
        self._lines.append(f"{label}:")
        self.block = label

    def br(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def cond_br(self, condition: str, yes: str, no: str, likely: bool | None = None) -> None:
        weights = "" if likely is None else _LIKELY[likely]
        self._lines.append(f"  br i1 {condition}, label %{yes}, label %{no}{weights}")

    def phi(self, ty: str, incoming: Sequence[tuple[str, str]]) -> str:
        """A phi; only as the first instructions of a block."""
        return self.value(f"phi {ty} " + ", ".join([f"[ {v}, %{b} ]" for v, b in incoming]))

    def ret(self, ty: str = "void", value: str = "") -> None:
        self._lines.append(f"  ret {ty} {value}".rstrip())

    @contextmanager
    def loop(
        self,
        lo: str | int,
        hi: str | int,
        step: str | int = 1,
        carries: Sequence[tuple[str, str]] = (),
        guard: bool = True,
    ) -> Iterator[Loop]:
        """Counts an index from lo up to (not including) hi; carries flow from round to round.

        The step must be positive. With guard=False the body runs at least once.
        """
        lo, hi, step = str(lo), str(hi), str(step)
        preheader: list = []
        self._lines.append(preheader)
        entry = before = self.block
        head, done = self.new_label("loop"), self.new_label("done")
        if guard and lo[0] != "%" and hi[0] != "%":
            if int(lo) >= int(hi):
                hi, step = lo, "1"  # an empty loop must still be valid text: keep its guard
            else:
                guard = False
        if guard:
            entered = self.pure(f"icmp slt {self.index} {lo}, {hi}", lo, hi)
            before = self.new_label("ph")
            self.cond_br(entered, before, done)
            self.label(before)
        self.br(head)
        self.label(head)
        phis: list = []
        self._lines.append(phis)
        self._push(preheader)
        depth = len(self._scopes) - 1
        names = []
        for _ in range(len(carries) + 1):
            self._count += 1
            name = f"%v{self._count}"
            self._depth[name] = depth
            names.append(name)
        handle = Loop(names[0], names[1:])
        yield handle
        if len(handle.next) != len(carries):
            raise ValueError(f"loop carries {len(carries)} values, but next has {len(handle.next)}")
        self._count += 1
        following = f"%v{self._count}"
        self._lines.append(f"  {following} = add nsw {self.index} {names[0]}, {step}")
        latch = self.block
        again = self.value(f"icmp slt {self.index} {following}, {hi}")
        self.cond_br(again, head, done)
        counts = f"[ {lo}, %{before} ], [ {following}, %{latch} ]"
        phis.append(f"  {names[0]} = phi {self.index} {counts}")
        for (ty, init), name, value in zip(carries, names[1:], handle.next, strict=True):
            phis.append(f"  {name} = phi {ty} [ {init}, %{before} ], [ {value}, %{latch} ]")
        self._pop()
        self.label(done)
        for (ty, init), value in zip(carries, handle.next, strict=True):
            incoming = [(init, entry), (value, latch)] if guard else [(value, latch)]
            handle.results.append(self.phi(ty, incoming))

    @contextmanager
    def if_(self, condition: str, likely: bool | None = None) -> Iterator[None]:
        then, done = self.new_label("then"), self.new_label("fi")
        self.cond_br(condition, then, done, likely)
        self.label(then)
        self._push(None)
        yield
        self._pop()
        self.br(done)
        self.label(done)

    def if_else(
        self,
        condition: str,
        tys: Sequence[str],
        then_fn: Callable[[], list[str]],
        else_fn: Callable[[], list[str]],
        likely: bool | None = None,
    ) -> list[str]:
        then, other, done = self.new_label("then"), self.new_label("else"), self.new_label("fi")
        self.cond_br(condition, then, other, likely)
        arms = []
        for label, fn in ((then, then_fn), (other, else_fn)):
            self.label(label)
            self._push(None)
            values = fn()
            self._pop()
            arms.append((values, self.block))
            self.br(done)
        self.label(done)
        (yes, yes_block), (no, no_block) = arms
        return [
            self.phi(ty, [(a, yes_block), (b, no_block)])
            for ty, a, b in zip(tys, yes, no, strict=True)
        ]

    def while_(
        self,
        carries: Sequence[tuple[str, str]],
        condition_fn: Callable[[list[str]], str],
        body_fn: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """Runs body_fn on the carried values while condition_fn of them holds; returns the last
        ones.
        """
        preheader: list = []
        self._lines.append(preheader)
        before = self.block
        head, body, done = self.new_label("while"), self.new_label("do"), self.new_label("done")
        self.br(head)
        self.label(head)
        phis: list = []
        self._lines.append(phis)
        self._push(preheader)
        names = []
        for _ in carries:
            self._count += 1
            name = f"%v{self._count}"
            self._depth[name] = len(self._scopes) - 1
            names.append(name)
        condition = condition_fn(names)
        self.cond_br(condition, body, done)
        self.label(body)
        self._push(None)
        following = body_fn(names)
        self._pop()
        latch = self.block
        self.br(head)
        for (ty, init), name, value in zip(carries, names, following, strict=True):
            phis.append(f"  {name} = phi {ty} [ {init}, %{before} ], [ {value}, %{latch} ]")
        self._pop()
        self.label(done)
        # The head dominates what follows, but its names sit at the loop's depth: forget that, so
        # that later code does not take them for values of some other loop at the same depth.
        depth = len(self._scopes) - 1
        for name in names:
            self._depth[name] = depth
        return names

    def _align(self, ty: str) -> int:
        return self._pointer_bytes if ty == "ptr" else _align(ty)

    def to_text(self) -> str:
        out: list[str] = [self._header]
        _flatten(self._lines, out)
        out.append("}\n")
        return "\n".join(out)


def _align(ty: str) -> int:
    """Element alignment: buffers promise no more (small NumPy arrays start at 16 bytes)."""
    return max(1, bits_of(ty) // 8)


def _flatten(lines: list, out: list[str]) -> None:
    for line in lines:
        if line.__class__ is str:
            out.append(line)
        else:
            _flatten(line, out)
