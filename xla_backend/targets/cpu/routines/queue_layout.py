"""Queues of programs as bytes: what native code (`queue_functions`) and Python agree on.

API
  Ticket               what a program says
  QUEUE_BYTES          of a queue, zero at first; its memory stays for the life of the process
  POSTED, CLOSED       where in a queue the number of programs that it was given is, and whether it
                       takes none any more; i32
"""

from __future__ import annotations

import ctypes


class Ticket(ctypes.Structure):
    """What a queue says of one program.

    Fields:
      submitted: whether a queue has taken it, as this number of its programs.
      done: whether it has ended. Nobody else looks at the ticket then.
      status: of its entry; negative: STOPPED, or FAILED_BEFORE: one that it comes after failed.
      nanoseconds: that it ran.
    """

    _fields_ = (
        ("submitted", ctypes.c_int32),
        ("number", ctypes.c_uint32),
        ("done", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("nanoseconds", ctypes.c_int64),
    )


STOPPED, FAILED_BEFORE = -1, -2
# Where a queue has its thread, the number of what it runs, and the first that it is not to stop.
QUEUE_THREAD, QUEUE_CURRENT, QUEUE_STOP_BEFORE = 24, 32, 36
POSTED, CLOSED = 0, 40
# Behind all that is a ring of what it was given.
RING, SLOTS, SLOT_BYTES = 64, 64, 48
QUEUE_BYTES = RING + SLOTS * SLOT_BYTES
