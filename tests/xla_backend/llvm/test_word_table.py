"""Tables of words as object code."""

from __future__ import annotations

import ctypes
import sys

import pytest

from xla_backend.llvm.elf import ElfObject
from xla_backend.llvm.jit import Library, UnresolvedSymbolError
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target
from xla_backend.llvm.word_table import WordTable

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and host_target().is_x86), reason="written for ELF on x86"
)

READS = """
@second = external global i64
define i64 @read() {
  %word = load i64, ptr @second
  ret i64 %word
}
"""


def table() -> WordTable:
    words = [5, 0, 0, 2**64 - 1]
    references = [(1, "outside", 3), (2, None, 32)]
    return WordTable(words, references, b"constant", {"first": 0, "second": 8})


@pytest.mark.parametrize("form", ["as it is", "as an object file"])
def test_words_and_addresses(form: str) -> None:
    made = table()
    library = Library([made if form == "as it is" else made.data], {"outside": 1000})
    first = library.address("first")
    assert library.address("second") == first + 8
    words = (ctypes.c_uint64 * 4).from_address(first)
    assert [*words] == [5, 1003, first + 32, 2**64 - 1]
    assert ctypes.string_at(words[2], 8) == b"constant"
    words[0] = 6  # it may be written


def test_with_code_that_refers_to_it() -> None:
    code = compile_object(READS, host_target())
    library = Library([ElfObject(code), table()], {"outside": 40})
    assert library.function("read", ctypes.c_int64)() == 43


def test_names_and_size() -> None:
    made = table()
    assert made.names() == (["first", "second"], ["outside"])
    assert ElfObject(made.data).names() == made.names()
    assert len(made) == 40
    with pytest.raises(UnresolvedSymbolError, match="outside"):
        Library([made])
