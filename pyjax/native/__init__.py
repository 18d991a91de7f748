"""Calls of compiled programs without byte code: a type of callables whose code is made by LLVM.

`entries` writes down, for one kind of arguments, how to recognise them, what to run and what to
make of the results; `entry_code` is the native code that goes by it; `methods` makes callables that
try such entries first, and call a Python function where none of them fits. Which programs get
entries, and what must not be the case, is the business of `pyjax.runtime.native_dispatch`.
"""
