"""The native code that takes trees apart whose shapes are known (see `trees`).

API
  write_flatten(module)     pyjax_flatten: the `vectorcall` that gives the leaves and the structure
                            of a tree; what it does not know goes to the Python function
"""

from __future__ import annotations

from pyjax.native.function_writer import COUNT_MASK, VECTORCALL, Fact, Field, Writer
from pyjax.native.trees import MOST_REGISTERS, WORDS, Look
from xla_backend.llvm.writer import ModuleWriter


def _write_taken_apart(module: ModuleWriter) -> None:
    """ptr taken_apart(facts, shape, tree): a list of the leaves; null without an exception: the
    tree has another shape; null with one: of an attribute, or there is no memory."""
    params = [("ptr", n) for n in ("facts", "shape", "tree")]
    f = Writer(module, "pyjax.taken_apart", params, "ptr")
    w = f.w
    registers, leaves = (w.alloca("ptr", MOST_REGISTERS) for _ in range(2))
    used, found, result = w.alloca("i64"), w.alloca("i64"), w.alloca("ptr")
    argument = w.alloca("ptr")
    known = w.alloca("ptr")  # the type of the last leaf
    w.store("i64", "0", used)
    w.store("i64", "0", found)
    w.store("ptr", "null", result)
    w.store("ptr", "null", known)

    def hold(item: str) -> None:
        """An object with a reference of its own goes into the next register."""
        at = w.load("i64", used)
        w.store("ptr", item, w.gep("ptr", registers, at))
        w.store("i64", w.iadd(at, 1), used)

    def borrow(item: str) -> None:
        f.python("Py_IncRef", item)
        hold(item)

    borrow("%tree")
    words = f.python("PyBytes_AsString", f.python("PyTuple_GetItem", "%shape", "0"))
    head, following, no, clear = "head", "following", "no", "clear"
    start = w.new_label("start")
    first = w.gep("i64", words, 1)
    w.br(start)
    w.label(start)
    w.br(head)
    w.label(head)
    look = w.phi("ptr", [(first, start), ("%next_look", following)])
    expected, count = f.word(look, 2, "ptr"), f.word(look, 4)
    item = w.load("ptr", w.gep("ptr", registers, f.word(look, 1)))
    cases = {c: f"case.{c.name.lower()}" for c in Look}
    table = " ".join(f"i64 {int(c)}, label %{label}" for c, label in cases.items())
    w.line(f"switch i64 {f.word(look, 0)}, label %{no} [ {table} ]")

    with f.block(cases[Look.LEAF]):
        kind = f.type_of(item)
        new, old = w.new_label("new"), w.new_label("old")
        w.cond_br(f.same(kind, w.load("ptr", known)), old, new, likely=True)
        with f.block(new):
            # The hash of a class with a metaclass may be code of Python.
            f.require(f.same(f.type_of(kind), f.word("%facts", Fact.TYPE, "ptr")), no)
            held = f.python("PySet_Contains", f.word("%facts", Fact.LEAF_TYPES, "ptr"), kind)
            f.require(w.cmp("eq", "i32", held, "1"), no)
            w.store("ptr", kind, known)
            w.br(old)
        with f.block(old):
            at = w.load("i64", found)
            w.store("ptr", item, w.gep("ptr", leaves, at))
            w.store("i64", w.iadd(at, 1), found)
            w.br(following)
    containers = (cases[Look.TUPLE], cases[Look.LIST], cases[Look.DICT])
    take = lambda number, child: borrow(child)
    f.look_into(containers, item, expected, count, take, (following, no))
    with f.block(cases[Look.FIELDS]):
        f.require(f.same(f.type_of(item), f.python("PyTuple_GetItem", expected, "0")), no)
        with w.loop(0, count) as loop:
            name = f.python("PyTuple_GetItem", expected, w.iadd(loop.index, 1))
            attribute = f.python("PyObject_GetAttr", item, name)
            f.require(w.cmp("ne", "ptr", attribute, "null"), no)
            hold(attribute)
        w.store("ptr", "null", known)  # whatever ran may have registered it
        w.br(following)
    with f.block(cases[Look.CALL]):
        f.require(f.same(f.type_of(item), f.python("PyTuple_GetItem", expected, "0")), no)
        w.store("ptr", item, argument)
        flatten = f.python("PyTuple_GetItem", expected, "1")
        given = f.python("PyObject_Vectorcall", flatten, argument, "1", "null")
        f.require(w.cmp("ne", "ptr", given, "null"), no)
        hold(given)  # goes with the others
        tuples = f.word("%facts", Fact.TUPLE, "ptr")
        f.require(f.same(f.type_of(given), tuples), no)
        f.require(w.cmp("eq", "i64", f.python("PyTuple_Size", given), "2"), no)
        children = f.python("PyTuple_GetItem", given, "0")
        constant = f.python("PyTuple_GetItem", given, "1")
        f.require(f.same(constant, f.python("PyTuple_GetItem", expected, "2")), no)
        f.require(f.same(f.type_of(children), tuples), no)
        inside = w.op("sub", "i64", count, "1")
        f.require(w.cmp("eq", "i64", f.python("PyTuple_Size", children), inside), no)
        with w.loop(0, inside) as loop:
            borrow(f.python("PyTuple_GetItem", children, loop.index))
        w.store("ptr", "null", known)  # whatever ran may have registered it
        w.br(following)
    with f.block(cases[Look.SAME]):
        w.cond_br(f.same(item, expected), following, no)
    with f.block(cases[Look.FOUND]):
        total = f.word(words, 0)
        made = f.python("PyList_New", total)
        w.store("ptr", made, result)
        f.require(w.cmp("ne", "ptr", made, "null"), clear)
        with w.loop(0, total) as loop:
            leaf = w.load("ptr", w.gep("ptr", leaves, loop.index))
            f.python("Py_IncRef", leaf)
            f.python("PyList_SetItem", made, loop.index, leaf)
        w.br(clear)
    w.label(following)
    w.line(f"%next_look = getelementptr i64, ptr {look}, i64 {WORDS}")
    w.br(head)
    with f.block(no):
        w.br(clear)
    w.label(clear)
    f.release_all(w.load("i64", used), registers)
    w.ret("ptr", w.load("ptr", result))


