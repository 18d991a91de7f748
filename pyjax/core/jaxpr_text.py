"""Text of jaxprs: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.

A jaxpr called by several equations is printed once, named, in front. Layer: core.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core import pretty_printer as pp
from pyjax.core.host_program import in_ipython
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    jaxprs_in_params,
)
from pyjax.core.pretty_printer import Break, Concat, Doc, Group, Nest, Note, Text

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"

# Parameters left out of the text: by primitive name, parameter -> value at which it goes unsaid.
_ANY = object()
_UNSAID_EVERYWHERE: dict[str, Any] = {"accuracy": None, "out_dtype": None}
_UNSAID: dict[str, dict[str, Any]] = {
    "broadcast_in_dim": {"shape": _ANY, "sharding": _ANY, "broadcast_dimensions": ()},
    "dot_general": {"precision": None, "preferred_element_type": None, "out_sharding": _ANY},
    "reshard": {"dst_sharding": _ANY},
    "convert_element_type": {"sharding": None},
    "jit": {"keep_unused": False, "inline": False},
    "scan": {"linear": _ANY, "_split_transpose": False},
    "custom_jvp_call": {"num_consts": _ANY},
    "custom_vjp_call": {"num_consts": _ANY, "out_trees": _ANY},
    "custom_vmap_call": {"num_consts": _ANY, "num_captured": _ANY},
}


class _Names:
    """Names of variables in order of first appearance: a, b, ..., z, ba, ...

    `source_info`: equations are printed with the user's line they come from.
    """

    def __init__(self, source_info: bool = False, name_stack: bool = False) -> None:
        self.source_info = source_info
        self.name_stack = name_stack
        self._names: dict[Var, str] = {}
        self._fresh = self._generate()
        self.shared: dict[Jaxpr, str] = {}

    @staticmethod
    def _generate() -> Iterator[str]:
        for n in itertools.count():
            digits = ""
            while True:
                n, r = divmod(n, 26)
                digits = _ALPHABET[r] + digits
                if n == 0:
                    break
            yield digits

    def __getitem__(self, v: Var) -> str:
        name = self._names.get(v)
        if name is None:
            name = self._names[v] = next(self._fresh)
        return name

    def alias(self, v: Var, other: Var) -> None:
        """Print `v` as `other` is printed."""
        self._names.setdefault(v, self[other])


def _atom(a: Any, names: _Names, with_type: bool) -> Doc:
    if type(a) is Literal:
        value = a.val.item() if isinstance(a.val, (np.generic, np.ndarray)) else a.val
        if isinstance(value, (bytes, tuple)):  # types that Python cannot hold print as NumPy does
            value = a.val
        text = f"{value}:{a.aval.str_short(short_dtypes=True)}"
        return Text(text)
    name = "_" if type(a) is DropVar else names[a]
    if not with_type:
        return Text(name)
    return Text(name) + Text(":" + a.aval.str_short(short_dtypes=True), "type")


def _binders(variables: list[Var], names: _Names) -> Doc:
    return _filled([_atom(v, names, True) for v in variables])


def _filled(items: list[Doc]) -> Doc:
    """Items on as few lines as hold them."""
    return Nest(2, Group(pp.join(Group(Break()), items)))


def _value(value: Any, names: _Names) -> Doc:
    if isinstance(value, (Jaxpr, ClosedJaxpr)):
        jaxpr = value.jaxpr if isinstance(value, ClosedJaxpr) else value
        shared = names.shared.get(jaxpr)
        return Text(shared) if shared else _jaxpr(jaxpr, names)
    if (
        isinstance(value, (tuple, list))
        and value
        and all(isinstance(v, (Jaxpr, ClosedJaxpr)) for v in value)
    ):
        inner = pp.join(Break(), [_value(v, names) for v in value])
        body = Nest(2, Concat((Break(""), inner)))
        return Group(Concat((Text("("), body, Break(""), Text(")"))))
    if isinstance(value, np.dtype):
        return Text("float0" if value == dtypes.float0 else value.name)
    if isinstance(value, np.generic):
        return Text(str(value))
    if hasattr(value, "__name__"):
        return Text(value.__name__)
    return Text(str(value))


def _lists(value: Any) -> str:
    """dot_general's dimension numbers: lists of ints in pairs."""
    if value and all(isinstance(v, (tuple, list)) for v in value):
        return "(" + ", ".join(map(_lists, value)) + ")"
    return "[" + ", ".join(map(str, value)) + "]"


