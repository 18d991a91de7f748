"""Programs that only move data, run by one routine for all of them."""

from __future__ import annotations

import ctypes

from xla_backend.hlo.module import HloModule
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.data_movement import Movement
from xla_backend.targets.cpu.native import NativeExecutable, Temporaries, never_fails
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.move_tables import SYMBOL, table
from xla_backend.targets.cpu.work_queue import QueuedCode

# A large program that is called again is better compiled.
_CALLS_OF_LARGE = 5
_Entry = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class MovementExecutable(NativeExecutable):
    """The moves of a program; all such programs share their native code."""

    held_bytes = 1 << 13

    def __init__(self, module: HloModule, movement: Movement, device: Device) -> None:
        assert module.entry is not None
        parameters = [p.shape for p in module.entry.parameters]
        super().__init__(device, parameters, [node.shape for node in module.entry.outputs])
        self.module = module
        self.calls_until_compiled = 0 if movement.is_small else _CALLS_OF_LARGE
        self._constants = movement.constants  # the table has their addresses
        self._table = ctypes.create_string_buffer(table(movement.moves))
        address = kernel_library()[SYMBOL]
        place = ctypes.addressof(self._table)
        entry = _Entry(address)
        self._code = address
        if not movement.temporaries:
            self._call = lambda arguments, outputs: entry(arguments, outputs, place)
            self.queued = QueuedCode(address, None, place, 0.0, never_fails)
            return
        temporaries = Temporaries(movement.temporaries)
        self._call = lambda arguments, outputs: temporaries.lent_to(
            lambda addresses: entry(arguments, outputs + addresses, place)
        )