def write_flatten(module: ModuleWriter) -> None:
    """`vectorcall` of a method that has a table of shapes."""
    _write_taken_apart(module)
    f = Writer(module, "pyjax_flatten", VECTORCALL, "ptr")
    w = f.w
    slow, over, full = (w.new_label(n) for n in ("slow", "over", "full"))
    facts = f.word("%self", Field.FACTS, "ptr")
    result = w.alloca("ptr")
    w.store("ptr", "null", result)
    count = w.op("and", "i64", "%flags", COUNT_MASK)
    f.require(w.cmp("eq", "i64", count, "1"), slow)
    f.require(f.same("%names", "null"), slow)
    off = f.python("PyDict_Size", f.word(facts, Fact.OFF, "ptr"))
    f.require(w.cmp("eq", "i64", off, "0"), slow)
    table = f.word("%self", Field.PROGRAMS, "ptr")
    shapes = w.load("ptr", f.at(table, f.word(facts, Fact.TREES)))
    f.require(w.cmp("ne", "ptr", shapes, "null"), slow)
    tree = w.load("ptr", "%args")
    f.python("Py_IncRef", shapes)  # attributes may run whatever puts others in their place
    with w.loop(0, f.python("PyTuple_Size", shapes)) as loop:
        shape = f.python("PyTuple_GetItem", shapes, loop.index)
        taken = [("ptr", x) for x in (facts, shape, tree)]
        leaves = f.own("pyjax.taken_apart", "ptr", *taken)
        other = w.new_label("other")
        f.require(w.cmp("ne", "ptr", leaves, "null"), other)
        pair = f.python("PyTuple_New", "2")
        w.store("ptr", pair, result)
        f.require(w.cmp("ne", "ptr", pair, "null"), full)
        structure = f.python("PyTuple_GetItem", shape, "1")
        f.python("Py_IncRef", structure)
        f.python("PyTuple_SetItem", pair, "0", leaves)
        f.python("PyTuple_SetItem", pair, "1", structure)
        w.br(over)
        with f.block(full):
            f.python("Py_DecRef", leaves)
            w.br(over)
        w.label(other)
        failed = f.python("PyErr_Occurred")
        f.require(f.same(failed, "null"), over)
    f.python("Py_DecRef", shapes)
    w.br(slow)
    with f.block(over):
        f.python("Py_DecRef", shapes)
        w.ret("ptr", w.load("ptr", result))
    with f.block(slow):
        fallback = f.word("%self", Field.FALLBACK, "ptr")
        w.ret("ptr", f.python("PyObject_Vectorcall", fallback, "%args", "%flags", "%names"))
