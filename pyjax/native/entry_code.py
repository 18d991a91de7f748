"""The native code that goes by entries (see `entries`).

API
  entry_library() -> Library    pyjax_call_method, pyjax_call_operator: `vectorcall`s of methods
                                pyjax_bind: their `tp_descr_get`
                                pyjax_flatten: see `tree_code`

The interpreter lock is held but while a program runs that takes long. Guards run no code of Python;
from the moment that they fit, whatever may run some (allocation, finalizers) finds everything that
is used here with a reference of its own.
"""

from __future__ import annotations

from pyjax.native.c_api import FUNCTIONS, NUMPY_FLAGS, NumpyField, address_of
from pyjax.native.entries import (
    MOST_ARRAYS,
    MOST_REGISTERS,
    MOST_SCALARS,
    SCALAR_BYTES,
    WORDS,
    Guard,
    Header,
    Step,
)
from pyjax.native.function_writer import COUNT_MASK, VECTORCALL, Fact, Field, Writer
from pyjax.native.tree_code import write_flatten
from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.process.bounded_cache import once

_EQUAL = "2"  # Py_EQ
_MISS = "inttoptr (i64 1 to ptr)"  # no entry fits


def _write_ready(module: ModuleWriter) -> None:
    """i1 ready(facts): whether nothing speaks against native calls now, here."""
    f = Writer(module, "pyjax.ready", [("ptr", "facts")], "i1")
    w = f.w
    blocks = w.alloca("ptr")
    sizes = [
        f.python("PySet_Size", f.word("%facts", Fact.TRACING, "ptr")),
        f.python("PyList_Size", f.word("%facts", Fact.WATCHERS, "ptr")),
        f.python("PyDict_Size", f.word("%facts", Fact.OFF, "ptr")),
        f.python("PyDict_Size", f.word("%facts", Fact.GUARDED, "ptr")),
    ]
    total = sizes[0]
    for size in sizes[1:]:
        total = w.op("or", "i64", total, size)
    no = w.new_label("no")
    f.require(w.cmp("eq", "i64", total, "0"), no)
    status = f.python("PyContextVar_Get", f.word("%facts", Fact.BLOCKS, "ptr"), "null", blocks)
    found, failed = w.new_label("found"), w.new_label("failed")
    w.cond_br(w.cmp("eq", "i32", status, "0"), found, failed, likely=True)
    with f.block(found):
        value = w.load("ptr", blocks)
        f.python("Py_DecRef", value)  # it is not looked into
        w.ret("i1", f.same(value, f.word("%facts", Fact.NO_BLOCKS, "ptr")))
    with f.block(failed):
        f.python("PyErr_Clear")
        w.br(no)
    with f.block(no):
        w.ret("i1", "false")


