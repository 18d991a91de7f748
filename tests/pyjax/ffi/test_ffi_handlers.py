"""Handlers in C, compiled here and run in a process of their own: what goes wrong in one would take
the tests with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyjax import ffi

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

HANDLERS = r"""
#include "xla/ffi/api/c_api.h"
#include <string.h>

static XLA_FFI_Error* failure(XLA_FFI_CallFrame* f, const char* message) {
  XLA_FFI_Error_Create_Args a = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, message,
                                 XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return f->api->XLA_FFI_Error_Create(&a);
}

/* y = by[0] x + offset; attributes come sorted: by, inner {offset}, label */
XLA_FFI_Error* affine(XLA_FFI_CallFrame* f) {
  XLA_FFI_Buffer* x = f->args.args[0];
  XLA_FFI_Buffer* y = f->rets.rets[0];
  if (f->api->api_version.major_version != XLA_FFI_API_MAJOR) return failure(f, "version");
  if (x->dtype != XLA_FFI_DataType_F32) return failure(f, "float32 is wanted");
  if (f->attrs.size != 3 || f->attrs.types[0] != XLA_FFI_AttrType_ARRAY ||
      f->attrs.types[1] != XLA_FFI_AttrType_DICTIONARY ||
      f->attrs.types[2] != XLA_FFI_AttrType_STRING)
    return failure(f, "attributes");
  XLA_FFI_Array* by = f->attrs.attrs[0];
  XLA_FFI_Attrs* inner = f->attrs.attrs[1];
  XLA_FFI_ByteSpan* label = f->attrs.attrs[2];
  if (label->len != 2 || memcmp(label->ptr, "ab", 2)) return failure(f, "label");
  if (by->dtype != XLA_FFI_DataType_F64 || by->size != 2) return failure(f, "by");
  int64_t offset = *(int64_t*)((XLA_FFI_Scalar*)inner->attrs[0])->value;
  int64_t n = 1;
  for (int64_t i = 0; i < x->rank; ++i) n *= x->dims[i];
  for (int64_t i = 0; i < n; ++i)
    ((float*)y->data)[i] = (float)((double*)by->data)[0] * ((float*)x->data)[i] + offset;
  return NULL;
}

/* In place: nothing is read from the results. */
XLA_FFI_Error* negate(XLA_FFI_CallFrame* f) {
  XLA_FFI_Buffer* x = f->args.args[0];
  for (int64_t i = 0; i < x->dims[0]; ++i) ((float*)x->data)[i] = -((float*)x->data)[i];
  return x->data == ((XLA_FFI_Buffer*)f->rets.rets[0])->data ? NULL : failure(f, "no alias");
}

static int instantiated = 0;
static int64_t counter[1];
static XLA_FFI_TypeId state_type = {0};

XLA_FFI_Error* start(XLA_FFI_CallFrame* f) {
  ++instantiated;
  XLA_FFI_State_Set_Args a = {XLA_FFI_State_Set_Args_STRUCT_SIZE, NULL, f->ctx,
                              XLA_FFI_ExecutionStage_INSTANTIATE, &state_type, counter};
  return f->api->XLA_FFI_State_Set(&a);
}

/* The number of this call, that of instantiations, and what the context knows. */
XLA_FFI_Error* count(XLA_FFI_CallFrame* f) {
  XLA_FFI_State_Get_Args a = {XLA_FFI_State_Get_Args_STRUCT_SIZE, NULL, f->ctx,
                              XLA_FFI_ExecutionStage_INSTANTIATE, &state_type, NULL};
  XLA_FFI_Error* error = f->api->XLA_FFI_State_Get(&a);
  if (error) return error;
  int64_t* found = a.state;
  XLA_FFI_RunId_Get_Args run = {XLA_FFI_RunId_Get_Args_STRUCT_SIZE, NULL, f->ctx, 0};
  if ((error = f->api->XLA_FFI_RunId_Get(&run))) return error;
  XLA_FFI_DeviceOrdinal_Get_Args device = {XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, NULL,
                                           f->ctx, -1};
  if ((error = f->api->XLA_FFI_DeviceOrdinal_Get(&device))) return error;
  int64_t threads = 0;
  XLA_FFI_ThreadPool_NumThreads_Args pool = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL,
                                             f->ctx, &threads};
  if ((error = f->api->XLA_FFI_ThreadPool_NumThreads(&pool))) return error;
  XLA_FFI_DeviceMemory_Allocate_Args memory = {XLA_FFI_DeviceMemory_Allocate_Args_STRUCT_SIZE,
                                               NULL, f->ctx, 1000, 64, NULL};
  if ((error = f->api->XLA_FFI_DeviceMemory_Allocate(&memory))) return error;
  memset(memory.data, 1, 1000);
  int32_t* out = ((XLA_FFI_Buffer*)f->rets.rets[0])->data;
  out[0] = ++*found;
  out[1] = instantiated;
  out[2] = run.run_id > 0 && device.device_ordinal == 0 && threads > 0 &&
           (uintptr_t)memory.data % 64 == 0;
  return NULL;
}

