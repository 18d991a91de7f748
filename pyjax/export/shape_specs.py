"""Symbolic shapes from text: `symbolic_shape("b, 2*b + 1")`, and constraints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from pyjax.api.eval_shape import ShapeDtypeStruct
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.core.symbolic_dims import OPERATIONS, Scope, SymbolicDim, bounds, operation
from pyjax.core.tree_util import broadcast_prefix, tree_flatten, tree_unflatten

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(\.\.\.|>=|<=|==|\*\*|//|[-+*^(),%]))")
_MOST_NESTED = 100


class _Reader:
    """Tokens of a text, and expressions made of them."""

    def __init__(self, text: str, scope: Scope, what: str) -> None:
        self.text = text
        self.scope = scope
        self.what = what
        self.tokens: list[str] = []
        self.position = 0
        self.depth = 0
        end = 0
        stripped = text.rstrip()
        while end < len(stripped):
            match = _TOKEN.match(stripped, end)
            if match is None:
                self.fail(f"{stripped[end:].lstrip()[:10]!r} is no part of an expression")
            self.tokens.append(match[0].strip())
            end = match.end()

    def fail(self, why: str) -> NoReturn:
        fail(
            ValueError,
            f"syntax error in {self.what} {self.text!r}",
            why,
            "write sizes as in 'b, 2*b + 1, floordiv(n, 4), ...': numbers, names, +, -, *, ^, and "
            f"{', '.join(sorted(OPERATIONS))}",
        )

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def accept(self, *tokens: str) -> str:
        token = self.peek()
        if token and token in tokens:
            self.position += 1
            return token
        return ""

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, found {self.peek() or 'the end'!r}")

    def expression(self) -> Any:
        self.depth += 1
        if self.depth > _MOST_NESTED:
            self.fail("nested too deep")
        total = -self.term() if self.accept("-") else self.term()
        while sign := self.accept("+", "-"):
            total = total + self.term() if sign == "+" else total - self.term()
        self.depth -= 1
        return total

    def term(self) -> Any:
        product = self.power()
        while sign := self.accept("*", "//", "%"):
            other = self.power()
            if sign == "*":
                product = product * other
            else:
                product = self.divided("floordiv" if sign == "//" else "mod", product, other)
        return product

    def divided(self, name: str, a: Any, b: Any) -> Any:
        if type(b) is int and b <= 0 and name in ("floordiv", "mod"):
            self.fail(f"{name} by {b}")
        return operation(name, a, b)

    def power(self) -> Any:
        base = self.atom()
        if not self.accept("^", "**"):
            return base
        exponent = self.atom()
        if type(exponent) is not int or exponent > 16:
            self.fail(f"the power {exponent} is no number up to 16")
        return base**exponent

    def atom(self) -> Any:
        token = self.peek()
        self.position += 1
        if token.isdigit():
            if len(token) > 18:
                self.fail(f"{token} is too large")
            return int(token)
        if token == "-":
            return -self.atom()
        if token == "(":
            inner = self.expression()
            self.expect(")")
            return inner
        if token in OPERATIONS and self.peek() == "(":
            self.expect("(")
            a = self.expression()
            self.expect(",")
            b = self.expression()
            self.expect(")")
            return self.divided(token, a, b)
        if token.isidentifier():
            return self.scope.factor(token)
        self.position -= 1
        self.fail(f"expected a size, found {token or 'the end'!r}")


def parse_size(text: str, scope: Scope) -> Any:
    """One size."""
    reader = _Reader(text, scope, "the size")
    size = reader.expression()
    if reader.peek():
        reader.fail(f"{reader.peek()!r} is left over")
    return size


# -- scopes ----------------------------------------------------------------------------------------


class SymbolicScope(Scope):
    """Names of sizes that mean the same, with constraints on them.

    Args:
      constraints_str: such as `"a >= 2*b"`, `"mod(b, 8) == 0"`, `"a <= 100"`. The left side of an
        equality is a name or an operation, which the right side replaces.
    Raises:
      ValueError: a constraint is malformed, or contradicts the others.

    >>> scope = SymbolicScope(["a >= b"])
    >>> a, b = symbolic_shape("a, b", scope=scope)
    >>> a + 1 > b
    True
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        super().__init__()
        if isinstance(constraints_str, str):
            fail(
                ValueError,
                f"constraints must be a sequence of texts, got the text {constraints_str!r}",
                "its letters would be taken for constraints",
                f"write [{constraints_str!r}]",
            )
        self.constraints = tuple(constraints_str)
        for text in self.constraints:
            self._add(text)

    def _add(self, text: str) -> None:
        reader = _Reader(text, self, "the constraint")
        left = reader.expression()
        sign = reader.accept(">=", "<=", "==")
        if not sign:
            reader.fail("a constraint has one of >=, <= and ==")
        right = reader.expression()
        if reader.peek():
            reader.fail(f"{reader.peek()!r} is left over")
        if sign == "==":
            self._equate(reader, left, right)
            return
        difference = left - right if sign == ">=" else right - left
        low, high = bounds(difference)
        if high < 0:
            reader.fail("it contradicts the constraints before it, or that sizes are at least 1")
        if low < 0:
            self.inequalities.append(difference)

    def _equate(self, reader: _Reader, left: Any, right: Any) -> None:
        if isinstance(left, SymbolicDim) and len(left.terms) == 1:
            ((monomial, coefficient),) = left.terms.items()
            if coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                self.equal[monomial[0][0]] = right
                return
        if left != right:
            reader.fail("the left side of an equality is a name or one operation")

    def __repr__(self) -> str:
        return f"SymbolicScope({list(self.constraints)})"