def _write_matches(module: ModuleWriter) -> None:
    """i1 matches(facts, guards, hot, registers, inputs, buffers, scalars, program): whether all
    guards hold; then the inputs are addresses, the buffers those objects (not owned) that have
    them, or null, and the program is found."""
    names = ("facts", "guards", "hot", "registers", "inputs", "buffers", "scalars", "program")
    params = [("ptr", n) for n in names]
    f = Writer(module, "pyjax.matches", params, "i1")
    w = f.w
    head, following, no, wrong = "head", "following", "no", "wrong"
    start = w.new_label("start")
    w.br(start)
    w.label(start)
    w.br(head)
    w.label(head)
    guard = w.phi("ptr", [("%guards", start), ("%next_guard", following)])
    register, expected, c, d = (
        f.word(guard, 1),
        f.word(guard, 2, "ptr"),
        f.word(guard, 3),
        f.word(guard, 4),
    )
    item = w.load("ptr", w.gep("ptr", "%registers", register))
    cases = {g: f"case.{g.name.lower()}" for g in Guard}
    table = " ".join(f"i64 {int(g)}, label %{label}" for g, label in cases.items())
    w.line(f"switch i64 {f.word(guard, 0)}, label %{no} [ {table} ]")

    def give(address: str, owner: str) -> None:
        w.store("ptr", address, w.gep("ptr", "%inputs", c))
        w.store("ptr", owner, w.gep("ptr", "%buffers", c))
        w.br(following)

    def buffer_of(array: str) -> None:
        buffer = f.slot(array, "%facts", Fact.BUFFER)
        f.require(w.cmp("ne", "ptr", buffer, "null"), no)  # deleted, or not computed yet
        address = f.python("PyLong_AsVoidPtr", buffer)
        f.require(w.cmp("ne", "ptr", address, "null"), wrong)
        give(address, buffer)

    with f.block(cases[Guard.ARRAY]):
        f.require(f.same(f.type_of(item), f.word("%facts", Fact.ARRAY, "ptr")), no)
        f.require(f.same(f.slot(item, "%facts", Fact.SPEC), expected), no)
        buffer_of(item)
    with f.block(cases[Guard.NUMPY]):
        wanted = f.python("PyBytes_AsString", expected)
        f.require(f.same(f.type_of(item), f.word(wanted, 0, "ptr")), no)
        dtype = w.load("ptr", w.gep("i8", item, NumpyField.DTYPE))
        f.require(f.same(dtype, f.word(wanted, 1, "ptr")), no)
        rank = w.load("i32", w.gep("i8", item, NumpyField.RANK))
        f.require(w.cmp("eq", "i64", w.cast("sext", "i32", rank, "i64"), d), no)
        flags = w.load("i32", w.gep("i8", item, NumpyField.FLAGS))
        dense = w.op("and", "i32", flags, str(NUMPY_FLAGS))
        f.require(w.cmp("eq", "i32", dense, str(NUMPY_FLAGS)), no)
        sizes = w.load("ptr", w.gep("i8", item, NumpyField.SIZES))
        with w.loop(0, d) as loop:
            extent = f.word(wanted, w.iadd(loop.index, 2))
            f.require(w.cmp("eq", "i64", f.word(sizes, loop.index), extent), no)
        give(w.load("ptr", w.gep("i8", item, NumpyField.DATA)), item)
    with f.block(cases[Guard.CONSTANT]):
        buffer_of(expected)

    def whole_number(item: str) -> str:
        whole = f.python("PyLong_AsLongLong", item)
        clear, suspect = w.new_label("clear"), w.new_label("suspect")
        w.cond_br(w.cmp("eq", "i64", whole, "-1"), suspect, clear, likely=False)
        with f.block(suspect):
            f.require(f.same(f.python("PyErr_Occurred"), "null"), wrong)
            w.br(clear)
        w.label(clear)
        return whole

    def number(guard: Guard, of_double: str | None, ty: str) -> None:
        with f.block(cases[guard]):
            f.require(f.same(f.type_of(item), expected), no)
            place = w.gep("i8", "%scalars", w.imul(d, SCALAR_BYTES))
            if of_double is not None:
                double = f.python("PyFloat_AsDouble", item)
                w.store(ty, w.cast(of_double, "double", double, ty) if of_double else double, place)
                give(place, "null")
                return
            whole = whole_number(item)
            if ty == "i32":
                narrow = w.cast("trunc", "i64", whole, "i32")
                f.require(w.cmp("eq", "i64", w.cast("sext", "i32", narrow, "i64"), whole), no)
                whole = narrow
            w.store(ty, whole, place)
            give(place, "null")

    number(Guard.FLOAT32, "fptrunc", "float")
    number(Guard.FLOAT64, "", "double")
    number(Guard.INT32, None, "i32")
    number(Guard.INT64, None, "i64")
    with f.block(cases[Guard.BOOL]):
        f.require(f.same(f.type_of(item), expected), no)
        place = w.gep("i8", "%scalars", w.imul(d, SCALAR_BYTES))
        w.store("i8", w.cast("trunc", "i32", f.python("PyObject_IsTrue", item), "i8"), place)
        give(place, "null")

    with f.block(cases[Guard.WHOLE]):
        f.require(f.same(f.type_of(item), expected), no)
        w.cond_br(w.cmp("eq", "i64", whole_number(item), c), following, no)
    with f.block(cases[Guard.REAL]):
        f.require(f.same(f.type_of(item), expected), no)
        bits = w.cast("bitcast", "double", f.python("PyFloat_AsDouble", item), "i64")
        w.cond_br(w.cmp("eq", "i64", bits, c), following, no)

    def take(number: str, child: str) -> None:
        w.store("ptr", child, w.gep("ptr", "%registers", w.iadd(c, number)))

    containers = (cases[Guard.TUPLE], cases[Guard.LIST], cases[Guard.DICT])
    f.look_into(containers, item, expected, d, take, (following, no))
    with f.block(cases[Guard.SAME]):
        w.cond_br(f.same(item, expected), following, no)
    with f.block(cases[Guard.TEXT]):
        equal = f.own("pyjax.equal", "i1", ("ptr", "%facts"), ("ptr", item), ("ptr", expected))
        w.cond_br(equal, following, no)
    with f.block(cases[Guard.PROGRAM]):
        program = f.python("PyDict_GetItemWithError", "%hot", expected)
        f.require(w.cmp("ne", "ptr", program, "null"), wrong)
        w.store("ptr", program, "%program")
        w.br(following)
    with f.block(cases[Guard.RUN]):
        w.ret("i1", "true")
    w.label(following)
    w.line(f"%next_guard = getelementptr i64, ptr {guard}, i64 {WORDS}")
    w.br(head)
    with f.block(wrong):
        f.python("PyErr_Clear")
        w.br(no)
    with f.block(no):
        w.ret("i1", "false")


