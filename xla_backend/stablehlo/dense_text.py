"""Dense constants as text, both ways: `dense<[[1, 2], [3, 4]]>`, splats, hexadecimal bits, blobs.

Floats are written as MLIR writes them: six digits if those read back to the same bits, else as many
as the type needs, else the bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from xla_backend.hlo.types import PrimitiveType
from xla_backend.stablehlo.reader import Reader
from xla_backend.stablehlo.types import (
    ELEMENT_TYPES,
    ComplexType,
    QuantizedType,
    ScalarType,
    TensorType,
    Type,
)

P = PrimitiveType
_HEX_ABOVE = 100  # MLIR writes more elements than this as one blob
_ELEMENT = re.compile(
    r"(?:true|false)\b|-?(?:0x[0-9A-Fa-f]+|\d+\.\d*(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?)"
)
_BLOB = re.compile(r'"0x([0-9A-Fa-f]*)"')
_INDEX = np.dtype(np.int64)
# A few characters of text must not stand for more memory than this.
_MAX_CONSTANT_BYTES = 1 << 30


def element_dtype(element: Type) -> np.dtype | None:
    """NumPy type of a tensor's elements; None if there is none."""
    if isinstance(element, ComplexType):
        return np.dtype(np.complex64 if element.element.name == "f32" else np.complex128)
    if isinstance(element, QuantizedType):
        return element_dtype(element.storage)
    if isinstance(element, ScalarType):
        if element.name == "index":
            return _INDEX
        kind = ELEMENT_TYPES.get(element.name.removeprefix("s"))
        return None if kind is None else kind.numpy_dtype
    return None


# -- writing ---------------------------------------------------------------------------------------


def _bits(value: Any) -> int:
    array = np.asarray(value)
    return int(array.view(f"u{array.dtype.itemsize}").item())


def _digits(value: float, count: int) -> tuple[str, int]:
    """At most `count` significant digits without trailing zeros, and the exponent of the last one.

    The steps are those of LLVM's printer: excess digits are first cut off, as many as are sure to
    leave `count`, then the rest is rounded half up. So 0.01f has the six digits 999999, not 1.
    """
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = 1 - denominator.bit_length()  # the denominator is a power of two
    number = numerator * 5**-exponent
    surplus = number.bit_length() - (count * 196 + 58) // 59
    removed = surplus * 59 // 196 if surplus > 0 else 0
    number //= 10**removed
    exponent += removed
    text = str(number)
    if len(text) > count:
        cut = len(text) - count
        number = (number + 5 * 10 ** (cut - 1)) // 10**cut
        exponent += cut
        text = str(number)
    stripped = text.rstrip("0") or "0"
    return stripped, exponent + len(text) - len(stripped)


def _scientific(value: float) -> str:
    """Six digits, as in 1.000000e+00."""
    digits, exponent = _digits(value, 6) if value else ("0", 0)
    exponent += len(digits) - 1
    sign = "-" if math.copysign(1, value) < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:]:0<6}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _all_digits(value: float, mantissa: int) -> str | None:
    """As many digits as always suffice for so many mantissa bits; None if that needs no point."""
    count = 2 + mantissa * 59 // 196
    digits, exponent = _digits(value, count)
    sign = "-" if math.copysign(1, value) < 0 else ""
    top = exponent + len(digits) - 1
    scientific = f"{sign}{digits[0]}.{digits[1:] or '0'}E"
    if exponent >= 0:
        wide = exponent > 3 or len(digits) + exponent > count
        return f"{scientific}+{top}" if wide else None
    if top >= 0:
        return f"{sign}{digits[: top + 1]}.{digits[top + 1 :]}"
    if -top > 3:
        return f"{scientific}{top}"
    return f"{sign}0.{'0' * (-top - 1)}{digits}"


