"""From LLVM text to machine code, for any target; nothing here links or runs any.

API
  compile_object(ir, target, opt=1, cache=False) -> bytes     parse, verify, object code
  compile_objects(texts, target, cache=False) -> [bytes]      several modules at the same time
  assembly(ir, target, opt=1) -> str                          printed(ir, target) -> str
Errors: IrError (text or module not valid; shows the line).

LLVM is used, and what it made is given back, where no signal handler interrupts (`apart`).

The target machine never runs at opt=0: LLVM's fast selector aborts the process on AVX-512 masks.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from xla_backend.llvm.apart import apart
from xla_backend.llvm.kept_code import load_object, store_object, text_key
from xla_backend.llvm.target import TargetInfo
from xla_backend.process.forks import CODE, Visitors, check_forked, take_for_forks

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_LINE = re.compile(r"<string>:(\d+):(\d+): error: (.*)")
# Target machines that no thread is using.
_idle_machines: dict[tuple[TargetInfo, int, bool], list[llvm.TargetMachine]] = {}
_machines_lock = threading.Lock()
# Threads inside LLVM that do not have llvmlite's lock.
_emitting = Visitors()
for _lock in (_machines_lock, _emitting, ffi.lib._lock._lock):
    take_for_forks(_lock, CODE)


class IrError(ValueError):
    """The generated LLVM text is not valid: a bug in an emitter, shown with the offending line."""


@contextmanager
def _machine(target: TargetInfo, opt: int, jit: bool = True) -> Iterator[llvm.TargetMachine]:
    """A target machine that no other thread uses meanwhile."""
    with _machines_lock:
        idle = _idle_machines.setdefault((target, opt, jit), [])
        machine = idle.pop() if idle else None
    if machine is None:
        machine = _target_machine(target, opt, jit)
    yield machine
    with _machines_lock:  # not after an error: LLVM says nothing about its state then
        idle.append(machine)


def _target_machine(target: TargetInfo, opt: int, jit: bool) -> llvm.TargetMachine:
    if target.triple != llvm.get_process_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt,
        reloc="default" if jit else "pic",
        codemodel="jitdefault" if jit else "default",
    )


def _parse(ir: str, target: TargetInfo, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module, in a context of its own: contexts must not be shared between threads, and the
    process's keeps every constant and type for good."""
    try:
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise IrError(_explain(ir, str(error))) from None
    return module


def _explain(ir: str, message: str) -> str:
    found = _LINE.search(message)
    if not found:
        return f"LLVM rejects the module:\n{message}"
    number, column, why = int(found[1]), int(found[2]), found[3]
    lines = ir.splitlines()
    text = lines[number - 1] if number <= len(lines) else ""
    function = next(
        (ln.split("(")[0] for ln in reversed(lines[:number]) if ln.startswith("define")), "module"
    )
    return f"{why}, at line {number} in `{function}`:\n{text}\n{' ' * (column - 1)}^"


def _checked_opt(opt: int) -> int:
    if opt not in (1, 2, 3):
        raise ValueError(
            f"optimisation level {opt}: use 1, 2 or 3; LLVM's level 0 can abort the process"
        )
    return opt


def compile_object(
    ir: str,
    target: TargetInfo,
    opt: int = 1,
    cache: bool = False,
    jit: bool = True,
) -> bytes:
    """Object code of a module given as text.

    With `cache` the object is looked up on disk first and kept there. jit=False gives
    position-independent code for linking into programs.

    Raises:
      IrError: the text does not parse or the module does not verify.
    """
    check_forked()
    return apart(_compile, ir, target, _checked_opt(opt), cache, jit)


def _compile(ir: str, target: TargetInfo, opt: int, cache: bool, jit: bool) -> bytes:
    key = text_key(ir, target, opt, jit) if cache else ""
    data = load_object(key, target)
    if data is None:
        data = _emit(ir, target, opt, jit)
        store_object(key, target, data)
    return data


def compile_objects(
    texts: Sequence[str],
    target: TargetInfo,
    cache: bool = False,
    opt: int = 1,
    *,
    in_turn: bool = False,
) -> list[bytes]:
    """Object code of several modules, each made on a thread of its own, or `in_turn` on this one.

    Raises:
      IrError: a text does not parse or a module does not verify.
    """
    if in_turn or len(texts) == 1:
        return [compile_object(text, target, opt, cache) for text in texts]
    check_forked()
    return apart(_compile_all, texts, target, cache, _checked_opt(opt))


def _compile_all(texts: Sequence[str], target: TargetInfo, cache: bool, opt: int) -> list[bytes]:
    keys = [text_key(t, target, opt) if cache else "" for t in texts]
    objects = [load_object(key, target) for key in keys]
    missing = [i for i, found in enumerate(objects) if found is None]
    failures: list[Exception] = []

    def work(i: int) -> None:
        try:
            objects[i] = _emit(texts[i], target, opt)
        except Exception as error:  # raised again by the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in missing[1:]]
    for thread in threads:
        thread.start()
    for i in missing[:1]:
        work(i)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    done = [o for o in objects if o is not None]
    assert len(done) == len(texts)
    for i in missing:
        store_object(keys[i], target, done[i])
    return done


def _emit(ir: str, target: TargetInfo, opt: int, jit: bool = True) -> bytes:
    """Object code, made with a context and a target machine that no other thread uses."""
    with _machine(target, opt, jit) as machine:
        return _emit_unlocked(machine, _parse(ir, target, machine))


def _emit_unlocked(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object` without llvmlite's lock, which would let one thread compile at a time.

    LLVM asks only that contexts are not shared between threads.
    """
    emit = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    with ffi.OutputString() as errors:
        # A version of llvmlite that has no lock to go round is called the plain way.
        with _emitting.visit():
            buffer = getattr(emit, "_cfn", emit)(machine, module, 1, errors)
        if not buffer:
            raise RuntimeError(str(errors))
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def printed(ir: str, target: TargetInfo) -> str:
    """A module as LLVM prints it, with the target it is compiled for (for people)."""
    return apart(_print, ir, target)


def _print(ir: str, target: TargetInfo) -> str:
    with _machine(target, 1) as machine:
        return str(_parse(ir, target, machine))


def assembly(ir: str, target: TargetInfo, opt: int = 1, jit: bool = True) -> str:
    """Assembly text of a module given as text, of the code that `compile_object` makes of it."""
    return apart(_assemble, ir, target, _checked_opt(opt), jit)


def _assemble(ir: str, target: TargetInfo, opt: int, jit: bool) -> str:
    with _machine(target, opt, jit) as machine:
        return machine.emit_assembly(_parse(ir, target, machine))