def _write_equal(module: ModuleWriter) -> None:
    """i1 equal(facts, key, wanted): whether a key is equal to another, and of the same type, which
    is one of `PLAIN_KEYS`."""
    f = Writer(module, "pyjax.equal", [("ptr", n) for n in ("facts", "key", "wanted")], "i1")
    w = f.w
    yes, other, whole, no = (w.new_label(n) for n in ("yes", "other", "whole", "no"))
    w.cond_br(f.same("%key", "%wanted"), yes, other, likely=True)
    with f.block(yes):
        w.ret("i1", "true")
    with f.block(other):
        kind = f.type_of("%key")
        f.require(f.same(kind, f.type_of("%wanted")), no)
        f.require(f.same(kind, f.word("%facts", Fact.TEXT, "ptr")), whole)
        w.ret("i1", w.cmp("eq", "i32", f.python("PyUnicode_Compare", "%key", "%wanted"), "0"))
    with f.block(whole):
        compared = f.python("PyObject_RichCompareBool", "%key", "%wanted", _EQUAL)
        w.ret("i1", w.cmp("eq", "i32", compared, "1"))
    with f.block(no):
        w.ret("i1", "false")


def _write_allocated(module: ModuleWriter) -> None:
    """ptr allocated(facts, take, grow): memory, or null with an exception."""
    f = Writer(module, "pyjax.allocated", [("ptr", n) for n in ("facts", "take", "grow")], "ptr")
    w = f.w
    done, failed, empty, other = (w.new_label(n) for n in ("done", "failed", "empty", "other"))
    taken = f.python("PyObject_Vectorcall", "%take", "null", "0", "null")
    w.cond_br(w.cmp("ne", "ptr", taken, "null"), done, failed, likely=True)
    with f.block(done):
        w.ret("ptr", taken)
    with f.block(failed):
        none = f.python("PyErr_ExceptionMatches", f.word("%facts", Fact.EMPTY, "ptr"))
        w.cond_br(w.cmp("ne", "i32", none, "0"), empty, other)
    with f.block(empty):
        f.python("PyErr_Clear")
        w.ret("ptr", f.python("PyObject_Vectorcall", "%grow", "null", "0", "null"))
    with f.block(other):
        w.ret("ptr", "null")