def _said(eqn: JaxprEqn) -> list[tuple[str, Any]]:
    unsaid = {**_UNSAID_EVERYWHERE, **_UNSAID.get(eqn.primitive.name, {})}
    pairs = []
    for key in sorted(eqn.params):
        value = eqn.params[key]
        if key in unsaid and (unsaid[key] is _ANY or unsaid[key] == value):
            continue
        if key == "donated_invars" and not any(value):
            continue
        pairs.append((key, value))
    pairs.sort(key=lambda pair: pair[0] != "name")
    return pairs


def _params(eqn: JaxprEqn, names: _Names) -> Doc:
    pairs = _said(eqn)
    if not pairs:
        return Text("")
    docs: list[Doc] = []
    for key, value in pairs:
        if key == "dimension_numbers" and eqn.primitive.name == "dot_general":
            (lc, rc), (lb, rb) = value
            text = f"(({_lists(lc)}, {_lists(rc)}), ({_lists(lb)}, {_lists(rb)}))"
            docs.append(Text(f"{key}={text}"))
        else:
            docs.append(Concat((Text(f"{key}="), _value(value, names))))
    body = Nest(2, Concat((Break(""), pp.join(Break(), docs))))
    return Group(Concat((Text("["), body, Break(""), Text("]"))))


def _eqn(eqn: JaxprEqn, names: _Names) -> Doc:
    if eqn.primitive.name in _ON_REFS:
        return Concat((_on_ref(eqn, names), *_place(eqn, names)))
    left = _binders(eqn.outvars, names)
    if eqn.primitive.name == "jit":
        _alias_call(eqn, names)
    right = [
        Text(eqn.primitive.name, "name"),
        _params(eqn, names),
        Text(" "),
        _filled([_atom(a, names, False) for a in eqn.invars]),
    ]
    right += _place(eqn, names)
    if not eqn.outvars:
        return Concat(tuple(right))
    return Concat((left, Text(" = "), *right))


def _place(eqn: JaxprEqn, names: _Names) -> list[Doc]:
    """The user's line and the names of scopes, as far as they are asked for."""
    frame = eqn.source
    if frame is None:
        return []
    notes: list[Doc] = []
    if names.source_info:
        notes.append(Note(f"  # {frame.file_name}:{frame.line} ({frame.function_name})"))
    if names.name_stack and frame.names:
        notes.append(Note(f"  [{'/'.join(frame.names)}]"))
    return notes


_ON_REFS = frozenset({"get", "swap", "addupdate"})


def _on_ref(eqn: JaxprEqn, names: _Names) -> Doc:
    """`a:f32[] <- x[i]`, `x[i] <- a`, `a:f32[], x[i] <- x[i], b`, `x[i] += a`."""
    name = eqn.primitive.name
    index = iter(eqn.invars[1 if name == "get" else 2 :])
    indices = [_index(indexer, index, names) for indexer in eqn.params["indexers"]]
    part = _atom(eqn.invars[0], names, False) + Text("".join(indices) or "[...]")
    if name == "get":
        return _binders(eqn.outvars, names) + Text(" <- ") + part
    value = _atom(eqn.invars[1], names, False)
    if name == "addupdate":
        return part + Text(" += ") + value
    if type(eqn.outvars[0]) is DropVar:
        return part + Text(" <- ") + value
    both = (_binders(eqn.outvars, names), Text(", "), part, Text(" <- "), part, Text(", "), value)
    return Concat(both)


def _index(indexer: Any, operands: Iterator[Any], names: _Names) -> str:
    parts = []
    for entry, size in zip(indexer.entries, indexer.shape):
        if entry is None:
            atom = next(operands)
            parts.append(str(atom.val) if type(atom) is Literal else names[atom])
            continue
        end = entry.start + max(entry.size - 1, 0) * entry.step + min(entry.size, 1)
        stop = "" if end == size or (entry.step > 1 and end + entry.step > size) else str(end)
        step = f":{entry.step}" if entry.step > 1 else ""
        parts.append(f"{entry.start or ''}:{stop}{step}")
    return f"[{','.join(parts)}]"


