"""Reading attributes and locations."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from xla_backend.stablehlo.attributes import (
    UNIT,
    UNKNOWN_LOCATION,
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    DialectAttribute,
    EnumAttribute,
    FloatAttribute,
    IntegerAttribute,
    Location,
    OpaqueAttribute,
    SymbolAttribute,
)
from xla_backend.stablehlo.dense_text import (
    dense_array,
    element_dtype,
    float_element,
    read_dense_body,
)
from xla_backend.stablehlo.read_types import TypeReader
from xla_backend.stablehlo.reader import BARE, STRING, unescape
from xla_backend.stablehlo.types import ScalarType, TensorType, Type

_ALIAS_DEFINITION = re.compile(r"^[ \t]*#([A-Za-z_][\w$]*)[ \t]*=(?!=)", re.MULTILINE)
_ALIAS = re.compile(r"#([A-Za-z_][\w$]*)[ \t]*=(?!=)")
_TYPE_ALIAS = re.compile(r"!([A-Za-z_][\w$]*)[ \t]*=(?!=)")
_HASH_NAME = re.compile(r"#([A-Za-z_][\w$.]*)")
_SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*)|"((?:[^"\\\n]|\\.)*)")')
_ARRAY_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,16}|\d{1,20})", re.ASCII)
_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+)")
_ENUM_BODY = re.compile(r"<\s*([a-z_]+)\s+([A-Za-z_][\w]*)\s*>")
_I64 = ScalarType("i64")
_F64 = ScalarType("f64")
# Attributes of the builtin dialect that nothing here looks into.
_KEPT_WORDS = ("affine_map", "affine_set", "opaque", "strided", "distinct", "dense_resource")


class AttributeReader(TypeReader):
    """Reads attributes; knows the module's attribute aliases (`#name = value`), which may stand
    anywhere at the top level, also after their uses."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._alias_at = {m[1]: m.end() for m in _ALIAS_DEFINITION.finditer(text)}
        self._aliases: dict[str, Attribute] = {}
        self._resolving: set[str] = set()
        self._enums: dict[str, EnumAttribute] = {}

    # -- aliases ---------------------------------------------------------------------------------

    def skip_alias_definition(self) -> bool:
        """Past `#name = value` or `!name = type`, if one starts here."""
        match = self.match(_ALIAS)
        if match is not None:
            self._aliases[match[1]] = self.read_attribute()
            return True
        match = self.match(_TYPE_ALIAS)
        if match is None:
            return False
        self.type_aliases[match[1]] = self.read_type()
        return True

    def _alias(self, name: str, start: int) -> Attribute:
        if name in self._aliases:
            return self._aliases[name]
        if name not in self._alias_at:
            known = ", ".join("#" + n for n in list(self._alias_at)[:10]) or "none"
            self.fail(f"no attribute alias '#{name}' is defined (defined: {known})", start)
        if name in self._resolving:
            self.fail(f"the alias '#{name}' refers to itself", start)
        # Chains of calls are as long as the user's stack was deep: no recursion.
        waiting = [name]
        while waiting:
            inner = waiting[-1]
            if inner in self._resolving or inner in self._aliases:
                waiting.pop()
                if inner not in self._aliases:
                    self._define(inner)
                self._resolving.discard(inner)
                continue
            self._resolving.add(inner)
            at = self._alias_at[inner]
            line = self.text[at : self.text.find("\n", at)]
            used = [m[1] for m in _HASH_NAME.finditer(line)]
            waiting += [n for n in used if n in self._alias_at and n not in self._resolving]
        return self._aliases[name]

    def _define(self, name: str) -> None:
        here, self.position = self.position, self._alias_at[name]
        self._aliases[name] = self.read_attribute()
        self.position = here

    # -- attributes ------------------------------------------------------------------------------

    def read_attribute(self) -> Attribute:
        self.enter()
        value = self._read_attribute()
        self.leave()
        return value

    def _read_attribute(self) -> Attribute:
        start = self.skip_space()
        character = self.text[start : start + 1]
        if character == '"':
            return self._string()
        if character == "[":
            return self._array()
        if character == "{":
            return self.read_dictionary()
        if character == "@":
            return self.read_symbol_reference()
        if character == "#":
            return self._dialect_attribute()
        if character.isdigit() or character == "-":
            return self._number()
        if character.isalpha() and not self.at_type():
            return self._word()
        if self.at_type():
            return self.read_type()
        self.fail(f"expected an attribute value, got {self.found()}")

    def _string(self) -> Attribute:
        value = unescape(self.read(STRING, "a string")[1])
        if self.at(":") and not self.at("::"):
            here = self.position
            self.accept(":")
            if not self.at_type():
                self.position = here
                return value
            self.read_type()
        return value

    def _array(self) -> tuple[Attribute, ...]:
        self.expect("[")
        values: list[Attribute] = []
        if self.accept("]"):
            return ()
        while True:
            values.append(self.read_attribute())
            if self.accept("]"):
                return tuple(values)
            self.expect(",", "or ']'")

    def read_dictionary(self) -> dict[str, Attribute]:
        """`{name = value, flag}`."""
        self.expect("{")
        values: dict[str, Attribute] = {}
        if self.accept("}"):
            return values
        while True:
            start = self.skip_space()
            quoted = self.match(STRING)
            name = unescape(quoted[1]) if quoted else self.read(BARE, "an attribute name")[0]
            if name in values:
                self.fail(f"attribute '{name}' is given twice", start)
            values[name] = self.read_attribute() if self.accept("=") else UNIT
            if self.accept("}"):
                return values
            self.expect(",", "or '}'")

    def read_symbol(self) -> str:
        """The name after `@`."""
        match = self.read(_SYMBOL, "a symbol such as @main")
        return match[1] if match[1] is not None else unescape(match[2])

    def read_symbol_reference(self) -> SymbolAttribute:
        path = [self.read_symbol()]
        while self.accept("::"):
            path.append(self.read_symbol())
        return SymbolAttribute(tuple(path))

    def _number(self) -> IntegerAttribute | FloatAttribute:
        start = self.position
        text = self.read(_NUMBER, "a number")[0]
        kind: Type
        if self.at(":") and not self.at("::"):
            self.accept(":")
            kind = self.read_type()
        else:
            kind = _F64 if "." in text else _I64
        if not isinstance(kind, ScalarType):
            self.fail(f"a number of type {kind} is not supported", start)
        if kind.is_float:
            dtype = element_dtype(kind)
            if dtype is None:
                self.fail(f"floats of type {kind} are not supported", start)
            return FloatAttribute(float_element(self, text, dtype, start), kind)
        if "." in text:
            self.fail(f"'{text}' is not an integer, but its type is {kind}", start)
        return IntegerAttribute(int(text, 0) if "x" in text else int(text), kind)

    def _word(self) -> Attribute:
        start = self.position
        word = self.read_word("an attribute value")
        if word in ("true", "false"):
            return word == "true"
        if word == "unit":
            return UNIT
        if word == "dense":
            return self._dense()
        if word == "array":
            return self._typed_array()
        if word == "sparse":
            self.balanced()
            text = self.text[start : self.position]
            self.expect(":")
            tensor = self.read_type()
            assert isinstance(tensor, TensorType)
            return DenseAttribute(np.zeros(0), tensor, text)
        if word == "loc":
            self.position = start
            return self.read_location()
        if word in _KEPT_WORDS:
            return self._kept(start, word)
        self.fail(f"'{word}' is not an attribute value", start)

    def _kept(self, start: int, word: str) -> Attribute:
        self.balanced()
        text = self.text[start : self.position]
        if word == "dense_resource":
            self.expect(":")
            tensor = self.read_type()
            assert isinstance(tensor, TensorType)
            return DenseAttribute(np.zeros(0), tensor, text)
        return OpaqueAttribute(text)

    def _dense(self) -> DenseAttribute:
        self.expect("<")
        body, start = read_dense_body(self)
        self.expect(">")
        self.expect(":", "and the type of the constant")
        tensor = self.read_type()
        if not isinstance(tensor, TensorType):
            self.fail(f"a dense constant has a tensor type, not {tensor}", start)
        return DenseAttribute(dense_array(self, body, tensor, start), tensor)

    def _typed_array(self) -> ArrayAttribute:
        self.expect("<")
        element = self.read_type()
        if not isinstance(element, ScalarType):
            self.fail("array<...> holds integers, booleans or floats")
        values: list[Any] = []
        if self.accept(":"):
            while True:
                values.append(self._array_element(element))
                if not self.accept(","):
                    break
        self.expect(">")
        return ArrayAttribute(element, tuple(values))

    def _array_element(self, element: ScalarType) -> Any:
        if self.accept_word("true"):
            return True
        if self.accept_word("false"):
            return False
        start = self.skip_space()
        text = self.read(_NUMBER, "an element")[0]
        if element.is_float:
            dtype = element_dtype(element)
            if dtype is None:
                self.fail(f"arrays of {element} are not supported", start)
            return float_element(self, text, dtype, start)
        if not _ARRAY_INTEGER.fullmatch(text):
            self.fail(f"expected an integer of type {element}", start)
        value = int(text, 0) if "x" in text else int(text)
        return bool(value) if element.name == "i1" else value

    # -- attributes of dialects ------------------------------------------------------------------

    def _dialect_attribute(self) -> Attribute:
        start = self.position
        name = self.read(_HASH_NAME, "an attribute name after '#'")[1]
        if "." not in name and name in self._alias_at:
            return self._alias(name, start)
        if not self.at("<"):
            if "." not in name:
                return self._alias(name, start)
            return DialectAttribute(name, None)
        enum = _ENUM_BODY.match(self.text, self.position)
        if enum is not None and "." not in name:
            self.position = enum.end()
            return EnumAttribute(name, enum[1], enum[2])
        return DialectAttribute(name, self.balanced()[1:-1])

    # -- locations -------------------------------------------------------------------------------

    def read_optional_location(self) -> Location:
        """`loc(...)` if it is here."""
        if self.at_word("loc"):
            return self.read_location()
        return UNKNOWN_LOCATION

    def read_location(self) -> Location:
        self.expect_word("loc")
        self.expect("(")
        location = self._location()
        self.expect(")")
        return location

    def _location(self) -> Location:
        self.enter()
        location = self._location_body()
        self.leave()
        return location

    def _location_body(self) -> Location:
        start = self.skip_space()
        if self.at("#"):
            name = self.read(_HASH_NAME, "a location alias")[1]
            value = self._alias(name, start)
            if not isinstance(value, Location):
                self.fail(f"'#{name}' is not a location", start)
            return value
        if self.at('"'):
            return self._named_location()
        if self.accept_word("unknown"):
            return UNKNOWN_LOCATION
        if self.accept_word("loc"):
            self.position = start
            return self.read_location()
        if self.accept_word("callsite"):
            self.expect("(")
            callee = self._location()
            self.expect_word("at")
            caller = self._location()
            self.expect(")")
            return Location(child=callee, caller=caller)
        if self.accept_word("fused"):
            if self.at("<"):
                self.balanced()
            return Location(fused=self._fused())
        self.fail(f"expected a location, got {self.found()}")

    def _fused(self) -> tuple[Location, ...]:
        self.expect("[")
        members: list[Location] = []
        if not self.accept("]"):
            while True:
                members.append(self._location())
                if self.accept("]"):
                    break
                self.expect(",", "or ']'")
        return tuple(members)

    def _named_location(self) -> Location:
        name = self.read_string()
        if self.accept(":"):
            line = self.read_integer("a line number")
            self.expect(":")
            column = self.read_integer("a column number")
            end_line = end_column = 0
            if self.accept_word("to"):
                end_line = line if self.at(":") else self.read_integer("a line number")
                self.expect(":")
                end_column = self.read_integer("a column number")
            return Location(
                file=name, line=line, column=column, end_line=end_line, end_column=end_column
            )
        if self.accept("("):
            child = self._location()
            self.expect(")")
            return Location(name=name, child=child)
        return Location(name=name)
