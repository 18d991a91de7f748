"""Rules as users write them, in the tables of the interpreters.

Rules of pyjax's own take and give lists, whatever the primitive. Those that users write for a
primitive of one result take and give values. A `WrittenRule` stands in a `RuleTable` for a rule of
a user, and a `RuleView` is the table as users see it: what they put there comes back as it was,
and a rule of our own as one that they could have written. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.interpreters.rules import RuleTable, Unsupported

Rule = Callable[..., Any]


class WrittenRule:
    """A user's rule as the interpreter calls it."""

    __slots__ = ("primitive", "written")

    def __init__(self, primitive: Primitive, written: Rule) -> None:
        self.primitive = primitive
        self.written = written

    def __call__(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError

    def as_list(self, results: Any) -> list[Any]:
        """What `written` gives for results, as a list."""
        return list(results) if self.primitive.multiple_results else [results]


def as_user_sees(primitive: Primitive, results: Sequence[Any]) -> Any:
    """A list of results as users get them: of a primitive of one result, that."""
    return results if primitive.multiple_results else results[0]


class RuleView(MutableMapping[Primitive, Rule]):
    """The rules of a table, to be read and set by users.

    Args:
      table: what interpreters use.
      kind: how a user's rule stands in it.
      shown: `(primitive, rule of the table) -> rule as users write them`.
      refined: tables whose rules for a primitive say more than this one's: they go when a user sets
        another rule.
    """

    def __init__(
        self,
        table: RuleTable,
        kind: type[WrittenRule],
        shown: Callable[[Primitive, Rule], Rule],
        refined: Sequence[RuleTable] = (),
    ) -> None:
        self._table = table
        self._kind = kind
        self._shown = shown
        self._refined = refined

    def __getitem__(self, primitive: Primitive) -> Rule:
        rule = self._table.get(primitive)
        if rule is None or type(rule) is Unsupported:
            raise KeyError(primitive)
        return rule.written if type(rule) is self._kind else self._shown(primitive, rule)

    def __setitem__(self, primitive: Primitive, rule: Rule) -> None:
        self._table[primitive] = self._kind(primitive, rule)
        self._forget_refined(primitive)

    def __delitem__(self, primitive: Primitive) -> None:
        if primitive not in self._table:
            raise KeyError(primitive)
        self._table.discard(primitive)
        self._forget_refined(primitive)

    def __iter__(self) -> Iterator[Primitive]:
        return (p for p in self._table if type(self._table.get(p)) is not Unsupported)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _forget_refined(self, primitive: Primitive) -> None:
        for table in self._refined:
            table.discard(primitive)
