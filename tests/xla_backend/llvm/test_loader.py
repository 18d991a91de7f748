"""Objects put into memory without LLVM: every kind of reference, what becomes of the memory, and
that LLVM's linker gives the same."""

import ctypes
import gc
import os
import subprocess
import sys

import pytest

from xla_backend.llvm import jit, lljit
from xla_backend.llvm.elf import ElfObject, object_symbols
from xla_backend.llvm.loader import can_load
from xla_backend.llvm.objects import compile_object
from xla_backend.llvm.target import host_target

pytestmark = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and host_target().is_x86), reason="written for ELF on x86"
)

# A constant with an address in it, a variable that is zero at first, one that is not, a function of
# another object, one of the C library, a vector constant, and one that is known here only.
TEXT = """
@table = constant [2 x ptr] [ptr @hidden, ptr @counter]
@counter = global i64 0
@start = global i64 40
declare i64 @other(i64)
declare i64 @labs(i64)

define internal i64 @hidden(i64 %x) noinline {
  %r = mul i64 %x, 3
  ret i64 %r
}

define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  %base = load i64, ptr @start
  %sum = add i64 %base, %new
  ret i64 %sum
}

define i64 @call(i64 %x) {
  %f = load volatile ptr, ptr @table
  %a = call i64 %f(i64 %x)
  %b = call i64 @other(i64 %a)
  %c = call i64 @labs(i64 %b)
  ret i64 %c
}

define void @fill(ptr %out) {
  store <16 x float> <float 0.0, float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0,
    float 7.0, float 8.0, float 9.0, float 10.0, float 11.0, float 12.0, float 13.0, float 14.0,
    float 15.0>, ptr %out, align 4
  ret void
}
"""
OTHER = "define i64 @other(i64 %x) {\n  %r = sub i64 1, %x\n  ret i64 %r\n}"
SIMPLE = "define i32 @f() {\n  ret i32 7\n}"


def compiled(*texts):
    return [compile_object(text, host_target()) for text in texts]


@pytest.mark.parametrize("loaded", [True, False], ids=["loader", "LLVM"])
def test_references(loaded, monkeypatch):
    objects = compiled(TEXT, OTHER)
    assert can_load([ElfObject(code) for code in objects])
    if not loaded:
        monkeypatch.setattr(jit, "can_load", lambda objects: False)
    library = jit.Library(objects)
    assert isinstance(library._code, lljit.LinkedCode) is not loaded
    count = library.function("count", ctypes.c_int64)
    call = library.function("call", ctypes.c_int64, ctypes.c_int64)
    assert [count(), count(), call(5), call(-5)] == [41, 42, 14, 16]
    numbers = (ctypes.c_float * 16)()
    library.function("fill", None, ctypes.c_void_p)(numbers)
    assert list(numbers) == list(range(16))


def test_addresses_of_others_are_bound():
    (other,) = compiled(OTHER)
    provider = jit.Library(other)
    user = jit.Library(compiled(TEXT), {"other": provider.address("other")})
    call = user.function("call", ctypes.c_int64, ctypes.c_int64)
    del provider, user
    gc.collect()
    assert call(5) == 14


def mapped(address):
    with open("/proc/self/maps") as file:
        ranges = [line.split()[:2] for line in file]
    for area, rights in ranges:
        low, high = (int(end, 16) for end in area.split("-"))
        if low <= address < high:
            return rights
    return None


def test_code_cannot_be_written_and_variables_cannot_run():
    library = jit.Library(compiled(TEXT, OTHER))
    code, variable = library.address("count"), library.address("counter")
    assert mapped(code) == "r-xp" and mapped(variable) == "rw-p"


def test_memory_goes_with_the_last_reference():
    library = jit.Library(compiled(SIMPLE))
    function, address = library.function("f", ctypes.c_int32), int(library.address("f"))
    del library
    gc.collect()
    assert function() == 7
    del function
    gc.collect()
    assert mapped(address) is None
    library = jit.Library(compiled(SIMPLE))
    library.itself, address = library, int(library.address("f"))
    del library
    gc.collect()
    assert mapped(address) is None


def test_a_forked_child_has_variables_of_its_own():
    library = jit.Library(compiled(TEXT, OTHER))
    count = library.function("count", ctypes.c_int64)
    assert count() == 41
    child = os.fork()
    if not child:
        os._exit(count() - 42)
    assert os.waitpid(child, 0)[1] == 0
    assert count() == 42


def test_llvm_links_what_the_loader_does_not_know():
    text = "@own = thread_local global i32 5\ndefine i32 @f() {\n  ret i32 7\n}"
    (code,) = compiled(text)
    assert not can_load([ElfObject(code)])
    position_independent = compile_object(TEXT, host_target(), jit=False)
    assert not can_load([ElfObject(position_independent)])


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(200)])
def test_other_formats_are_refused(damage):
    with pytest.raises(NotImplementedError, match="only ELF"):
        object_symbols(damage)


def test_threads_inside_of_code_when_the_process_ends():
    program = """
import ctypes, threading, time
from xla_backend.llvm import jit
text = '''
declare i32 @usleep(i32)
define i32 @f() {
  br label %again
again:
  %r = call i32 @usleep(i32 100)
  br label %again
}'''
library = jit.compile_library(text)
threading.Thread(target=library.function("f", ctypes.c_int32), daemon=True).start()
time.sleep(0.05)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