def _alias_call(eqn: JaxprEqn, names: _Names) -> None:
    """Variables of a function called once are printed by the names they have outside."""
    inner = eqn.params["jaxpr"].jaxpr
    if inner in names.shared:
        return
    taken = set()  # what is passed twice has two names inside
    for v, a in zip(inner.invars, eqn.invars):
        if type(a) is not Literal and a not in taken:
            names.alias(v, a)
            taken.add(a)
    for v, outer in zip(inner.outvars, eqn.outvars):
        if type(v) is not Literal and type(outer) is not DropVar:
            names.alias(v, outer)


def _jaxpr(jaxpr: Jaxpr, names: _Names) -> Doc:
    head: list[Doc] = [Text("{ "), Text("lambda", "keyword"), Text(" ")]
    if jaxpr.constvars:
        head.append(_binders(jaxpr.constvars, names))
    head.append(Text("; "))
    if jaxpr.invars:
        head.append(_binders(jaxpr.invars, names))
    head += [Text(". "), Text("let", "keyword")]
    eqns = [_eqn(e, names) for e in jaxpr.eqns]
    outs = [_atom(v, names, False) for v in jaxpr.outvars]
    out_text: list[Doc] = [
        Text("("),
        pp.join(Text(", "), outs),
        Text(",)" if len(outs) == 1 else ")"),
    ]
    return Group(
        Concat(
            (
                *head,
                Nest(4, Concat((Break(), pp.join(Break("; "), eqns)))),
                Nest(2, Concat((Break(), Text("in", "keyword"), Text(" "), *out_text))),
                Text(" }"),
            )
        )
    )


def _shared_calls(jaxpr: Jaxpr) -> dict[Jaxpr, str]:
    """Jaxprs called by more than one equation, with the names to print them by."""
    counts: Counter[Jaxpr] = Counter()
    called: dict[Jaxpr, str] = {}

    def visit(j: Jaxpr) -> None:
        for eqn in j.eqns:
            for inner in jaxprs_in_params(eqn.params):
                if eqn.primitive.name == "jit":
                    counts[inner] += 1
                    called.setdefault(inner, eqn.params["name"])
                    if counts[inner] > 1:
                        continue
                visit(inner)

    visit(jaxpr)
    result: dict[Jaxpr, str] = {}
    used: Counter[str] = Counter()
    for j, name in called.items():
        if counts[j] > 1:
            name = name.strip("<>")
            result[j] = name if not used[name] else f"{name}{used[name]}"
            used[name] += 1
    return result


def _in_order(shared: dict[Jaxpr, str]) -> list[Jaxpr]:
    """Callees before callers."""
    order: list[Jaxpr] = []

    def visit(j: Jaxpr) -> None:
        for eqn in j.eqns:
            for inner in jaxprs_in_params(eqn.params):
                visit(inner)
        if j in shared and j not in order:
            order.append(j)

    for j in shared:
        visit(j)
    return order


def can_use_color() -> bool:
    """Whether output goes to a terminal (or notebook) and the option asks for color."""
    if not options.pprint_use_color.value:
        return False
    if in_ipython() and "ipykernel" in sys.modules:
        return True
    return bool(sys.stdout and sys.stdout.isatty()) and os.environ.get("TERM", "dumb") != "dumb"


def to_text(
    x: Any, use_color: bool | None = None, source_info: bool = False, name_stack: bool = False
) -> str:
    """Text of a Jaxpr, ClosedJaxpr or JaxprEqn.

    `source_info`: each equation ends in `  # file:line (function)`, the user's line it comes from.
    `name_stack`: and in `[a/b]`, the names of the scopes it was traced in.
    """
    names = _Names(source_info, name_stack)
    if isinstance(x, JaxprEqn):
        return pp.layout(_eqn(x, names))
    jaxpr = x.jaxpr if isinstance(x, ClosedJaxpr) else x
    shared = _shared_calls(jaxpr)
    parts: list[Doc] = []
    for inner in _in_order(shared):
        parts.append(Text(f"let {shared[inner]} = ") + _jaxpr(inner, names) + Text(" in\n"))
        names.shared[inner] = shared[inner]
    parts.append(_jaxpr(jaxpr, names))
    color = can_use_color() if use_color is None else use_color
    return "".join(pp.layout(p, use_color=color) for p in parts)