def _write_run(module: ModuleWriter) -> None:
    """ptr run(facts, words, inputs, buffers, kept, program): run the program of an entry that fits;
    the result, null with an exception, or MISS: nothing has happened."""
    params = [("ptr", n) for n in ("facts", "words", "inputs", "buffers", "kept", "program")]
    f = Writer(module, "pyjax.run", params, "ptr")
    w = f.w
    addresses, blocks, arrays = (w.alloca("ptr", MOST_ARRAYS + 1) for _ in range(3))
    result = w.alloca("ptr")
    # What is used from here on, for all that may happen while it is.
    f.python("Py_IncRef", "%kept")
    f.python("Py_IncRef", "%program")
    inputs = f.word("%words", Header.INPUTS)
    for _, buffer in f.each(inputs, "%buffers"):
        f.python("Py_IncRef", buffer)
    outputs = f.word("%words", Header.OUTPUTS)
    has_arena = f.word("%words", Header.HAS_ARENA)
    count = w.iadd(outputs, has_arena)
    with w.loop(0, count) as loop:
        w.store("ptr", "null", w.gep("ptr", blocks, loop.index))
        w.store("ptr", "null", w.gep("ptr", arrays, loop.index))
    failed, refused, clear = (w.new_label(n) for n in ("failed", "refused", "clear"))
    w.store("ptr", "null", result)
    with w.scope():
        memory = w.gep("i64", "%words", f.word("%words", Header.MEMORY))
        with w.loop(0, count) as loop:
            source = w.gep("i64", memory, w.imul(loop.index, 3))
            take, grow = f.word(source, 1, "ptr"), f.word(source, 2, "ptr")
            block = f.own("pyjax.allocated", "ptr", *[("ptr", x) for x in ("%facts", take, grow)])
            f.require(w.cmp("ne", "ptr", block, "null"), refused)
            w.store("ptr", block, w.gep("ptr", blocks, loop.index))
            address = f.python("PyLong_AsVoidPtr", block)
            w.store("ptr", address, w.gep("ptr", addresses, loop.index))
        with w.loop(0, outputs) as loop:
            kind = f.word("%facts", Fact.ARRAY, "ptr")
            array = f.python("PyType_GenericAlloc", kind, "0")
            f.require(w.cmp("ne", "ptr", array, "null"), failed)
            w.store("ptr", array, w.gep("ptr", arrays, loop.index))
            spec = f.word(w.gep("i64", memory, w.imul(loop.index, 3)), 0, "ptr")
            f.python("Py_IncRef", spec)
            w.store("ptr", spec, f.at(array, f.word("%facts", Fact.SPEC)))
            own = w.gep("ptr", blocks, loop.index)
            w.store("ptr", w.load("ptr", own), f.at(array, f.word("%facts", Fact.BUFFER)))
            w.store("ptr", "null", own)
        arena = w.load("i64", w.gep("ptr", addresses, outputs), align=8)
        with_arena = w.cmp("ne", "i64", has_arena, "0")
        third = w.select(with_arena, "i64", arena, f.word("%words", Header.THIRD))
        entry = f.word("%words", Header.ENTRY, "ptr")
        arguments = [("ptr", "%inputs"), ("ptr", addresses), ("i64", third)]

        def long() -> list[str]:
            state = f.python("PyEval_SaveThread")
            status = w.call_pointer(entry, "i32", arguments)
            f.python("PyEval_RestoreThread", state)
            return [status]

        (status,) = w.if_else(
            w.cmp("ne", "i64", f.word("%words", Header.RELEASES_LOCK), "0"),
            ["i32"],
            long,
            lambda: [w.call_pointer(entry, "i32", arguments)],
            likely=False,
        )
        good, bad = w.new_label("good"), w.new_label("bad")
        w.cond_br(w.cmp("eq", "i32", status, "0"), good, bad, likely=True)
        with f.block(good):
            # Before blocks go: what a handler raised in a finalizer would be passed over.
            f.require(w.cmp("eq", "i32", f.python("PyErr_CheckSignals"), "0"), failed)
            steps = w.gep("i64", "%words", f.word("%words", Header.STEPS))
            made = f.own("pyjax.made", "ptr", *[("ptr", x) for x in ("%facts", steps, arrays)])
            w.store("ptr", made, result)
            w.br(clear)
        with f.block(bad):
            number = f.python("PyLong_FromLong", w.cast("sext", "i32", status, "i64"))
            told = w.alloca("ptr")
            w.store("ptr", number, told)
            fail = f.word("%words", Header.FAIL, "ptr")
            with w.if_(w.cmp("ne", "ptr", number, "null")):
                w.store("ptr", f.python("PyObject_Vectorcall", fail, told, "1", "null"), result)
                f.python("Py_DecRef", number)
            w.br(clear)
        with f.block(refused):
            none = f.python("PyErr_ExceptionMatches", f.word("%facts", Fact.REFUSED, "ptr"))
            f.require(w.cmp("ne", "i32", none, "0"), failed)
            f.python("PyErr_Clear")  # Python asks again, and says who wanted it
            w.store("ptr", _MISS, result)
            w.br(clear)
    with f.block(failed):
        w.br(clear)
    w.label(clear)
    f.release_all(outputs, arrays)  # those that are in no result
    f.release_all(count, blocks)
    f.release_all(inputs, "%buffers")
    f.python("Py_DecRef", "%program")
    f.python("Py_DecRef", "%kept")
    w.ret("ptr", w.load("ptr", result))


