"""The bytes of exported programs: structures, formats, and what is refused."""

from __future__ import annotations

import collections
import copy
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import export
from pyjax.export import container, trees


class Pair(NamedTuple):
    first: Any
    second: Any


export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")


@pyjax.tree_util.register_pytree_node_class
class Quantity:
    def __init__(self, value: Any, unit: str) -> None:
        self.value, self.unit = value, unit

    def tree_flatten(self) -> Any:
        return (self.value,), self.unit

    @classmethod
    def tree_unflatten(cls, unit: str, children: Any) -> Quantity:
        return cls(children[0], unit)


export.register_pytree_node_serialization(
    Quantity,
    serialized_name="tests.Quantity",
    serialize_auxdata=lambda unit: unit.encode(),
    deserialize_auxdata=lambda data: data.decode(),
)

STRUCTURES: list[Any] = [
    0,
    None,
    (),
    [],
    {},
    (1, [2, (3,)], {"a": None, "b": {}}),
    {1: 0, 2: (1, 2)},
    {True: 0, False: 1},
    {("a", 1): 0, ("b", 2.5): 1},
    collections.OrderedDict([("z", 1), ("a", 2)]),
    Pair(1, {"x": 2}),
    Quantity(1, "m/s"),
    [Quantity(Pair(None, 1), ""), ((),)],
]


@pytest.mark.parametrize("example", STRUCTURES, ids=lambda x: str(pyjax.tree.structure(x)))
def test_structures_come_back(example: Any) -> None:
    structure = pyjax.tree.structure(example)
    assert trees.tree_from_json(trees.tree_to_json(structure)).exact_key() == structure.exact_key()


def test_structures_of_arguments_and_results() -> None:
    def swapped(p: Pair) -> Pair:
        return Pair(Quantity(p.second, "m"), p.first)

    made = export.export(pyjax.jit(swapped))(Pair(1.0, 2))
    result = export.deserialize(made.serialize()).call(Pair(3.0, 4))
    assert type(result) is Pair
    assert (result.first.value, result.first.unit, result.second) == (4, "m", 3)


def test_children_are_put_together_as_told() -> None:
    class Shifted(Quantity):
        pass

    pyjax.tree_util.register_pytree_node(
        Shifted, lambda q: ((q.value,), q.unit), lambda unit, children: Shifted(*children, unit)
    )
    built = []

    def from_children(unit: str, children: Any) -> Shifted:
        built.append(unit)
        return Shifted(children[0], unit)

    export.register_pytree_node_serialization(
        Shifted,
        serialized_name="tests.Shifted",
        serialize_auxdata=lambda unit: unit.encode(),
        deserialize_auxdata=lambda data: data.decode(),
        from_children=from_children,
    )
    structure = pyjax.tree.structure(Shifted(1, "s"))
    assert trees.tree_from_json(trees.tree_to_json(structure)) == structure
    assert built == ["s"]


