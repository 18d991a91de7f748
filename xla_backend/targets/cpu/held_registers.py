"""An array that is a value of the function that is written: a vector, or single elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xla_backend.llvm.types import const, element, lanes
from xla_backend.llvm.writer import FunctionWriter


class Contents(NamedTuple):
    """What a register holds at one place of the code: a vector, the elements that are known by
    themselves, and which of these the vector lacks."""

    vector: str
    elements: Mapping[int, str]
    lacking: frozenset[int]


class Register:
    """An array of `size` elements, in the first lanes of a vector of `type`.

    Elements that are stored one by one stay values of their own until somebody asks for a vector:
    in one they would all wait for the last.
    """

    def __init__(self, type: str, size: int) -> None:
        self.type = type
        self.size = size
        self.contents = Contents("", {}, frozenset())
        # Zeros where nothing is known: what is computed of no value at all may be anything.
        self.set_vector(const(type, 0))

    def set_vector(self, text: str) -> None:
        self.contents = Contents(text, {}, frozenset())

    def vector(self, w: FunctionWriter) -> str:
        text, elements, lacking = self.contents
        if lacking:
            if len(elements) == self.size:
                text, lacking = const(self.type, 0), frozenset(elements)
            for number in sorted(lacking):
                text = w.insert(self.type, text, elements[number], number)
            self.contents = Contents(text, elements, frozenset())
        return text

    def set_element(self, number: int, text: str) -> None:
        if lanes(self.type) == 1:
            self.set_vector(text)
            return
        vector, elements, lacking = self.contents
        self.contents = Contents(vector, {**elements, number: text}, lacking | {number})

    def element(self, w: FunctionWriter, number: int) -> str:
        known = self.contents.elements.get(number)
        return known or w.extract(self.type, self.contents.vector, number)

    # -- handed on ---------------------------------------------------------------------------------

    def types(self, apart: bool) -> list[str]:
        """The types of what is handed on: a vector, or elements `apart`."""
        return [element(self.type)] * self.size if apart else [self.type]

    def texts(self, w: FunctionWriter, apart: bool) -> list[str]:
        return [self.element(w, i) for i in range(self.size)] if apart else [self.vector(w)]

    def take(self, texts: list[str], apart: bool) -> None:
        """Hold what was handed on."""
        if not apart:
            self.set_vector(texts[0])
            return
        for number, text in enumerate(texts):
            self.set_element(number, text)
