"""Reading types."""

from __future__ import annotations

import re

from xla_backend.stablehlo.reader import Reader
from xla_backend.stablehlo.types import (
    TOKEN,
    ComplexType,
    FunctionType,
    FutureType,
    OpaqueType,
    QuantizedType,
    ScalarType,
    TensorType,
    TupleType,
    Type,
)

_SCALAR = re.compile(
    r"(?:[su]?i\d+|bf16|tf32|f\d+(?:E\d+M\d+(?:FN)?(?:B11)?(?:FN)?U?Z?)?|index|none)\b"
)
_DIMENSION = re.compile(r"(\d+|\?)x")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([su]?i\d+|b?f\d+)>")
_QUANTIZED = re.compile(r"!quant\.uniform\s*<")
_DIALECT_TYPE = re.compile(r"!([A-Za-z_][\w$.]*)")
_FLOAT = re.compile(r"-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?)")
_BOUND = re.compile(r"\?|\d+")
_ENCODING = re.compile(r"#([A-Za-z_][\w$.]*)")

# Integers that quantized values are stored as.
_STORAGE = re.compile(r"(?:[su]?i)(2|4|8|16|32|64)")


class TypeReader(Reader):
    """Reads types; knows the module's type aliases (`!name = type`)."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.type_aliases: dict[str, Type] = {}
        self._tensors: dict[str, TensorType] = {}  # simple tensor types read so far, by text

    def at_type(self) -> bool:
        """Could a type start here?"""
        position = self.skip_space()
        rest = self.text[position : position + 8]
        return (
            rest.startswith(("tensor<", "tuple<", "complex<", "!", "("))
            or _SCALAR.match(self.text, position) is not None
        )

    def read_type(self) -> Type:
        position = self.skip_space()
        match = _TENSOR.match(self.text, position)
        if match is not None:
            self.position = match.end()
            found = self._tensors.get(match[0])
            if found is None:
                sizes = tuple(int(d) for d in match[1].split("x") if d)
                found = self._tensors[match[0]] = TensorType(sizes, ScalarType(match[2]))
            return found
        self.enter()
        result = self._read_type(position)
        self.leave()
        return result

    def _read_type(self, position: int) -> Type:
        if self.accept("tensor"):
            return self._tensor()
        if self.accept("("):
            self.position = position
            return self.read_function_type()
        if self.accept("!"):
            self.position = position
            return self._dialect_type()
        if self.accept_word("tuple"):
            self.expect("<")
            return TupleType(self._members(">"))
        if self.accept_word("complex"):
            self.expect("<")
            element = self._scalar()
            self.expect(">")
            return ComplexType(element)
        return self._scalar()

    def _scalar(self) -> ScalarType:
        return ScalarType(self.read(_SCALAR, "a type such as tensor<2x3xf32>")[0])

    def _members(self, closing: str) -> tuple[Type, ...]:
        if self.accept(closing):
            return ()
        members = [self.read_type()]
        while self.accept(","):
            members.append(self.read_type())
        self.expect(closing, "or ','")
        return tuple(members)

    def read_function_type(self) -> FunctionType:
        """`(a, b) -> c` or `(a) -> (b, c)`."""
        self.expect("(", "before the operand types")
        inputs = self._members(")")
        self.expect("->")
        if self.accept("("):
            return FunctionType(inputs, self._members(")"))
        return FunctionType(inputs, (self.read_type(),))

    # -- tensors ---------------------------------------------------------------------------------

    def _tensor(self) -> TensorType:
        self.expect("<")
        dimensions: tuple[int | None, ...] | None
        if self.accept("*x"):
            dimensions = None
        else:
            sizes: list[int | None] = []
            self.skip_space()
            while (match := _DIMENSION.match(self.text, self.position)) is not None:
                sizes.append(None if match[1] == "?" else int(match[1]))
                self.position = match.end()
            dimensions = tuple(sizes)
        element = self.read_type()
        bounds: tuple[int | None, ...] = ()
        encoding = ""
        if self.accept(","):
            bounds, encoding = self._encoding(dimensions or ())
        self.expect(">")
        return TensorType(dimensions, element, bounds, encoding)

    def _encoding(self, dimensions: tuple[int | None, ...]) -> tuple[tuple[int | None, ...], str]:
        start = self.skip_space()
        name = self.read(_ENCODING, "an encoding such as #stablehlo.bounds<?, 4>")[1]
        if name not in ("stablehlo.bounds", "mhlo.type_extensions", "stablehlo.type_extensions"):
            if self.at("<"):
                self.balanced()
            return (), self.text[start : self.position]
        self.expect("<")
        listed = self.accept("bounds")
        if listed:
            self.expect("=")
            self.expect("[")
        bounds: list[int | None] = []
        while True:
            text = self.read(_BOUND, "a bound or '?'")[0]
            bounds.append(None if text == "?" else int(text))
            if not self.accept(","):
                break
        if listed:
            self.expect("]")
        self.expect(">")
        if len(bounds) != len(dimensions):
            self.fail(f"{len(bounds)} bounds for {len(dimensions)} dimensions", start)
        for size, bound in zip(dimensions, bounds):
            if size is not None and bound is not None:
                self.fail("a dimension of known size cannot have a bound: write '?'", start)
        return tuple(bounds), ""

    # -- types of dialects -----------------------------------------------------------------------

    def _dialect_type(self) -> Type:
        start = self.position
        if _QUANTIZED.match(self.text, start):
            return self._quantized()
        name = self.read(_DIALECT_TYPE, "a type name after '!'")[1]
        if name in ("stablehlo.token", "mhlo.token"):
            return TOKEN
        if name == "stablehlo.future":
            self.expect("<")
            return FutureType(self._members(">"))
        alias = self.type_aliases.get(name)
        if alias is not None:
            return alias
        if "." not in name:
            known = ", ".join("!" + n for n in self.type_aliases) or "none"
            self.fail(f"no type alias '!{name}' is defined before (known: {known})", start)
        if self.at("<"):
            self.balanced()
        return OpaqueType(self.text[start : self.position])

    def _quantized(self) -> QuantizedType:
        start = self.position
        self.position = self.read(_QUANTIZED, "!quant.uniform<").end()
        storage = self._scalar()
        digits = _STORAGE.fullmatch(storage.name)
        if digits is None:
            self.fail(f"quantized values are stored as integers (i8), not {storage.name}", start)
        bits = int(digits[1])
        unsigned = storage.name.startswith("u")
        low = 0 if unsigned else -(1 << (bits - 1))
        high = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
        if self.accept("<"):
            low = self.read_integer()
            self.expect(":")
            high = self.read_integer()
            self.expect(">")
        self.expect(":")
        expressed = self._scalar()
        axis = None
        if self.accept(":"):
            axis = self.read_integer()
        self.expect(",")
        pairs = self._scales()
        self.expect(">")
        if axis is None and len(pairs) != 1:
            self.fail("several scales need an axis: !quant.uniform<i8:f32:1, {...}>", start)
        return QuantizedType(
            storage,
            expressed,
            axis,
            tuple(scale for scale, _ in pairs),
            tuple(zero for _, zero in pairs),
            low,
            high,
            self.text[start : self.position],
        )

    def _scales(self) -> list[tuple[float, int]]:
        if not self.accept("{"):
            return [self._scale()]
        pairs = [self._scale()]
        while self.accept(","):
            pairs.append(self._scale())
        self.expect("}")
        return pairs

    def _scale(self) -> tuple[float, int]:
        scale = float(self.read(_FLOAT, "a scale")[0])
        return scale, self.read_integer("a zero point") if self.accept(":") else 0
