"""RecordingExecutable: a program whose runs are written to files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.dump.interface import RunListener
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.buffer import memory_view
from xla_backend.runtime.executable import LoadedExecutable


class RecordingExecutable(LoadedExecutable):
    """Runs another executable, and tells a recorder of every run.

    It has no fast way in (no `call`): programs that nobody records are not wrapped.
    """

    def __init__(self, loaded: LoadedExecutable, recorder: RunListener) -> None:
        self._loaded = loaded
        self._recorder = recorder
        self.module = loaded.module
        self.parameter_shapes = loaded.parameter_shapes
        self.output_shapes = loaded.output_shapes
        self.aliases = loaded.aliases
        self.held_bytes = loaded.held_bytes
        assert loaded.module.entry is not None
        self._parameters, self._result = loaded.module.entry.program_shape

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        addresses = iter(arguments)
        # Copies, made before the run: it may write its results over donated arguments.
        literals = [_literal(shape, addresses) for shape in self._parameters]
        self._recorder.started(literals)
        self._loaded.run(arguments, outputs)
        self._recorder.finished(literals, _literal(self._result, iter(outputs)))

    def texts(self) -> dict[str, str]:
        return self._loaded.texts()

    def kernels(self) -> list[EmittedKernel]:
        return self._loaded.kernels()

    def pass_report(self) -> str:
        return self._loaded.pass_report()

    def memory_stats(self) -> dict[str, int]:
        return self._loaded.memory_stats()


def _literal(shape: Shape, addresses: Iterator[int]) -> Literal:
    """The value of `shape` whose leaves lie at the next addresses."""
    if shape.is_tuple:
        return Literal.tuple([_literal(member, addresses) for member in shape.tuple_shapes])
    address = next(addresses)
    if not shape.is_array:  # a token, which has no value
        return Literal.tuple([])
    array = memory_view(address, shape.dimensions, shape.element_type.numpy_dtype, None)
    return Literal(array, shape)