def float_text(value: Any) -> str:
    """One float (a NumPy scalar): decimal if that gives the same bits, else `0x7FC00000`."""
    array = np.asarray(value)
    dtype = array.dtype
    wide = float(array)
    if math.isfinite(wide):
        short = _scientific(wide)
        if _bits(np.asarray(float(short)).astype(dtype)) == _bits(array):
            return short
        long = _all_digits(wide, int(ml_dtypes.finfo(dtype).nmant) + 1)
        if long is not None:
            return long
    return f"0x{_bits(array):0{dtype.itemsize * 2}X}"


def _writer(dtype: np.dtype) -> Callable[[Any], str]:
    if dtype.kind == "O":  # sizes that are written in their own way
        return str
    if dtype == np.bool_:
        return lambda v: "true" if v else "false"
    if dtype.kind in "iu" or dtype in (ml_dtypes.int2, ml_dtypes.int4):
        return lambda v: str(int(v))
    if dtype in (ml_dtypes.uint2, ml_dtypes.uint4):
        return lambda v: str(int(v))
    if dtype.kind == "c":
        return lambda v: f"({float_text(v.real)},{float_text(v.imag)})"
    return float_text


def is_splat(array: np.ndarray) -> bool:
    """All elements (at least one) have the same bits."""
    if array.size == 0 or array.dtype.kind == "O":
        return False
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw == raw[0]).all())


def dense_body(array: np.ndarray) -> str:
    """What stands between the angle brackets of `dense<...>`."""
    if array.size == 0:
        return ""
    write = _writer(array.dtype)
    if is_splat(array):
        return write(array.reshape(-1)[0])
    if array.size > _HEX_ABOVE:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        return f'"0x{np.ascontiguousarray(little).tobytes().hex().upper()}"'
    return _nested(array, write)


def _nested(array: np.ndarray, write: Callable[[Any], str]) -> str:
    if array.ndim == 0:
        return write(array[()])
    return "[" + ", ".join(_nested(array[i, ...], write) for i in range(len(array))) + "]"


# -- reading ---------------------------------------------------------------------------------------


def read_dense_body(reader: Reader) -> tuple[Any, int]:
    """The body as text pieces (nested lists, or bytes of a blob) and where it starts: the type that
    tells what they mean comes later in the text."""
    start = reader.skip_space()
    blob = reader.match(_BLOB)
    if blob is not None:
        if len(blob[1]) % 2:
            reader.fail("a blob has two hexadecimal digits a byte", start)
        return bytes.fromhex(blob[1]), start
    if reader.at(">"):
        return [], start
    return _read_nested(reader), start


def _read_nested(reader: Reader) -> Any:
    if reader.accept("["):
        reader.enter()
        members: list[Any] = []
        if not reader.accept("]"):
            while True:
                members.append(_read_nested(reader))
                if reader.accept("]"):
                    break
                reader.expect(",", "or ']'")
        reader.leave()
        return members
    if reader.accept("("):
        real = reader.read(_ELEMENT, "the real part")[0]
        reader.expect(",")
        imaginary = reader.read(_ELEMENT, "the imaginary part")[0]
        reader.expect(")")
        return real, imaginary
    return reader.read(_ELEMENT, "a number, 'true' or 'false'")[0]


def dense_array(reader: Reader, body: Any, tensor: TensorType, start: int) -> np.ndarray:
    """The array a body of `dense<...>` stands for.

    Raises:
      ParseError: number or nesting of elements, or one of them, does not fit the type.
    """
    if not tensor.is_static:
        reader.fail(f"a constant needs a static shape, got {tensor}", start)
    dtype = element_dtype(tensor.element)
    if dtype is None:
        reader.fail(f"constants of type {tensor} are not supported", start)
    dimensions = tuple(d or 0 for d in tensor.dimensions or ())
    count = math.prod(dimensions)
    if count * dtype.itemsize > _MAX_CONSTANT_BYTES and not isinstance(body, list):
        reader.fail(
            f"a constant of type {tensor} has {count * dtype.itemsize} bytes, more than "
            f"{_MAX_CONSTANT_BYTES}: broadcast a scalar instead",
            start,
        )
    if isinstance(body, bytes):
        return _from_blob(reader, body, dtype, dimensions, start)
    flat: list[Any] = []
    shape = _collect(reader, body, flat, start)
    convert = _converter(reader, tensor.element, dtype, start)
    values = np.array([convert(item) for item in flat], dtype=dtype)
    if not isinstance(body, list):
        return np.full(dimensions, values[0], dtype)
    if values.size != count or (shape != dimensions and count):
        reader.fail(f"elements of shape {list(shape)} do not fit {tensor}", start)
    return values.reshape(dimensions)