# -- shapes ----------------------------------------------------------------------------------------


def is_symbolic_dim(p: Any) -> bool:
    """Whether a size depends on variables.

    >>> [is_symbolic_dim(size) for size in symbolic_shape("b, 3")]
    [True, False]
    """
    return isinstance(p, SymbolicDim)


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """A shape with sizes that are not known yet.

    Args:
      shape_spec: sizes with commas between: numbers, names, and expressions of them; `_` takes
        one size from `like`, a final `...` the rest. None: `like`.
      constraints: what is known of the names; not together with `scope`.
      scope: of shapes that share names; None: a new one.
      like: a shape.
    Raises:
      ValueError: malformed, or other numbers than in `like`.

    >>> b, n = symbolic_shape("b, 2*b + 1")
    >>> n - b
    b + 1
    """
    chosen = _chosen_scope("symbolic_shape", constraints, scope)
    text = "..." if shape_spec is None else shape_spec
    if not isinstance(text, str):
        fail(
            ValueError,
            f"symbolic_shape takes a text, got {text!r}",
            fix="write the shape as in 'b, 3'",
        )
    reader = _Reader(text, chosen, "the symbolic shape")
    closing = reader.tokens[:1] == ["("] and reader.tokens[-1:] == [")"] and _is_tuple(reader)
    if closing:
        reader.tokens = reader.tokens[1:-1]
    sizes: list[Any] = []
    while reader.peek():
        if reader.accept("..."):
            sizes += _from_like(reader, like, len(sizes), None)
            if reader.peek():
                reader.fail("... is last")
            break
        if reader.accept("_"):
            sizes += _from_like(reader, like, len(sizes), 1)
        else:
            sizes.append(reader.expression())
            if type(sizes[-1]) is int and sizes[-1] < 0:
                reader.fail(f"the size {sizes[-1]} is negative")
        if reader.peek():
            reader.expect(",")
    _check_like(reader, sizes, like)
    return tuple(sizes)


def _chosen_scope(
    function: str, constraints: Sequence[str], scope: SymbolicScope | None
) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        fail(
            ValueError,
            f"{function}: both constraints and scope are given",
            "constraints belong to a scope",
            "pass the constraints when you make the scope: SymbolicScope([...])",
        )
    return scope


def _is_tuple(reader: _Reader) -> bool:
    """Whether the first bracket closes at the end: around the shape."""
    depth = 0
    for i, token in enumerate(reader.tokens):
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return i == len(reader.tokens) - 1
    return False


def _from_like(
    reader: _Reader, like: Sequence[int | None] | None, start: int, count: int | None
) -> list[Any]:
    if like is None:
        reader.fail("_ and ... take sizes from `like`, which is not given")
    taken = list(like[start:] if count is None else like[start : start + count])
    if count is not None and len(taken) < count:
        reader.fail(f"`like` has {len(like)} sizes")
    if None in taken:
        reader.fail(f"`like` does not know all sizes: {tuple(like)}")
    return taken


def _check_like(reader: _Reader, sizes: Sequence[Any], like: Sequence[int | None] | None) -> None:
    if like is None:
        return
    if len(sizes) != len(like):
        reader.fail(f"it has {len(sizes)} sizes, and `like` {len(like)}: {tuple(like)}")
    for i, (size, known) in enumerate(zip(sizes, like)):
        if type(size) is int and known is not None and size != known:
            reader.fail(f"size {i} is {size}, and {known} in `like`")


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """ShapeDtypeStructs with symbolic shapes, for arguments like the given ones.

    Args:
      args: pytree of arrays or anything with `.shape` and `.dtype`.
      shapes_specs: text for `symbolic_shape`, None for the shape as it is, or a pytree prefix of
        `args` of those.
      constraints, scope: as for `symbolic_shape`; the names mean the same in all shapes.
    Returns:
      pytree like `args`.

    >>> import pyjax.numpy as jnp
    >>> symbolic_args_specs((jnp.ones((4, 3)), jnp.ones(3)), ("b, ...", None))[0].shape
    (b, 3)
    """
    scope = _chosen_scope("symbolic_args_specs", constraints, scope)
    leaves, tree = tree_flatten(args)
    specs = broadcast_prefix(shapes_specs, args, is_leaf=lambda spec: spec is None)
    structs = []
    for leaf, spec in zip(leaves, specs):
        has_both = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
        known = leaf if has_both else abstractify(leaf)
        shape = symbolic_shape(spec, scope=scope, like=known.shape)
        structs.append(ShapeDtypeStruct(shape, known.dtype))
    return tree_unflatten(tree, structs)
