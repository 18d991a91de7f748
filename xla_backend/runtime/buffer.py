"""Buffers: the memory of arrays on a device, as everybody but the device's own client sees it."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import numpy as np

from xla_backend.runtime.pending import Job


class Buffer:
    """Memory of one array on a device. What it is, its client knows: an address, a handle of a
    driver, a name in a table.

    The memory is free when the last reference to the buffer goes, so whoever reads it keeps the
    buffer. It says neither shape nor type; a `BufferKind` does.
    """

    __slots__ = ()


class OutOfMemory(MemoryError):
    """A device has no memory for a buffer. The first line says what it was for."""


class BufferKind:
    """Buffers of one shape and type on one device: how the host writes and reads them. Made by a
    client's `buffer_kind`, which fills in what this class leaves open."""

    __slots__ = ("dimensions", "nbytes", "numpy_dtype")

    def __init__(self, dimensions: tuple[int, ...], numpy_dtype: np.dtype) -> None:
        self.dimensions = dimensions
        self.numpy_dtype = numpy_dtype
        self.nbytes = numpy_dtype.itemsize
        for n in dimensions:
            self.nbytes *= n

    def from_host(self, array: np.ndarray) -> Buffer:
        """A buffer with a copy of an array of this shape, converted to this type.

        Raises:
          OutOfMemory: there is no memory for it.
        """
        raise NotImplementedError

    def to_host(self, buffer: Buffer) -> np.ndarray:
        """The array in a buffer, which nobody can write to; waits until it is computed. It keeps
        the buffer where it is a view of it."""
        raise NotImplementedError

    def from_scalar(self, value: Any) -> Buffer:
        """A buffer with a number that fits the type; for kinds without dimensions."""
        return self.from_host(np.asarray(value, self.numpy_dtype))

    def wrap_host(self, array: np.ndarray) -> Buffer:
        """A buffer with a C-contiguous array that nobody writes to any more: its own memory where
        the device can read that."""
        return self.from_host(array)

    # Of the devices that its buffers lie on, in DLPack's numbers; host memory by default.
    dlpack_device: tuple[int, int] = (1, 0)

    def address(self, buffer: Buffer) -> int | None:
        """Where the first byte is, for those who can use such addresses, as long as the buffer
        lives; None: it has none."""
        return None

    def shared(self, buffer: Buffer) -> Any:
        """An object over the buffer's own memory, which it keeps, with `__dlpack__` and
        `__cuda_array_interface__`; None: others get at it through the host only."""
        return None

    def wait(self, buffer: Buffer) -> None:
        """Return when the buffer is computed. At once, unless the client computes while its
        caller goes on."""

    def is_ready(self, buffer: Buffer) -> bool:
        """Whether `wait` would return at once."""
        return True


class BufferHolder:
    """What holds a buffer until it is deleted or donated: the base of arrays.

    `buffer` is read on the hot path of every call. A holder that was deleted has no such attribute
    any more, so nothing needs testing there: the AttributeError is turned into a clear message by
    the caller. Nor has one whose buffer is still being computed: that has `pending` in its place,
    and `settle` waits.
    """

    __slots__ = ("__weakref__", "buffer", "pending", "spec")

    buffer: Any  # a Buffer; which, the holder's client knows
    pending: tuple[Any, Job]  # a Buffer, and what computes it
    spec: Any  # what it is to its user

    def delete(self) -> None:
        """Give up the memory now; using the holder later is an error."""
        with suppress(AttributeError):
            del self.pending
        with suppress(AttributeError):
            del self.buffer  # else deleted before, maybe by another thread

    def is_deleted(self) -> bool:
        # In this order: another thread may settle it in between.
        return not (hasattr(self, "pending") or hasattr(self, "buffer"))

    def memory(self) -> tuple[Any, Job | None]:
        """The buffer, and what is computing it, if anything is.

        Raises:
          AttributeError: the holder was deleted.
        """
        try:
            return self.buffer, None
        except AttributeError:
            pass
        try:
            return self.pending
        except AttributeError:
            return self.buffer, None  # else another thread has settled it just now

    def is_computed(self) -> bool:
        """Whether `settle` would return or raise at once."""
        try:
            _, job = self.pending
        except AttributeError:
            return True
        return job.is_done()

    def settle(self) -> None:
        """Wait for the buffer if it is being computed. Then there is one, unless the holder was
        deleted.

        Raises:
          what computing it raised, each time.
        """
        try:
            buffer, job = self.pending
        except AttributeError:
            return
        job.wait()
        # Neither a signal handler nor another thread comes between these two: there is no call.
        try:
            del self.pending
            self.buffer = buffer
        except AttributeError:
            return  # another thread has settled or deleted it meanwhile


def view_of(array: np.ndarray) -> tuple[memoryview | str, bytes | None]:
    """A view of an array in row-major order, or why there is none, and the form of such views,
    which native code fills in (`buffer_protocol`); None: it cannot be written as a form.

    A form is bytes: i64 bytes, i64 bytes of an element, i64 rank, 8 bytes of format; sizes;
    distances. Elements of no bytes stand for a refusal, whose text follows the format.
    """
    given: Any = array
    try:
        view = memoryview(given)
    except ValueError as error:
        message = (
            f"dtype {array.dtype} has no form in the buffer protocol: {error}; bitcast it to an "
            "integer type of the same width first (x.view(...))"
        )
        return message, struct.pack("3q8s", 0, 0, 0, b"") + message.encode() + b"\0"
    written = view.format.encode()
    if len(written) > 7:
        return view, None
    step, strides = array.dtype.itemsize, [0] * array.ndim
    for d in reversed(range(array.ndim)):
        strides[d] = step
        step *= array.shape[d]
    words = struct.pack(f"{2 * array.ndim}q", *array.shape, *strides)
    return view, struct.pack("3q8s", step, array.dtype.itemsize, array.ndim, written) + words
