"""What differs between the lanes of the vector loop that code is being written for."""

from __future__ import annotations

from abc import ABC, abstractmethod

from xla_backend.kernels.index import QUOTIENTS, Index, Parameter, Var
from xla_backend.kernels.ir import Value


class InLanes(ABC):
    """Whoever writes code for some lanes at once.

    Attributes:
      vector_var: the variable that differs between `lanes`; None outside loops in lanes.
    """

    def __init__(self) -> None:
        self.vector_var: Var | None = None
        self.lanes = 1
        self._varies: dict[Index, bool] = {}

    @abstractmethod
    def is_vector(self, value: Value) -> bool:
        """Whether the value is in lanes."""

    def forget_lanes(self) -> None:
        """The vector loop changed: what varies must be asked again."""
        self._varies.clear()

    def varies(self, index: Index) -> bool:
        """Whether the index differs between lanes."""
        if self.vector_var is None:
            return False
        found = self._varies.get(index)
        if found is None:
            found = any(self.atom_varies(a) for a in index.terms)
            self._varies[index] = found
        return found

    def atom_varies(self, atom: object) -> bool:
        """Whether a part of an index does."""
        if isinstance(atom, Var | Parameter):
            return atom is self.vector_var
        if isinstance(atom, Value):
            return self.is_vector(atom)
        assert isinstance(atom, QUOTIENTS)
        return self.varies(atom.index)

    def distance(self, index: Index) -> int | None:
        """How far neighbouring lanes are apart in memory, in elements; None if that differs."""
        var = self.vector_var
        if var is None:
            return 0
        for atom in index.terms:
            if atom is not var and atom.__class__ is not Var and self.atom_varies(atom):
                return None
        return index.coefficient(var)