def _from_blob(
    reader: Reader, blob: bytes, dtype: np.dtype, dimensions: tuple[int, ...], start: int
) -> np.ndarray:
    count = math.prod(dimensions)
    size = dtype.itemsize
    if len(blob) == size * count:
        flat = np.frombuffer(blob, np.uint8).copy()
    elif len(blob) == size:
        flat = np.tile(np.frombuffer(blob, np.uint8), count)
    else:
        reader.fail(f"the blob has {len(blob)} bytes, the type needs {size * count}", start)
    if dtype == np.bool_:
        return (flat != 0).reshape(dimensions)
    return flat.view(dtype).reshape(dimensions)


def _collect(reader: Reader, node: Any, flat: list[Any], start: int) -> tuple[int, ...]:
    if not isinstance(node, list):
        flat.append(node)
        return ()
    shapes = {_collect(reader, member, flat, start) for member in node}
    if len(shapes) > 1:
        reader.fail("the nested lists have different lengths", start)
    return (len(node), *(shapes.pop() if shapes else ()))


def _converter(reader: Reader, element: Type, dtype: np.dtype, start: int) -> Callable[[Any], Any]:
    if isinstance(element, ComplexType):
        part = _converter(reader, element.element, np.dtype(f"f{dtype.itemsize // 2}"), start)

        def pair(item: Any) -> Any:
            real, imaginary = item if isinstance(item, tuple) else (item, "0.0")
            both = np.array([part(real), part(imaginary)])
            return both.view(dtype)[0]

        return pair
    scalar = element.storage if isinstance(element, QuantizedType) else element
    assert isinstance(scalar, ScalarType)
    if scalar.is_float:
        return lambda item: float_element(reader, item, dtype, start)
    return lambda item: _integer_element(reader, item, scalar, start)


def float_element(reader: Reader, item: Any, dtype: np.dtype, start: int) -> Any:
    """A float of `dtype` from its text: decimal, or bits."""
    if not isinstance(item, str) or item in ("true", "false"):
        reader.fail("expected a number", start)
    if "x" in item:
        bits = int(item.removeprefix("-"), 16)
        if bits >> (dtype.itemsize * 8):
            reader.fail(f"{item} has more bits than the type", start)
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    if "." not in item and "e" not in item.lower():
        reader.fail(f"'{item}' is an integer; write '{item}.0' in a constant of floats", start)
    with np.errstate(all="ignore"):
        return np.asarray(float(item)).astype(dtype)[()]


def _integer_element(reader: Reader, item: Any, scalar: ScalarType, start: int) -> Any:
    if item == "true":
        return 1
    if item == "false":
        return 0
    if not isinstance(item, str) or "." in item or ("e" in item.lower() and "x" not in item):
        reader.fail(f"expected an integer for {scalar}", start)
    value = int(item, 0) if "x" in item else int(item)
    bits = 64 if scalar.name == "index" else int(re.sub(r"\D", "", scalar.name))
    unsigned = scalar.name.startswith("u")
    if not (0 if unsigned else -(1 << (bits - 1))) <= value < 1 << bits:
        reader.fail(f"{item} is out of range for {scalar}", start)
    if value >= 1 << (bits - 1) and not unsigned and bits > 1:
        value -= 1 << bits  # i8 255 is written for -1
    return value