XLA_FFI_Error* streamless(XLA_FFI_CallFrame* f) {
  XLA_FFI_Stream_Get_Args a = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, f->ctx, NULL};
  XLA_FFI_Error* error = f->api->XLA_FFI_Stream_Get(&a);
  XLA_FFI_Error_GetMessage_Args m = {XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE, NULL, error, NULL};
  f->api->XLA_FFI_Error_GetMessage(&m);
  if (!strstr(m.message, "no stream")) return NULL;
  XLA_FFI_Error_Destroy_Args d = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  f->api->XLA_FFI_Error_Destroy(&d);
  return failure(f, "streamless, as it should be");
}

static const XLA_FFI_Api* api;
static XLA_FFI_Future* future;
static void later(void* data) {
  *(int32_t*)data = 42;
  XLA_FFI_Future_SetAvailable_Args a = {XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, NULL, future};
  api->XLA_FFI_Future_SetAvailable(&a);
}

/* Goes on after it is back. */
XLA_FFI_Error* slowly(XLA_FFI_CallFrame* f) {
  XLA_FFI_Future_Create_Args a = {sizeof(a), NULL, NULL};
  XLA_FFI_Error* error = f->api->XLA_FFI_Future_Create(&a);
  if (error) return error;
  api = f->api;
  f->future = future = a.future;
  XLA_FFI_ThreadPool_Schedule_Args s = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, f->ctx,
                                        later, ((XLA_FFI_Buffer*)f->rets.rets[0])->data};
  return f->api->XLA_FFI_ThreadPool_Schedule(&s);
}

void original(void* out, const void** in) { *(float*)out = *(const float*)in[0] + 1; }
XLA_FFI_TypeId* the_type(void) { return &state_type; }
"""

PROGRAM = r"""
import ctypes, sys
import numpy as np
import pyjax
from pyjax import ffi, numpy as jnp

library = ctypes.CDLL(sys.argv[1])
library.the_type.restype = ctypes.c_void_p
for name in ("affine", "negate", "streamless", "slowly"):
    ffi.register_ffi_target(name, ffi.pycapsule(getattr(library, name)))
ffi.register_ffi_type("counter", {"type_id": ffi.pycapsule(library.the_type())})
stages = {"instantiate": library.start, "execute": library.count}
ffi.register_ffi_target("count", {k: ffi.pycapsule(v) for k, v in stages.items()})
ffi.register_ffi_target("original", ffi.pycapsule(library.original), api_version=0)

x = jnp.arange(6.0).reshape(2, 3)
more = {"by": np.array([2.0, 9.0]), "inner": {"offset": 5}, "label": "ab"}
affine = ffi.ffi_call("affine", x)
assert pyjax.jit(lambda a: affine(a, **more))(x).tolist() == (2 * x + 5).tolist()
for bad, message in ((x.astype(int), "INVALID_ARGUMENT: float32 is wanted"), (x, "attributes")):
    try:
        affine(bad, **(more if message[0] == "I" else {}))
        raise AssertionError("no error")
    except pyjax.errors.JaxRuntimeError as error:
        assert message in str(error) and "the execute handler of 'affine'" in str(error), error

row = jnp.arange(3.0)
negate = ffi.ffi_call("negate", row, input_output_aliases={0: 0})
assert pyjax.jit(lambda a: (negate(a), a + 0))(row)[0].tolist() == [0, -1, -2]
assert row.tolist() == [0, 1, 2]

three = pyjax.ShapeDtypeStruct((3,), "int32")
count = pyjax.jit(lambda: ffi.ffi_call("count", three, has_side_effect=True)())
assert [count().tolist() for _ in range(3)] == [[1, 1, 1], [2, 1, 1], [3, 1, 1]]
try:
    ffi.ffi_call("streamless", three)()
    raise AssertionError("no error")
except pyjax.errors.JaxRuntimeError as error:
    assert "as it should be" in str(error), error
assert int(ffi.ffi_call("slowly", pyjax.ShapeDtypeStruct((), "int32"))()) == 42
scalar = pyjax.ShapeDtypeStruct((), "float32")
assert float(ffi.ffi_call("original", scalar, custom_call_api_version=1)(1.5)) == 2.5
print("done")
"""


def test_handlers(tmp_path: Path) -> None:
    source, library = tmp_path / "handlers.c", tmp_path / "handlers.so"
    source.write_text(HANDLERS)
    assert COMPILER is not None
    flags = ["-shared", "-fPIC", "-Wall", "-Werror", "-std=c11", "-I", ffi.include_dir()]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(library)], check=True)
    program = [sys.executable, "-c", PROGRAM, str(library)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "done\n", done.stderr


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no C++ compiler")
def test_the_header_is_cpp(tmp_path: Path) -> None:
    source = tmp_path / "empty.cc"
    source.write_text(
        '#include "xla/ffi/api/c_api.h"\nstatic_assert(XLA_FFI_Args_STRUCT_SIZE == 40);\n'
    )
    flags = ["-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-I", ffi.include_dir()]
    subprocess.run(["c++", *flags, str(source)], check=True)
