"""DeviceArray: dense data on a device with its abstract value. Placement and conversion;
arithmetic is installed by pyjax.numpy.array_methods.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pyjax.core import array as core_array
from pyjax.core import dtypes
from pyjax.core.avals import MeshArray, ShapedArray, host_conversions
from pyjax.core.errors import OutOfMemoryError, fail, new_error
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.source_info import Frame, python_user_frame
from pyjax.runtime.array_spec import ArraySpec, array_spec, everything_on, laid_out, spec_over
from pyjax.runtime.devices import backends, default_device
from pyjax.runtime.transfers import Direction, Transfer, armed, check_transfer
from pyjax.sharding.layouts import Format, Layout
from pyjax.sharding.shardings import Shard, Sharding
from xla_backend.runtime.buffer import Buffer, BufferHolder, OutOfMemory, view_of
from xla_backend.runtime.client import Device
from xla_backend.runtime.device_group import DeviceGroup, Elsewhere
from xla_backend.runtime.dlpack import exported
from xla_backend.runtime.host_buffer import HostBufferKind
from xla_backend.runtime.places import set_place_finder


def _line() -> object:
    """The user's line that is running; its text is found when a message wants it."""
    frame = python_user_frame()
    return "" if frame is None else Frame(frame.f_code, frame.f_lasti)


set_place_finder(_line)


def out_of_memory(error: OutOfMemory) -> OutOfMemoryError:
    """What the user gets to see for it, with the line that asked for memory."""
    what, *reasons = (line.strip() for line in str(error).splitlines())
    return new_error(OutOfMemoryError, f"RESOURCE_EXHAUSTED: {what}", "\n".join(reasons))


