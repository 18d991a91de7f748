"""dtypes and weak types of results, of every public function with operands of every kind.

What JAX gives is recorded (record.py); JAX is not needed to run this. `make test` looks at every
ninth combination, another ninth for each function; `make test-slow` at all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pytest

import pyjax
from tests.result_types.combinations import Call, calls, types_of
from tests.result_types.known import KNOWN, difference, is_known
from tests.result_types.recorded import load

_STEP = 9


def _by_name() -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in calls():
        found.setdefault(call.name, []).append(call)
    return found


CALLS = _by_name()


def differences(call: Call, step: int) -> Iterator[str]:
    """Combinations whose types are not the recorded ones; those that are known are left out."""
    for bits, entries in load().items():
        wide = bits == "64"
        combinations = call.kinds(wide)
        recorded = entries[call.key].split(" ")
        assert len(recorded) == len(combinations), f"{call.key}: run record.py"
        first = zlib.crc32(call.key.encode()) % step
        for kinds, want in list(zip(combinations, recorded, strict=True))[first::step]:
            if want.startswith("!"):  # what the reference refuses
                continue
            got = types_of(pyjax, call, kinds, wide)
            what = difference(got, want)
            if what and not is_known(call.name, what):
                yield f"{call.key} of {kinds}, {bits} bits: {got}, recorded {want}"


def _check(name: str, step: int) -> None:
    lines = [line for call in CALLS[name] for line in differences(call, step)]
    assert not lines, f"{len(lines)} differ:\n" + "\n".join(lines[:50])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, what", sorted({(name, entry.what) for entry in KNOWN for name in entry.calls})
)
def test_known_differences_are_there(name: str, what: str) -> None:
    found = (
        difference(types_of(pyjax, call, kinds, bits == "64"), want)
        for call in CALLS[name]
        for bits, entries in load().items()
        for kinds, want in zip(call.kinds(bits == "64"), entries[call.key].split(" "), strict=True)
    )
    assert what in found, "nothing differs: remove the name from known.py"


@pytest.mark.parametrize("name", CALLS)
def test_result_types(name: str) -> None:
    _check(name, _STEP)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_all_result_types(name: str) -> None:
    _check(name, 1)