def _write_made(module: ModuleWriter) -> None:
    """ptr made(facts, steps, arrays): the result; arrays that go into it leave the table. null with
    an exception."""
    params = [("ptr", n) for n in ("facts", "steps", "arrays")]
    f = Writer(module, "pyjax.made", params, "ptr")
    w = f.w
    stack = w.alloca("ptr", MOST_REGISTERS)
    height, used = w.alloca("i64"), w.alloca("i64")
    w.store("i64", "0", height)
    w.store("i64", "0", used)
    head, following, failed = "head", "following", "failed"
    start = w.new_label("start")
    w.br(start)
    w.label(start)
    w.br(head)
    w.label(head)
    step = w.phi("ptr", [("%steps", start), ("%next_step", following)])
    number, what = f.word(step, 1), f.word(step, 2, "ptr")
    base = w.op("sub", "i64", w.load("i64", height), number)
    taken = w.gep("ptr", stack, base)
    cases = {s: f"case.{s.name.lower()}" for s in Step}
    table = " ".join(f"i64 {int(s)}, label %{label}" for s, label in cases.items())
    w.line(f"switch i64 {f.word(step, 0)}, label %{failed} [ {table} ]")

    def push(value: str, at: str) -> None:
        w.store("ptr", value, w.gep("ptr", stack, at))
        w.store("i64", w.iadd(at, 1), height)
        w.br(following)

    def moved_into(container: str, prefix: str) -> None:
        with w.loop(0, number) as loop:
            item = w.load("ptr", w.gep("ptr", taken, loop.index))
            f.python(f"{prefix}_SetItem", container, loop.index, item)
        w.store("i64", base, height)

    with f.block(cases[Step.ARRAY]):
        at = w.load("i64", used)
        w.store("i64", w.iadd(at, 1), used)
        place = w.gep("ptr", "%arrays", at)
        array = w.load("ptr", place)
        w.store("ptr", "null", place)
        push(array, base)
    with f.block(cases[Step.NONE]):
        none = f.word("%facts", Fact.NONE, "ptr")
        f.python("Py_IncRef", none)
        push(none, base)
    for step_of, prefix in ((Step.TUPLE, "PyTuple"), (Step.LIST, "PyList")):
        with f.block(cases[step_of]):
            container = f.python(f"{prefix}_New", number)
            f.require(w.cmp("ne", "ptr", container, "null"), failed)
            moved_into(container, prefix)
            push(container, base)
    with f.block(cases[Step.DICT]):
        made = f.python("PyDict_New")
        f.require(w.cmp("ne", "ptr", made, "null"), failed)
        bad = w.alloca("i32")
        w.store("i32", "0", bad)
        with w.loop(0, number) as loop:
            item = w.load("ptr", w.gep("ptr", taken, loop.index))
            key = f.python("PyTuple_GetItem", what, loop.index)
            status = f.python("PyDict_SetItem", made, key, item)
            w.store("i32", w.op("or", "i32", w.load("i32", bad), status), bad)
            f.python("Py_DecRef", item)
        w.store("i64", base, height)
        kept, lost = w.new_label("kept"), w.new_label("lost")
        w.cond_br(w.cmp("eq", "i32", w.load("i32", bad), "0"), kept, lost, likely=True)
        with f.block(lost):
            f.python("Py_DecRef", made)
            w.br(failed)
        with f.block(kept):
            push(made, base)
    with f.block(cases[Step.CALL]):
        items = f.python("PyList_New", number)
        f.require(w.cmp("ne", "ptr", items, "null"), failed)
        moved_into(items, "PyList")
        argument = w.alloca("ptr")
        w.store("ptr", items, argument)
        tree = f.python("PyObject_Vectorcall", what, argument, "1", "null")
        f.python("Py_DecRef", items)
        f.require(w.cmp("ne", "ptr", tree, "null"), failed)
        push(tree, base)
    with f.block(cases[Step.MAKE]):
        value = f.python("PyObject_Vectorcall", what, taken, number, "null")
        f.release_all(number, taken)
        w.store("i64", base, height)
        f.require(w.cmp("ne", "ptr", value, "null"), failed)
        push(value, base)
    with f.block(cases[Step.RETURN]):
        w.ret("ptr", w.load("ptr", stack))
    w.label(following)
    w.line(f"%next_step = getelementptr i64, ptr {step}, i64 {WORDS}")
    w.br(head)
    with f.block(failed):
        f.release_all(w.load("i64", height), stack)
        w.ret("ptr", "null")