class DeviceArray(BufferHolder, core_array.Array):
    """An array in the memory of one device, or in parts in that of several."""

    __slots__ = ()
    spec: ArraySpec
    __array_priority__ = 100  # NumPy's operators leave mixed expressions to ours

    # -- what it is ------------------------------------------------------------------------------

    @property
    def aval(self) -> ShapedArray:
        return self.spec.aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.aval.shape

    @property
    def dtype(self) -> Any:
        return self.spec.aval.dtype

    @property
    def weak_type(self) -> bool:
        return self.spec.aval.weak_type

    @property
    def ndim(self) -> int:
        return len(self.spec.aval.shape)

    @property
    def size(self) -> int:
        return self.spec.aval.size

    @property
    def nbytes(self) -> int:
        return self.spec.kind.nbytes

    @property
    def itemsize(self) -> int:
        return self.spec.aval.dtype.itemsize

    @property
    def device(self) -> Device | Sharding:
        """The device that has it; of several, how it lies over them."""
        spec = self.spec
        return spec.sharding if isinstance(spec.device, DeviceGroup) else spec.device

    @property
    def committed(self) -> bool:
        """Whether it was placed explicitly: computations follow committed arrays."""
        return self.spec.committed

    @property
    def platform(self) -> str:
        return self.spec.device.platform

    def devices(self) -> set[Device]:
        return self.spec.sharding.device_set

    @property
    def sharding(self) -> Sharding:
        return self.spec.sharding

    @property
    def format(self) -> Format:
        return Format(Layout(tuple(range(self.ndim))), self.sharding)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process has all of its devices."""
        device = self.spec.device
        return not isinstance(device, DeviceGroup) or device.here == device.devices

    @property
    def is_fully_replicated(self) -> bool:
        return self.spec.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        sharding, device = self.spec.sharding, self.spec.device
        if isinstance(device, DeviceGroup):
            return self._shards()[1].copy()
        index = sharding.devices_indices_map(self.shape)[device]
        shape = sharding.shard_shape(self.shape)
        return [Shard(device, index, 0, self if shape == self.shape else self.reshape(shape))]

    def _shards(self) -> tuple[list[Shard], list[Shard]]:
        """The part of each device, as an array in the same memory, without one of devices of other
        processes; and those of this process. They are kept with the memory, and go with it."""
        spec, parts = self.spec, self._buffer()
        views = parts.views
        # A user may delete or donate one.
        if views is None or views[0] is not spec or any(x.data.is_deleted() for x in views[2]):
            shards, buffers = [], parts.buffers
            for device, index, replica, number, own in spec.shards:
                data = None
                if own is not None:
                    data = DeviceArray.__new__(DeviceArray)
                    data.buffer = buffers[number]
                    data.spec = own
                shards.append(Shard(device, index, replica, data))
            parts.views = views = (spec, shards, [s for s in shards if s.data is not None])
        return views[1:]

    @property
    def global_shards(self) -> list[Shard]:
        """The part of each device; `data` is None where that is another process's."""
        over_several = isinstance(self.spec.device, DeviceGroup)
        return self._shards()[0].copy() if over_several else self.addressable_shards

    def addressable_data(self, index: int) -> core_array.Array:
        over_several = isinstance(self.spec.device, DeviceGroup)
        data = (self._shards()[1] if over_several else self.addressable_shards)[index].data
        assert data is not None
        return data

    # -- life ------------------------------------------------------------------------------------

    def block_until_ready(self) -> DeviceArray:
        """Wait until the value is there; returns the array."""
        self.spec.kind.wait(self._buffer())
        return self

    def is_ready(self) -> bool:
        """Whether the value is there, so that nothing waits for it."""
        try:
            return self.spec.kind.is_ready(self.buffer)
        except AttributeError:
            if self.is_deleted():
                raise deleted_error(self) from None
        return self.is_computed()

    def copy_to_host_async(self) -> None:
        """Start a copy to the host; on CPU the data is there as soon as it is computed."""
        if self.is_deleted():
            raise deleted_error(self)

    def unsafe_buffer_pointer(self) -> int:
        """Address of the first element in the device's memory, valid while the array lives.

        Raises:
          RuntimeError: the device's memory has no addresses.
        """
        address = self.spec.kind.address(self._buffer())
        if address is None:
            fail(
                RuntimeError,
                f"{self.aval.str_short()} on {self.device} has no address",
                f"the memory of platform {self.platform!r} is not in this process's reach",
                "copy it to the host first, np.asarray(x)",
            )
        return address

    def on_device_size_in_bytes(self) -> int:
        return self.spec.kind.nbytes

    @property
    def traceback(self) -> None:
        return None

    def _buffer(self) -> Any:
        """The memory, when it is computed; whoever reads it keeps the buffer meanwhile."""
        try:
            return self.buffer
        except AttributeError:
            pass
        self.settle()
        try:
            return self.buffer
        except AttributeError:
            raise deleted_error(self) from None

    # -- to NumPy and other libraries ------------------------------------------------------------

    def host_view(self, transfer: Transfer = Transfer.IMPLICIT) -> np.ndarray:
        """A NumPy array that cannot be made writable: the memory itself, which it keeps, where the
        host can address that, else a copy.

        Raises:
          JaxRuntimeError: a transfer guard disallows the copy.
          RuntimeError: other processes have parts of it.
        """
        buffer = self._buffer()
        if type(self.spec.aval) is MeshArray:
            self._check_summed()
        if armed and not self._is_host_addressable:
            check_transfer(Direction.TO_HOST, transfer, self.aval.str_short(), "the host")
        if not isinstance(self.spec.aval.dtype, np.dtype):
            raise new_error(
                TypeError,
                f"arrays with dtype {self.spec.aval.dtype} have no NumPy form; "
                "use pyjax.random.key_data(key) for the bits of a key",
            )
        try:
            return self.spec.kind.to_host(buffer)
        except Elsewhere:
            raise self._elsewhere() from None

    @property
    def stored_array(self) -> np.ndarray:
        """The memory as it is stored: for key arrays, the uint32 words behind the keys.

        Raises:
          RuntimeError: other processes have parts of it.
        """
        self._check_summed()
        try:
            return self.spec.kind.to_host(self._buffer())
        except Elsewhere:
            raise self._elsewhere() from None

    def _elsewhere(self) -> RuntimeError:
        return new_error(
            RuntimeError,
            "Fetching value for an array that spans non-addressable (non process local) devices is "
            "not possible",
            f"parts of {self.aval.str_short()} are on devices of other processes",
            "pyjax.experimental.multihost_utils.process_allgather(x, tiled=True) brings the whole "
            "array to each process; x.addressable_shards are the parts of this one",
        )

    @property
    def is_readable(self) -> bool:
        """Whether this process has some copy of each element."""
        split = self.spec.aval.split
        if split is not None and split.unreduced:
            return False
        return not isinstance(self.spec.device, DeviceGroup) or self.spec.kind.has_all

    def _check_summed(self) -> None:
        split = self.spec.aval.split
        if split is not None and split.unreduced:
            fail(
                NotImplementedError,
                f"A {self.aval.str_short()} is to be read.",
                f"It is a sum over the mesh axes {split.summed_axes} that is still to be made.",
                "Make it: jax.sharding.reshard(x, P(...)) without these unreduced axes.",
            )

    @property
    def _is_host_addressable(self) -> bool:
        return isinstance(self.spec.kind, HostBufferKind)

    def __array__(
        self, dtype: Any = None, context: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        view = self.host_view()
        if dtype is not None and np.dtype(dtype) != view.dtype:
            if copy is False:
                raise new_error(
                    ValueError, f"a copy is needed to turn {view.dtype} into {np.dtype(dtype)}"
                )
            return view.astype(dtype)
        return view.copy() if copy else view

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version is not None and api_version not in ARRAY_API_VERSIONS:
            raise new_error(
                ValueError,
                f"array API version {api_version!r} is not supported; "
                f"supported: {', '.join(ARRAY_API_VERSIONS)}",
            )
        return _array_namespace[0]

    def __buffer__(self, flags: int, /) -> memoryview:
        """The memory, read-only, for `memoryview(x)` and whatever takes buffers. Once this has been
        asked, native code answers for all arrays of this kind in host memory.

        Raises:
          BufferError: memory to write to is asked for, or buffers have no such dtype.
        """
        view: Any = self.host_view()
        if flags & _WRITABLE:
            raise BufferError(
                f"arrays are immutable, and memory of {self.aval.str_short()} was asked for to "
                "write to it; write to a copy, np.array(x)"
            )
        given, form = view_of(view)
        if self._is_host_addressable:
            self.spec.view = form
        if isinstance(given, str):
            raise BufferError(given)
        return given

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the memory, which the consumer gets read-only.

        Versions of DLPack before 1.0 cannot say that: consumers that ask for one get a copy. Memory
        of GPUs is never copied, and nothing keeps a consumer from writing to it: it must not.

        Raises:
          BufferError: DLPack has no such dtype or the consumer no such device; or `copy=False`, and
            a version before 1.0 or memory that the host cannot address.
        """
        if is_extended(self.aval.dtype):
            raise BufferError(
                f"DLPack has no type for {self.dtype}; export pyjax.random.key_data(keys)"
            )
        shared = None if dl_device == (1, 0) else self.spec.kind.shared(self._buffer())
        if shared is not None:
            try:
                return shared.__dlpack__(stream=stream, max_version=max_version, copy=copy)
            except (BufferError, TypeError, ValueError) as error:
                raise self._not_exported(error) from None
        view = self.stored_array
        if copy is False and not self._is_host_addressable:
            raise BufferError(
                f"the memory of {self.device} is not host memory, and the consumer wants no copy; "
                "allow one (copy=None), or pass np.asarray(x)"
            )
        if max_version is None or max_version < (1, 0):
            if copy is False:
                raise BufferError(
                    "the memory of an array is read-only, which DLPack can say since version 1.0 "
                    f"only, and the consumer asked for version {max_version}; allow a copy "
                    "(copy=None), or use a consumer that passes max_version=(1, 0)"
                )
            view = view.copy()
        elif copy:
            view = view.copy()
        try:
            return exported(view, stream=stream, max_version=max_version, dl_device=dl_device)
        except BufferError as error:
            raise self._not_exported(error) from None

    def _not_exported(self, error: Exception) -> BufferError:
        return BufferError(
            f"dtype {self.dtype} cannot be exported through DLPack: {error}; "
            "bitcast it to an integer type of the same width first (x.view(...))"
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.spec.kind.dlpack_device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory on an NVIDIA GPU, for CuPy, PyTorch, Numba and others; arrays elsewhere have
        no such attribute. They must not write to it."""
        if self.spec.kind.dlpack_device[0] != _CUDA:
            raise AttributeError(f"{self.aval.str_short()} is on {self.device}, not on a GPU")
        return self.spec.kind.shared(self._buffer()).__cuda_array_interface__

    def item(self, *args: int) -> Any:
        """The element as a Python scalar; without index the array must have size 1."""
        return self._number() if not args else self.host_view().item(*args)

    def _number(self) -> Any:
        """The only element, as a Python scalar."""
        read = self.spec.number
        if read is None:
            return self.host_view().item()
        try:
            buffer = self.buffer
        except AttributeError:
            buffer = self._buffer()
        return read(buffer).value

    def tolist(self) -> Any:
        view = self.host_view()
        try:
            return view.tolist()
        except MemoryError:
            raise new_error(
                MemoryError,
                f"there is no memory for the list of {view.size} Python numbers that tolist makes "
                f"of {self.aval.str_short()}.",
                "each of them takes 32 bytes or more",
                "take parts of the array at a time, or use np.asarray(x), which makes no copy.",
            ) from None

    def tobytes(self, order: Any = "C") -> bytes:
        return self.host_view().tobytes(order)

    def __bool__(self) -> bool:
        if self.spec.number is None:
            self._check_scalar_conversion("bool")
        return bool(self._number())

    def __int__(self) -> int:
        if self.spec.number is None:
            self._check_scalar_conversion("int")
        return int(self._number())

    def __float__(self) -> float:
        if self.spec.number is None:
            self._check_scalar_conversion("float")
        return float(self._number())

    def __complex__(self) -> complex:
        self._check_scalar_conversion("complex")
        return complex(self.host_view().item())

    def __index__(self) -> int:
        if self.ndim != 0 or not np.issubdtype(self.dtype, np.integer):
            raise new_error(
                TypeError,
                f"only integer scalar arrays can be used as an index, got {self.aval.str_short()}",
            )
        return int(self._number())

    def _check_scalar_conversion(self, name: str) -> None:
        if self.size != 1 or (self.ndim and name != "bool"):
            if name == "bool":
                raise new_error(
                    ValueError,
                    f"the truth value of an array with {self.size} elements "
                    f"({self.aval.str_short()}) is ambiguous",
                    "Some elements may be true and some false.",
                    "Use x.any() or x.all().",
                )
            raise new_error(
                TypeError,
                f"only 0-dimensional arrays convert to {name}, got {self.aval.str_short()}",
                "A Python number is one scalar, this is an array of them.",
                "Index it first, reduce it, or use tolist().",
            )

    def __len__(self) -> int:
        if not self.shape:
            raise new_error(
                TypeError,
                "len() of an array without dimensions",
                f"{self.aval.str_short()} is a scalar (a 0-d array); len is the size of axis 0.",
                "x.size is the number of elements.",
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[core_array.Array]:
        if not self.shape:
            raise new_error(
                TypeError,
                "iteration over a 0-d array",
                f"{self.aval.str_short()} is a scalar, which has no axis to iterate over.",
                "Use the value itself, or x.reshape(1).",
            )
        over_several = isinstance(self.spec.device, DeviceGroup)
        if over_several or not isinstance(self.spec.aval.dtype, np.dtype):
            return (self[i] for i in range(self.shape[0]))
        aval = self.spec.aval.update(shape=self.shape[1:])
        spec = array_spec(aval, self.spec.device, self.spec.committed)
        # Rows are copies of memory, not computations: no program is compiled for them.
        return map(_from_view, itertools.repeat(spec), self.host_view())

    def __hash__(self) -> int:
        raise new_error(
            TypeError,
            f"unhashable type: arrays ({self.aval.str_short()}) have no hash",
            "== compares them element by element.",
            "Use a tuple from x.tolist() as a key, or id(x).",
        )

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array({self.aval.str_short()}, deleted)"
        if not isinstance(self.spec.aval.dtype, np.dtype):
            return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{self.stored_array}"
        if not self.is_readable:
            split = self.spec.aval.split
            is_sum = split is not None and split.unreduced
            lies = f", sharding={self.sharding}" if is_sum else ""
            return f"Array(shape={self.shape}, dtype={self.dtype.name}{lies})"
        prefix = "Array("
        body = np.array2string(self.host_view(), separator=", ", prefix=prefix, suffix=",")
        weak = ", weak_type=True" if self.weak_type else ""
        if self.size == 0:
            body = f"[], shape={self.shape}"
        text = f"dtype={self.dtype.name}{weak})"
        last_line = len(body) - (body.rfind("\n") + 1)
        if "\n" not in body:
            last_line += len(prefix)
        separator = ", " if last_line + len(text) + 2 <= np.get_printoptions()["linewidth"] else ""
        return f"{prefix}{body}" + (separator or f",\n{' ' * len(prefix)}") + text

    def __str__(self) -> str:
        if not isinstance(self.spec.aval.dtype, np.dtype) or not self.is_readable:
            return repr(self)
        return str(self.host_view())

    def __format__(self, format_spec: str) -> str:
        if self.ndim == 0 and format_spec:
            return format(self.host_view().item(), format_spec)
        return format(str(self), format_spec)

    def __reduce__(self) -> Any:
        if is_extended(self.aval.dtype):
            return _unpickle_keys, (self.stored_array, self.aval.dtype)
        return _unpickle, (np.asarray(self), self.weak_type)

    def __copy__(self) -> DeviceArray:
        if not self.is_fully_addressable:
            return array_from(self.spec.kind.copy, self._buffer(), self.spec)
        return from_numpy(self.stored_array, self.spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.__copy__()


_CUDA = 2  # DLPack's number
_WRITABLE = 1  # inspect.BufferFlags.WRITABLE, since Python 3.12
ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
_array_namespace: list[Any] = [None]  # pyjax.numpy, which lies above this layer, puts itself here


def set_array_namespace(namespace: Any) -> None:
    """What `__array_namespace__` returns; called once by pyjax.numpy."""
    _array_namespace[0] = namespace


def array_from(make: Callable[[Any], Buffer], value: Any, spec: ArraySpec) -> DeviceArray:
    """The array of a buffer that one of `spec.kind`'s functions makes."""
    array = DeviceArray.__new__(DeviceArray)
    try:
        array.buffer = make(value)
    except OutOfMemory as error:
        raise out_of_memory(error) from None
    array.spec = spec
    return array


def relaid(array: DeviceArray, sharding: Sharding) -> DeviceArray:
    """The same memory as an array that is laid out so on its device."""
    spec = laid_out(array.spec, sharding)
    return array if spec is array.spec else sharing(array, spec)


def sharing(array: DeviceArray, spec: ArraySpec) -> DeviceArray:
    """An array of another kind with the same memory, which may still be computed."""
    try:
        buffer, job = array.memory()
    except AttributeError:
        raise deleted_error(array) from None
    made = DeviceArray.__new__(DeviceArray)
    if job is None:
        made.buffer = buffer
    else:
        made.pending = (buffer, job)
    made.spec = spec
    return made


def uncommitted(array: DeviceArray) -> DeviceArray:
    """The same memory as an array that programs may bring to another device."""
    return sharing(array, array_spec(array.aval, array.spec.device))


def _from_view(spec: ArraySpec, view: np.ndarray) -> DeviceArray:
    return array_from(spec.kind.from_host, view, spec)


def from_numpy(value: np.ndarray, spec: ArraySpec) -> DeviceArray:
    """An array with a copy of `value`, whose shape and dtype are the spec's physical ones."""
    return _from_view(spec, value)


def lies_alike(given: ArraySpec, wanted: Sharding) -> bool:
    """Whether arrays of a kind lie as a sharding says, however it is written."""
    lies = given.sharding
    if lies is None or lies == wanted:
        return lies == wanted
    return wanted.is_equivalent_to(lies, given.aval.ndim)


def out_of_reach(
    given: ArraySpec, device: Device, wanted: Sharding | None = None
) -> ArraySpec | None:
    """What an array of a kind is to become for a program on a device, which cannot use it as it
    is; None: it can.

    Args:
      wanted: how a program on a group of devices takes it; None: all of it on every device.
    """
    if isinstance(device, DeviceGroup):
        wanted = everything_on(device) if wanted is None else wanted
        if given.device is device and lies_alike(given, wanted):
            return None
        return spec_over(given.aval, device, wanted)
    if given.device.shares_memory_with(device):
        return None
    return array_spec(given.aval, device, given.committed)


def moved(array: DeviceArray, device: Device, wanted: Sharding | None = None) -> DeviceArray:
    """The array for a program on a device (see `out_of_reach`): itself where it can be used as it
    is, else a copy."""
    spec = out_of_reach(array.spec, device, wanted)
    if spec is None:
        return array
    if armed:
        what = array.aval.str_short()
        check_transfer(Direction.BETWEEN_DEVICES, Transfer.IMPLICIT, what, device)
    return from_array(array, spec)


def is_cut_by_host(given: ArraySpec, wanted: ArraySpec) -> bool:
    """Whether the host cuts arrays over a group as another kind says, in memory that it reads: all
    devices are of this process, and neither has summands of a sum that is still to be made."""
    for spec in (given, wanted):
        over_several = isinstance(spec.device, DeviceGroup)
        if not (spec.kind.is_on_host if over_several else isinstance(spec.kind, HostBufferKind)):
            return False
        if spec.aval.split is not None and spec.aval.split.unreduced:
            return False
    return isinstance(given.device, DeviceGroup)


def from_array(array: DeviceArray, spec: ArraySpec) -> DeviceArray:
    """An array with a copy of another one, whose elements this process reads."""
    if is_cut_by_host(array.spec, spec):
        given, kind = array.spec.kind, spec.kind
        return array_from(lambda parts: given.cut_as(kind, parts), array._buffer(), spec)
    return from_numpy(array.stored_array, spec)


def array_from_host(
    value: Any, aval: ShapedArray, device: Device | None = None, committed: bool = False
) -> DeviceArray:
    """An array with a copy of a NumPy value or Python scalar, converted to `aval`'s dtype."""
    return from_host(value, array_spec(aval, device or default_device(), committed))


def from_host(value: Any, spec: ArraySpec) -> DeviceArray:
    """An array of a kind with a copy of a NumPy value or Python scalar."""
    conversion = host_conversions.get(type(value))
    if conversion is not None:
        value = conversion(value)
    return _from_view(spec, np.asarray(value, dtype=spec.kind.numpy_dtype))


def array_without_copy(value: np.ndarray, aval: ShapedArray) -> DeviceArray:
    """An array over the memory of a C-contiguous NumPy array, where the default device can read
    that; the caller promises not to write to it.
    """
    spec = array_spec(aval, default_device())
    return array_from(spec.kind.wrap_host, value, spec)


def adopted(exporter: Any) -> tuple[DeviceArray, bool] | None:
    """The array of an object of another library, if that is on a device which the host cannot
    address and some client has; and whether it is a copy."""
    for client in backends().values():
        found = client.adopt(exporter)
        if found is not None:
            aval = ShapedArray(found.dimensions, found.numpy_dtype)
            committed = found.device is not default_device()
            spec = array_spec(aval, found.device, committed)
            return array_from(lambda buffer: buffer, found.buffer, spec), found.copied
    return None


def deleted_error(array: DeviceArray, where: str | None = None) -> RuntimeError:
    """What to raise when an array is used that has no memory any more; `where`: how it got there,
    if it was not passed as an argument."""
    return new_error(
        RuntimeError,
        f"Array has been deleted with shape={array.aval.str_short()}"
        + (f": {where}" if where else ""),
        "its memory was given away, by .delete() or by passing it to a jitted function as a "
        "donated argument (donate_argnums)",
        "keep the function's result instead, or do not donate this argument",
    )


def _unpickle(value: np.ndarray, weak_type: bool) -> DeviceArray:
    aval = ShapedArray(value.shape, dtypes.canonicalize_dtype(value.dtype), weak_type)
    return array_from_host(value, aval)


def _unpickle_keys(words: np.ndarray, dtype: Any) -> DeviceArray:
    shape = words.shape[: words.ndim - len(dtype.key_shape)]
    return array_from_host(words, ShapedArray(shape, dtype))