def test_registering() -> None:
    with pytest.raises(ValueError, match=r"Pair is already registered .* as 'tests.Pair'"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")
    other = collections.namedtuple("Other", "a b")
    with pytest.raises(ValueError, match=r"'tests.Pair' already stands for Pair"):
        export.register_namedtuple_serialization(other, serialized_name="tests.Pair")
    with pytest.raises(ValueError, match=r"<class 'dict'> is no named tuple"):
        export.register_namedtuple_serialization(dict, serialized_name="tests.dict")
    with pytest.raises(ValueError, match="Random is not registered as a pytree node"):
        export.register_pytree_node_serialization(
            random.Random,
            serialized_name="tests.Random",
            serialize_auxdata=repr,  # type: ignore[arg-type]
            deserialize_auxdata=repr,
        )


def test_types_of_another_process() -> None:
    with pytest.raises(ValueError, match=r"a 'tests.Unknown', which is not registered"):
        trees.tree_from_json(["registered", ["tests.Unknown", ""], [None]])
    with pytest.raises(ValueError, match=r"'tests.Pair' was serialized with the fields \['a'\]"):
        trees.tree_from_json(["registered", ["tests.Pair", "YQ=="], [None]])


# -- damage ----------------------------------------------------------------------------------------


def blob_of(vjp_order: int = 1) -> bytes:
    exported = export.export(pyjax.jit(lambda x, d: jnp.sin(x) * d["k"]))(np.ones(2, "f"), {"k": 2})
    return bytes(exported.serialize(vjp_order))


def test_every_prefix_is_refused() -> None:
    blob = blob_of(0)
    for size in range(len(blob)):
        with pytest.raises(ValueError, match=r"cut off|no serialized program"):
            export.deserialize(blob[:size])
    with pytest.raises(ValueError, match="too long"):
        export.deserialize(blob + b"\0")


def test_every_changed_byte_is_refused() -> None:
    blob = bytearray(blob_of(0))
    for i in range(len(blob)):
        blob[i] ^= 1 << (i % 8)
        with pytest.raises(ValueError, match=r"no serialized|format|cut off|too long|damaged"):
            export.deserialize(blob)
        blob[i] ^= 1 << (i % 8)
    assert export.deserialize(blob).fun_name == "<lambda>"


def test_newer_formats_are_refused() -> None:
    blob = bytearray(blob_of())
    blob[8] = 3
    with pytest.raises(ValueError, match=r"has format 3, and .* reads the formats 1 to 2"):
        export.deserialize(blob)


def test_compressed_format() -> None:
    plain = blob_of()
    option = options.export_ignore_forward_compatibility
    try:
        pyjax.config.update("jax_export_ignore_forward_compatibility", True)
        compressed = blob_of()
    finally:
        pyjax.config.update("jax_export_ignore_forward_compatibility", option.default)
    assert (plain[8], compressed[8]) == (1, 2)
    assert len(compressed) < len(plain)
    modules = [export.deserialize(b).vjp().mlir_module_serialized for b in (plain, compressed)]
    assert modules[0].split(b"loc(")[0] == modules[1].split(b"loc(")[0]


def test_wrong_contents_with_a_right_checksum_are_refused() -> None:
    """Fields of other types, or of another program: nobody gets as far as to run it."""
    records = container.read_records(blob_of())
    names = [*records[0][0]]
    wrong = [
        None,
        7,
        -1,
        "x",
        [],
        ["x"],
        [7],
        [None],
        {},
        [[[2], "float32", 1]],
        [[[-1], "f", False]],
    ]
    for number in range(len(records)):
        for name in names:
            for value in wrong:
                changed = copy.deepcopy(records)
                if changed[number][0][name] == value or (name, value) == ("fun_name", "x"):
                    continue
                changed[number][0][name] = value
                if name == "disabled_safety_checks" and value in ([], ["x"]):
                    continue  # a name that nothing asks for
                if name == "platforms" and value in ([], ["x"]):
                    continue  # calls are refused
                with pytest.raises(ValueError):
                    export.deserialize(container.write_records(changed, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no valid StableHLO program"),
        ("module {", "no valid StableHLO program"),
        ("(" * 10_000, "no valid StableHLO program"),
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }",
            r"takes \(f32\[2\]\) and returns \(f32\[2\]\), but \(f32\[2\], s32\[\]\) and",
        ),
        (
            "func.func @main(%x: tensor<2xf32>, %k: tensor<i32>) -> tensor<3xf32> {"
            "%0 = stablehlo.constant dense<0.0> : tensor<3xf32> return %0 : tensor<3xf32> }",
            r"returns \(f32\[3\]\), but",
        ),
    ],
)
def test_modules_that_are_not_the_program(text: str, message: str) -> None:
    ((header, _),) = container.read_records(blob_of(0))
    with pytest.raises(ValueError, match=message):
        export.deserialize(container.write_records([(header, text)], 1))


def test_unsupported_versions() -> None:
    ((header, text),) = container.read_records(blob_of(0))
    low = export.minimum_supported_calling_convention_version
    high = export.maximum_supported_calling_convention_version
    for version in (low - 1, high + 1):
        header["calling_convention_version"] = version
        with pytest.raises(ValueError, match=rf"version {version}, .* \[{low}\.\.{high}\]"):
            export.deserialize(container.write_records([(header, text)], 1))


def test_compressed_modules_end_where_they_say() -> None:
    (record,) = container.read_records(blob_of(0))
    blob = container.write_records([record], 2)
    assert container.read_records(blob) == [record]
    half = container.write_records([record], 1)
    half[8] = 2
    half[-32:] = container.hashlib.sha256(half[:-32]).digest()
    with pytest.raises(ValueError, match="malformed"):
        container.read_records(half)