def _write_call_entries(module: ModuleWriter) -> None:
    """ptr call_entries(facts, programs, args, count, names): what the entry that fits gives; MISS:
    none does."""
    params = [("ptr", "facts"), ("ptr", "programs"), ("ptr", "args"), ("i64", "count")]
    f = Writer(module, "pyjax.call_entries", [*params, ("ptr", "names")], "ptr")
    w = f.w
    registers = w.alloca("ptr", MOST_REGISTERS)
    inputs, buffers = (w.alloca("ptr", MOST_ARRAYS) for _ in range(2))
    scalars = w.alloca("i8", MOST_SCALARS * SCALAR_BYTES, align=SCALAR_BYTES)
    named, program = w.alloca("i64"), w.alloca("ptr")
    miss = w.new_label("miss")
    f.require(f.same(f.type_of("%programs"), f.word("%facts", Fact.PROGRAMS, "ptr")), miss)
    entries = f.slot("%programs", "%facts", Fact.ENTRIES)
    hot = f.slot("%programs", "%facts", Fact.HOT)
    f.require(w.cmp("ne", "ptr", entries, "null"), miss)
    f.require(w.cmp("ne", "ptr", hot, "null"), miss)
    f.require(f.own("pyjax.ready", "i1", ("ptr", "%facts")), miss)
    w.store("i64", "0", named)
    with w.if_(w.cmp("ne", "ptr", "%names", "null")):
        w.store("i64", f.python("PyTuple_Size", "%names"), named)
    keywords = w.load("i64", named)
    total = w.iadd("%count", keywords)
    f.require(w.cmp("slt", "i64", total, str(MOST_REGISTERS // 2)), miss)
    context = f.python("PyList_GetItem", f.word("%facts", Fact.CONTEXT, "ptr"), "0")
    with w.loop(0, f.python("PyTuple_Size", entries)) as loop:
        entry = f.python("PyTuple_GetItem", entries, loop.index)
        words = f.python("PyBytes_AsString", f.python("PyTuple_GetItem", entry, "0"))
        other = w.new_label("other")
        f.require(w.cmp("eq", "i64", f.word(words, Header.ARGUMENTS), "%count"), other)
        f.require(w.cmp("eq", "i64", f.word(words, Header.NAMES), keywords), other)
        f.require(f.same(f.word(words, Header.CONTEXT, "ptr"), context), other)
        with w.loop(0, total) as each:
            argument = w.load("ptr", w.gep("ptr", "%args", each.index))
            w.store("ptr", argument, w.gep("ptr", registers, each.index))
        w.store("ptr", "%names", w.gep("ptr", registers, total))
        guards = w.gep("i64", words, f.word(words, Header.GUARDS))
        state = ["%facts", guards, hot, registers, inputs, buffers, scalars, program]
        f.require(f.own("pyjax.matches", "i1", *[("ptr", x) for x in state]), other)
        run = ["%facts", words, inputs, buffers, entry, w.load("ptr", program)]
        w.ret("ptr", f.own("pyjax.run", "ptr", *[("ptr", x) for x in run]))
        w.label(other)
    w.br(miss)
    with f.block(miss):
        w.ret("ptr", _MISS)


def _end_of_call(f: Writer, facts: str, programs: str, args: str, count: str, slow: str) -> None:
    """Try entries, then the Python function."""
    w = f.w
    arguments = [("ptr", facts), ("ptr", programs), ("ptr", args), ("i64", count)]
    result = f.own("pyjax.call_entries", "ptr", *arguments, ("ptr", "%names"))
    hit = w.new_label("hit")
    w.cond_br(w.cmp("ne", "ptr", result, _MISS), hit, slow, likely=True)
    with f.block(hit):
        w.ret("ptr", result)
    with f.block(slow):
        fallback = f.word("%self", Field.FALLBACK, "ptr")
        w.ret("ptr", f.python("PyObject_Vectorcall", fallback, "%args", "%flags", "%names"))


def _write_call_method(module: ModuleWriter) -> None:
    """`vectorcall` of a method of a holder of programs."""
    f = Writer(module, "pyjax_call_method", VECTORCALL, "ptr")
    w = f.w
    slow = w.new_label("slow")
    facts = f.word("%self", Field.FACTS, "ptr")
    count = w.op("and", "i64", "%flags", COUNT_MASK)
    f.require(w.cmp("ne", "i64", count, "0"), slow)
    holder = w.load("ptr", "%args")
    f.require(f.same(f.type_of(holder), f.word(facts, Fact.HOLDER, "ptr")), slow)
    programs = f.slot(holder, facts, Fact.PROGRAMS_OF_HOLDER)
    f.require(w.cmp("ne", "ptr", programs, "null"), slow)
    rest = w.op("sub", "i64", count, "1")
    _end_of_call(f, facts, programs, w.gep("ptr", "%args", 1), rest, slow)


def _write_call_operator(module: ModuleWriter) -> None:
    """`vectorcall` of an operator, whose programs the method has."""
    f = Writer(module, "pyjax_call_operator", VECTORCALL, "ptr")
    facts = f.word("%self", Field.FACTS, "ptr")
    programs = f.word("%self", Field.PROGRAMS, "ptr")
    count = f.w.op("and", "i64", "%flags", COUNT_MASK)
    _end_of_call(f, facts, programs, "%args", count, f.w.new_label("slow"))


def _write_bind(module: ModuleWriter) -> None:
    """`tp_descr_get`: itself for a class, a bound method for an instance."""
    f = Writer(module, "pyjax_bind", [("ptr", n) for n in ("self", "instance", "owner")], "ptr")
    w = f.w
    pair = w.alloca("ptr", 2)
    bound, plain = w.new_label("bound"), w.new_label("plain")
    w.cond_br(w.cmp("ne", "ptr", "%instance", "null"), bound, plain, likely=True)
    with f.block(bound):
        w.store("ptr", "%self", pair)
        w.store("ptr", "%instance", w.gep("ptr", pair, 1))
        kind = f.word(f.word("%self", Field.FACTS, "ptr"), Fact.BOUND, "ptr")
        w.ret("ptr", f.python("PyObject_Vectorcall", kind, pair, "2", "null"))
    with f.block(plain):
        f.python("Py_IncRef", "%self")
        w.ret("ptr", "%self")


def entry_code(target: TargetInfo) -> str:
    """The code as LLVM text: the same in every process on such a machine."""
    module = ModuleWriter(target)
    for name, (result, types) in FUNCTIONS.items():
        module.declare(name, result, types)
    for write in (
        _write_ready,
        _write_equal,
        _write_matches,
        _write_allocated,
        _write_made,
        _write_run,
        _write_call_entries,
        _write_call_method,
        _write_call_operator,
        _write_bind,
        write_flatten,
    ):
        write(module)
    return module.to_text()


@once
def entry_library() -> Library:
    """The code, linked; it stays for the life of the process."""
    return compile_library(
        entry_code(host_target()), {n: address_of(n) for n in FUNCTIONS}, cache=True
    )
