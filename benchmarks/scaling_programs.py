"""Programs of any length, one kind each, whose compile time should grow as they do.

`PROGRAMS[kind](n)` is HLO text of roughly `n` instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

_ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
_LESS = (
    "less { a = f32[] parameter(0)  b = f32[] parameter(1)"
    "  ROOT c = pred[] compare(a, b), direction=LT }\n"
)
_PRODUCT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_SCATTER = (
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=add"
)


def chain(n: int) -> str:
    """One elementwise chain on a vector."""
    ops = ("add", "multiply", "subtract", "maximum")
    lines = [f"x{i + 1} = f32[512] {ops[i % 4]}(x{i}, y)" for i in range(n)]
    return _entry(["x0 = f32[512] parameter(0)", "y = f32[512] parameter(1)", *lines], f"x{n}")


def layers(n: int) -> str:
    """Matrix product, bias, activation, again and again: four instructions a layer."""
    lines = ["x0 = f32[16,32] parameter(0)", "w = f32[32,32] parameter(1)"]
    lines.append("b = f32[32] parameter(2)")
    for i in range(n // 4):
        lines += [
            f"d{i} = f32[16,32] dot(x{i}, w), {_PRODUCT}",
            f"c{i} = f32[16,32] broadcast(b), dimensions={{1}}",
            f"s{i} = f32[16,32] add(d{i}, c{i})",
            f"x{i + 1} = f32[16,32] tanh(s{i})",
        ]
    return _entry(lines, f"x{n // 4}")


def backward(n: int) -> str:
    """A chain of products and its cotangents, which want every intermediate result again."""
    steps = n // 3
    lines = ["x0 = f32[32,32] parameter(0)", "w = f32[32,32] parameter(1)"]
    lines += [f"x{i + 1} = f32[32,32] dot(x{i}, w), {_PRODUCT}" for i in range(steps)]
    lines.append(f"g{steps} = f32[32,32] tanh(x{steps})")
    for i in reversed(range(steps)):
        lines += [
            f"d{i} = f32[32,32] dot(g{i + 1}, w), lhs_contracting_dims={{1}}, "
            "rhs_contracting_dims={1}",
            f"g{i} = f32[32,32] multiply(d{i}, x{i})",
        ]
    return _entry(lines, "g0")


def reductions(n: int) -> str:
    """Normalisation of rows: five instructions a step."""
    lines = ["x0 = f32[16,128] parameter(0)", "zero = f32[] constant(0)"]
    for i in range(n // 5):
        lines += [
            f"e{i} = f32[16,128] multiply(x{i}, x{i})",
            f"r{i} = f32[16] reduce(e{i}, zero), dimensions={{1}}, to_apply=add",
            f"q{i} = f32[16] rsqrt(r{i})",
            f"b{i} = f32[16,128] broadcast(q{i}), dimensions={{0}}",
            f"x{i + 1} = f32[16,128] multiply(x{i}, b{i})",
        ]
    return _ADD + _entry(lines, f"x{n // 5}")


def tree(n: int) -> str:
    """Many different arrays added in pairs: wide rather than deep."""
    leaves = n // 2
    lines = ["x = f32[300] parameter(0)"]
    names = []
    for i in range(leaves):
        lines.append(
            f"l{i} = f32[{100 + i % 50}] slice(x), slice={{[{i % 50}:{100 + 2 * (i % 50)}]}}"
        )
        names.append(f"l{i}")
    groups: dict[int, list[str]] = {}
    for i, name in enumerate(names):
        groups.setdefault(i % 50, []).append(name)
    roots = []
    for k, members in groups.items():
        total = members[0]
        for j, other in enumerate(members[1:]):
            lines.append(f"t{k}_{j} = f32[{100 + k}] add({total}, {other})")
            total = f"t{k}_{j}"
        roots.append(total)
    shape = ", ".join(f"f32[{100 + k}]" for k in groups)
    lines.append(f"out = ({shape}) tuple({', '.join(roots)})")
    return _entry(lines, "out")


def independent(n: int) -> str:
    """Arrays that have nothing to do with each other, all of them results."""
    lines = [f"p{i} = f32[512] parameter({i})" for i in range(n // 2)]
    lines += [f"y{i} = f32[512] sine(p{i})" for i in range(n // 2)]
    return _entry([*lines, _tuple("out", "f32[512]", (f"y{i}" for i in range(n // 2)))], "out")


def pieces(n: int) -> str:
    """Slices of one array, few of them different, put together again."""
    sizes = [1 + i % 7 for i in range(n)]
    lines = ["x = f32[16] parameter(0)"]
    lines += [
        f"s{i} = f32[{s}] slice(x), slice={{[{i % 5}:{i % 5 + s}]}}" for i, s in enumerate(sizes)
    ]
    names = ", ".join(f"s{i}" for i in range(n))
    lines.append(f"out = f32[{sum(sizes)}] concatenate({names}), dimensions={{0}}")
    return _entry(lines, "out")


def updates(n: int) -> str:
    """One array, each element added to in place, one after another: three instructions a step."""
    lines = ["x0 = f32[4096] parameter(0)", "u = f32[1] parameter(1)", "i = s32[] parameter(2)"]
    for k in range(n // 3):
        lines += [
            f"s{k} = f32[1] dynamic-slice(x{k}, i), dynamic_slice_sizes={{1}}",
            f"m{k} = f32[1] add(s{k}, u)",
            f"x{k + 1} = f32[4096] dynamic-update-slice(x{k}, m{k}, i)",
        ]
    return _entry(lines, f"x{n // 3}")


def scatters(n: int) -> str:
    """One array, scattered into again and again."""
    return _entry(_scattered(n), f"x{n}", _ADD)


def kept_scatters(n: int) -> str:
    """The same, and every array between is a result: each step needs a copy."""
    return _entry(
        [*_scattered(n), _tuple("out", "f32[64]", (f"x{k + 1}" for k in range(n)))], "out", _ADD
    )


def donated(n: int) -> str:
    """Parameters that are given up, each updated in place."""
    count = n // 2
    lines = ["u = f32[1] parameter(0)", "i = s32[] parameter(1)"]
    lines += [f"p{k} = f32[64] parameter({k + 2})" for k in range(count)]
    lines += [f"y{k} = f32[64] dynamic-update-slice(p{k}, u, i)" for k in range(count)]
    lines.append(_tuple("out", "f32[64]", (f"y{k}" for k in range(count))))
    aliases = ", ".join(f"{{{k}}}: ({k + 2}, {{}}, may-alias)" for k in range(count))
    return f"HloModule m, input_output_alias={{ {aliases} }}\n\n" + _entry(lines, "out")


def carries(n: int) -> str:
    """One loop that carries many arrays, and computes each from its old value."""
    count = n // 4
    return _loop(count, [f"b{k} = f32[8] sine(a{k})" for k in range(count)], _names("b", count))


def rotation(n: int) -> str:
    """One loop that carries many arrays and hands each on to the next place."""
    names = _names("a", n // 3)
    return _loop(n // 3, [], names[1:] + names[:1])


def loops(n: int) -> str:
    """Loops one behind the other: about sixteen instructions each."""
    state = "(s32[], f32[64])"
    before = ""
    lines = ["x0 = f32[64] parameter(0)", "z = s32[] parameter(1)"]
    for k in range(n // 16):
        before += _condition(f"cond{k}", state, 30 + k) + (
            f"body{k} {{ t = {state} parameter(0)  i = s32[] get-tuple-element(t), index=0"
            "  one = s32[] constant(1)  next = s32[] add(i, one)"
            "  a = f32[64] get-tuple-element(t), index=1  b = f32[64] sine(a)"
            f"  ROOT r = {state} tuple(next, b) }}\n"
        )
        lines += [
            f"t{k} = {state} tuple(z, x{k})",
            f"w{k} = {state} while(t{k}), condition=cond{k}, body=body{k}",
            f"x{k + 1} = f32[64] get-tuple-element(w{k}), index=1",
        ]
    return _entry(lines, f"x{n // 16}", before)


def nests(n: int) -> str:
    """Loops in loops: about ten instructions a level."""
    state = "(s32[], f32[64])"
    before, inner = "", "b = f32[64] sine(a)"
    for k in range(n // 10):
        before += _condition(f"cond{k}", state, 30 + k) + (
            f"body{k} {{ t = {state} parameter(0)  i = s32[] get-tuple-element(t), index=0"
            "  one = s32[] constant(1)  next = s32[] add(i, one)  zero = s32[] constant(0)"
            f"  a = f32[64] get-tuple-element(t), index=1  {inner}"
            f"  ROOT r = {state} tuple(next, b) }}\n"
        )
        loop = f"w = {state} while(s), condition=cond{k}, body=body{k}"
        inner = f"s = {state} tuple(zero, a)  {loop}  b = f32[64] get-tuple-element(w), index=1"
    lines = ["a = f32[64] parameter(0)", "zero = s32[] constant(0)", *inner.split("  ")]
    return _entry(lines, "b", before)


def branches(n: int) -> str:
    """Conditionals one behind the other: five instructions each."""
    before = ""
    lines = ["x0 = f32[64] parameter(0)", "p = pred[] parameter(1)"]
    for k in range(n // 5):
        before += f"yes{k} {{ a = f32[64] parameter(0)  ROOT b = f32[64] sine(a) }}\n"
        before += (
            f"no{k} {{ a = f32[64] parameter(0)  ROOT b = f32[64] reverse(a), dimensions={{0}} }}\n"
        )
        lines.append(
            f"x{k + 1} = f32[64] conditional(p, x{k}, x{k}), "
            f"true_computation=yes{k}, false_computation=no{k}"
        )
    return _entry(lines, f"x{n // 5}", before)


def sorts(n: int) -> str:
    """Sorts with something elementwise between."""
    lines = ["x0 = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    for k in range(n // 2):
        lines += [
            f"s{k} = f32[64] sort(x{k}), dimensions={{0}}, to_apply=less",
            f"x{k + 1} = f32[64] subtract(y, s{k})",
        ]
    return _entry(lines, f"x{n // 2}", _LESS)


PROGRAMS: dict[str, Callable[[int], str]] = {
    "chain": chain,
    "layers": layers,
    "backward": backward,
    "reductions": reductions,
    "tree": tree,
    "independent": independent,
    "pieces": pieces,
    "updates": updates,
    "scatters": scatters,
    "kept scatters": kept_scatters,
    "donated": donated,
    "carries": carries,
    "rotation": rotation,
    "loops": loops,
    "nests": nests,
    "branches": branches,
    "sorts": sorts,
}

# Where the largest program is not as large: code generation follows loops in loops on Python's own
# stack, which some 150 levels fill.
LARGEST = {"nests": 1000}


def _entry(lines: list[str], root: str, before: str = "") -> str:
    body = "\n".join(("  ROOT " if s.startswith(f"{root} =") else "  ") + s for s in lines)
    return f"{before}ENTRY e {{\n{body}\n}}\n"


def _names(stem: str, count: int) -> list[str]:
    return [f"{stem}{i}" for i in range(count)]


def _tuple(name: str, shape: str, elements: Iterable[str]) -> str:
    elements = list(elements)
    shapes = ", ".join([shape] * len(elements))
    return f"{name} = ({shapes}) tuple({', '.join(elements)})"


def _scattered(n: int) -> list[str]:
    lines = ["x0 = f32[64] parameter(0)", "u = f32[3] parameter(1)", "i = s32[3,1] parameter(2)"]
    return lines + [f"x{k + 1} = f32[64] scatter(x{k}, i, u), {_SCATTER}" for k in range(n)]


def _condition(name: str, state: str, limit: int) -> str:
    return (
        f"{name} {{ t = {state} parameter(0)  i = s32[] get-tuple-element(t), index=0"
        f"  n = s32[] constant({limit})  ROOT c = pred[] compare(i, n), direction=LT }}\n"
    )


def _loop(count: int, body: list[str], results: list[str]) -> str:
    """A counted loop over `count` arrays, which `body` knows as a0, a1, ..."""
    state = f"(s32[], {', '.join(['f32[8]'] * count)})"
    lines = [
        f"t = {state} parameter(0)",
        "i = s32[] get-tuple-element(t), index=0",
        "one = s32[] constant(1)",
        "next = s32[] add(i, one)",
        *(f"a{k} = f32[8] get-tuple-element(t), index={k + 1}" for k in range(count)),
        *body,
        f"ROOT r = {state} tuple(next, {', '.join(results)})",
    ]
    inside = "\n".join(f"  {line}" for line in lines)
    parameters = [f"p{k} = f32[8] parameter({k})" for k in range(count)]
    start = f"t = {state} tuple(zero, {', '.join(_names('p', count))})"
    loop = f"w = {state} while(t), condition=cond, body=body"
    return _entry(
        [*parameters, "zero = s32[] constant(0)", start, loop],
        "w",
        _condition("cond", state, 30) + f"body {{\n{inside}\n}}\n",
    )
