"""Stages of compilation: jit(f).trace(...) → .lower() → .compile(), each printable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import xla_backend
from pyjax._config import options
from pyjax.api.eval_shape import struct_of
from pyjax.core.avals import ShapedArray
from pyjax.core.compile_log import because
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import fail, new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.refs import AbstractRef
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from pyjax.interpreters.platform_names import names_of_platform
from pyjax.lax.faults.guard import check_results
from pyjax.runtime.array import DeviceArray, moved, relaid
from pyjax.runtime.array_spec import everything_on
from pyjax.runtime.devices import default_device
from pyjax.runtime.dispatch import (
    as_operand,
    compile_for_target,
    find_or_compile,
    hoist_constants,
    make_program,
    overridden_options,
    program_source,
)
from pyjax.runtime.placement import argument_on
from pyjax.runtime.program import Program
from pyjax.runtime.refs import DeviceRef, RefProgram, ref_program
from pyjax.runtime.result_layouts import Place, ProgramLayouts, Shardings
from pyjax.sharding.shardings import Sharding
from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target, find_target
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.runtime.client import Device, LoadedExecutable
from xla_backend.runtime.device_group import DeviceGroup
from xla_backend.runtime.target_code import TargetCode

CompilerOptions = dict[str, Any]


@dataclass(frozen=True)
class ArgInfo:
    """Type and donation of one argument leaf.

    >>> pyjax.jit(jnp.sin).lower(1.0).args_info[0][0].dtype
    dtype('float32')
    """

    _aval: Any
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


class MemoryStats(NamedTuple):
    """Bytes a program uses."""

    generated_code_size_in_bytes: int
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int


def result_names(out_tree: PyTreeDef) -> list[str]:
    """`result`, `result[0]`, `result['a']`, ... of each leaf of a result."""
    numbers = range(out_tree.num_leaves)
    paths, _ = tree_flatten_with_path(tree_unflatten(out_tree, list(numbers)))
    return [f"result{keystr(path)}" for path, _ in paths]


def _is_stablehlo(dialect: str | None) -> bool:
    if dialect not in (None, "stablehlo", "hlo"):
        raise new_error(ValueError, f"unknown dialect {dialect!r}; there are 'stablehlo' and 'hlo'")
    return dialect != "hlo"


class _Stage:
    """What all stages know: the trees and avals of inputs and outputs."""

    def __init__(
        self,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        donated: tuple[bool, ...],
    ) -> None:
        self._flat_in_avals = tuple(in_avals)
        self._flat_out_avals = tuple(out_avals)
        self.in_tree = in_tree
        self.out_tree = out_tree
        self._donated = donated

    def _signature(self) -> tuple[Any, ...]:
        """What another stage of the same function is made with."""
        return (
            self._flat_in_avals,
            self._flat_out_avals,
            self.in_tree,
            self.out_tree,
            self._donated,
        )

    @property
    def in_avals(self) -> Any:
        """Abstract values of the arguments, as (args, kwargs)."""
        return tree_unflatten(self.in_tree, self._flat_in_avals)

    @property
    def args_info(self) -> Any:
        """ArgInfo of each argument leaf, as (args, kwargs)."""
        infos = [ArgInfo(a, d) for a, d in zip(self._flat_in_avals, self._donated)]
        return tree_unflatten(self.in_tree, infos)

    @property
    def out_info(self) -> Any:
        """ShapeDtypeStructs of the result."""
        return tree_unflatten(self.out_tree, [struct_of(a) for a in self._flat_out_avals])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Flat positions of the donated arguments."""
        return tuple(i for i, d in enumerate(self._donated) if d)


class Traced(_Stage):
    """A function traced for one kind of arguments.

    Attributes:
      jaxpr: the ClosedJaxpr.
      fun_name: name of the function.

    >>> traced = pyjax.jit(jnp.sin).trace(1.0)
    >>> traced.out_info.shape
    ()
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        donated: tuple[bool, ...],
        fun_name: str,
        compiler_options: CompilerOptions,
        device: Device | None,
        plan: Callable[[Device, bool], tuple[Place, ProgramLayouts]],
    ) -> None:
        super().__init__(closed.in_avals, closed.out_avals, in_tree, out_tree, donated)
        self.jaxpr = closed
        self.fun_name = fun_name
        self._compiler_options = compiler_options
        self._device = device  # of `jit(device=...)` or committed arguments; None: the default
        self._plan = plan  # from a device, and whether it is asked for, to where and how it runs

    @property
    def out_avals(self) -> Any:
        return tree_unflatten(self.out_tree, self._flat_out_avals)

    def as_text(self) -> str:
        """The jaxpr as text."""
        return str(self.jaxpr)

    def placed(self) -> tuple[Place, ProgramLayouts]:
        """Where the program runs, and how arguments and results lie there."""
        device = default_device() if self._device is None else self._device
        return self._plan(device, self._device is not None)

    def lower(
        self, *, lowering_platforms: Sequence[str] | None = None, _private_parameters: Any = None
    ) -> Lowered:
        """Lower to HLO, for the platform of the device; or for another one, of which there need be
        no device, to be looked at.

        Args:
          lowering_platforms: one of cpu, cuda, rocm, or a plugin's name, in a sequence.
        Raises:
          NotImplementedError: there are several platforms.
        """
        del _private_parameters
        place, layouts = self.placed()
        layouts.check_devices()
        device = place.device
        platforms = dict.fromkeys(lowering_platforms or (device.platform,))
        if len(platforms) > 1:
            fail(
                NotImplementedError,
                f"{self.fun_name} is to be lowered for {' and '.join(platforms)}",
                "a program is lowered for one platform",
                "lower it for each platform on its own",
            )
        (platform,) = platforms
        refs = ref_program(self.jaxpr, self._donated)
        closed, given = (self.jaxpr, self._donated) if refs is None else (refs.closed, refs.donated)
        hoisted, constants = hoist_constants(closed)
        donated = given if any(given) else ()
        of_values = layouts if refs is None else refs.layouts(layouts)
        spread = of_values.spread(device, hoisted, [x.sharding for x in constants])
        source = program_source(hoisted, self.fun_name, platform, donated, spread)
        return Lowered(self, source, constants, hoisted, place, refs, platform, layouts)


class Lowered(_Stage):
    """A function lowered to HLO, before optimisation.

    >>> lowered = pyjax.jit(jnp.sin).lower(1.0)
    >>> "stablehlo.sine" in lowered.as_text()
    True
    """

    def __init__(
        self,
        traced: Traced,
        source: ModuleSource,
        constants: Sequence[DeviceArray],
        closed: ClosedJaxpr,
        place: Place,
        refs: RefProgram | None,
        platform: str,
        layouts: ProgramLayouts,
    ) -> None:
        """`closed`: what was lowered; `constants` are its last arguments."""
        super().__init__(*traced._signature())
        self._traced = traced
        self._module = source.module
        self._digest = source.digest
        self._constants = constants
        self._closed = closed
        self._device, self._committed, _ = place
        self._refs = refs
        self._platform = platform
        self._layouts = layouts

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program before optimisation.

        Args:
          dialect: None or "stablehlo", or "hlo" (in its short style).
          debug_info: with the source lines that operations come from.
        Raises:
          ValueError: another dialect.
          UnimplementedError: the program has an opcode that StableHLO lacks; "hlo" always works.
        """
        if _is_stablehlo(dialect):
            return xla_backend.module_to_stablehlo(
                self._module,
                result_info=result_names(self.out_tree),
                debug_info=debug_info,
                in_shardy=options.use_shardy_partitioner.value,
            )
        client = self._device.client
        return client.module_text(self._module, style="short", metadata=debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program as an object: a module of `xla_backend.stablehlo` whose `str` is its text
        (dialect None or "stablehlo"), or an HloModule ("hlo"; a copy).

        Raises:
          ValueError: another dialect.
        """
        if _is_stablehlo(dialect):
            return xla_backend.hlo_to_stablehlo(
                self._module,
                result_names(self.out_tree),
                in_shardy=options.use_shardy_partitioner.value,
            )
        return self._module.clone()

    def cost_analysis(self) -> dict[str, float]:
        """Estimated flops, transcendentals and bytes accessed of one run."""
        return self._device.client.module_cost(self._module)

    @overload
    def compile(
        self,
        compiler_options: CompilerOptions | None = None,
        *,
        device_assignment: Any = None,
        target: None = None,
    ) -> Compiled: ...

    @overload
    def compile(
        self,
        compiler_options: CompilerOptions | None = None,
        *,
        device_assignment: Any = None,
        target: str | Target,
    ) -> TargetCode: ...

    def compile(
        self,
        compiler_options: CompilerOptions | None = None,
        *,
        device_assignment: Any = None,
        target: str | Target | None = None,
    ) -> Compiled | TargetCode:
        """Compile to machine code, for the device of the function or of committed arguments, else
        the default device at lowering; or for a machine that is not here.

        Args:
          compiler_options: XLA flags by name, for this program only.
          target: make code for this machine, and load nothing: a GPU such as "sm_90" of what was
            lowered for cuda, or "aarch64", "x86-64-v3" ... of what was lowered for cpu.
        Returns:
          A function; with a target, an `xla_backend` TargetCode with `assembly()`,
          `object_code()` and `texts()`, and of a GPU `kernels()` and `analysis()`.
        Raises:
          FlagError (a ValueError): no such option, or a bad value.
          ValueError: it was lowered for another platform; no such target.
        """
        del device_assignment
        if target is not None:
            return self._compile_for(find_target(target), compiler_options)
        if self._platform != self._device.platform:
            fail(
                ValueError,
                f"{self._traced.fun_name} was lowered for {self._platform}, and cannot be compiled "
                f"for {self._device}",
                "lowering chose what that platform has",
                "lower() without lowering_platforms, to run it; compile(target=...) makes code for "
                "a machine that is not here",
            )
        merged = {**self._traced._compiler_options, **(compiler_options or {})}
        device = self._device
        with because(lambda: "Lowered.compile() was called"):
            chosen = overridden_options(merged)
            again = ModuleSource(self._module.name, self._module.clone, self._digest)
            executable = find_or_compile(again, device, chosen)
        debug = self._traced.jaxpr.jaxpr.debug_info
        refs = self._refs
        out_avals = self._flat_out_avals if refs is None else refs.closed.out_avals
        layouts = self._layouts if refs is None else refs.layouts(self._layouts)
        layouts = layouts.found(executable, self._closed)
        program = make_program(
            executable, self._constants, out_avals, device, self._committed, debug, layouts
        )
        if refs is not None:
            program.wrap(refs.wrap)
        made_of = MadeOf(
            self._module,
            chosen,
            self._constants,
            device,
            self._committed,
            debug,
            self._traced.jaxpr,
            refs is not None,
            layouts if refs is None else self._layouts,
        )
        return Compiled(self._signature(), made_of, executable, program)

    def _compile_for(self, target: Target, compiler_options: CompilerOptions | None) -> TargetCode:
        wanted = "cuda" if target.is_gpu else "cpu"
        if wanted not in names_of_platform(self._platform):
            fail(
                ValueError,
                f"{self._traced.fun_name} was lowered for {self._platform}, and cannot be compiled "
                f"for {target.cpu or target.triple}",
                "lowering chose what that platform has",
                f"lower(lowering_platforms=({wanted!r},)).compile(target=...)",
            )
        merged = {**self._traced._compiler_options, **(compiler_options or {})}
        return compile_for_target(self._module, self._device, target, merged)


class MadeOf(NamedTuple):
    """What a compiled program was made of.

    Fields:
      module: before optimisation.  constants: its trailing arguments.
      committed: whether results are committed to the device.
      closed: what was lowered; None if another process did it.
      with_refs: whether the function takes or closes over mutable references.
      layouts: of arguments and results.
    """

    module: HloModule
    compile_options: CompileOptions
    constants: Sequence[DeviceArray]
    device: Device
    committed: bool
    debug: DebugInfo
    closed: ClosedJaxpr | None
    with_refs: bool
    layouts: ProgramLayouts


class Compiled(_Stage):
    """Machine code for one kind of arguments; call it like the function, with exactly that kind.

    >>> compiled = pyjax.jit(jnp.sin).lower(1.0).compile()
    >>> compiled(0.0)
    Array(0., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        signature: tuple[Any, ...],
        made_of: MadeOf,
        executable: LoadedExecutable,
        program: Program,
    ) -> None:
        super().__init__(*signature)
        self._made_of = made_of
        self._executable = executable
        self._program = program

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs))
        if in_tree.exact_key() != self.in_tree.exact_key():
            raise new_error(
                TypeError,
                "the compiled function was called with another argument structure: it was compiled "
                f"for {self.in_tree}, and got {in_tree}",
            )
        arrays = [self._placed(as_operand(x), i) for i, x in enumerate(leaves)]
        for i, (array, aval) in enumerate(zip(arrays, self._flat_in_avals)):
            if (array.shape, array.dtype) != (aval.shape, aval.dtype) or (
                (type(array) is DeviceRef) != (type(aval) is AbstractRef)
            ):
                raise new_error(
                    TypeError,
                    f"the compiled function was called with other types: argument leaf {i} was "
                    f"{aval.str_short()} at compilation and is {array.aval.str_short()} now.",
                    "A compiled program is for one shape and dtype of each argument.",
                    "Lower and compile again for the new types, or call the jitted function.",
                )
        results = self._program(arrays)
        check_results(self._made_of.closed, self._made_of.debug, arrays, results)
        return tree_unflatten(self.out_tree, results)

    def _placed(self, array: DeviceArray, position: int) -> DeviceArray:
        """An argument on the device of the program."""
        device = self._made_of.device
        if array.spec.device is device:
            return self._as_compiled(array, position)
        if array.committed:
            fail(
                ValueError,
                f"argument leaf {position}, {array.aval.str_short()}, is committed to "
                f"{array.spec.device}, but the program was compiled for {device}",
                "a compiled program runs on its devices, and committed arrays stay where they are",
                "move the argument with pyjax.device_put(x, device), or lower and compile for "
                "arguments that lie there",
            )
        how = self._layouts.inputs[position] if isinstance(device, DeviceGroup) else None
        return argument_on(device, array) if how is None else moved(array, device, how)

    def _as_compiled(self, array: DeviceArray, position: int) -> DeviceArray:
        """An argument that lies as the program takes it."""
        if not isinstance(array.spec.device, DeviceGroup):
            return array
        wanted = self._layouts.inputs[position]
        if wanted is not None and not array.sharding.is_equivalent_to(wanted, array.ndim):
            fail(
                ValueError,
                "Compiled object called with input sharding(s) that do not match the sharding(s) "
                f"the computation was compiled with: argument leaf {position}, "
                f"{array.aval.str_short()}, lies as {array.sharding}, and the program takes it as "
                f"{wanted}",
                "the program of each device is for parts of one shape",
                "pyjax.device_put(x, compiled.input_shardings[0][...]) lays it out so",
            )
        return array if wanted is None else relaid(array, wanted)

    @property
    def _layouts(self) -> ProgramLayouts:
        return self._made_of.layouts

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def as_text(self, stage: str = "hlo") -> str:
        """Text of a stage: "hlo" (optimised), "program" (what runs when, in which memory), "loops"
        (loop IR of each kernel) or "llvm".

        Raises:
          ValueError: the platform has no such stage.
        """
        texts = self._executable.texts()
        if stage not in texts:
            raise new_error(ValueError, f"no stage {stage!r}; there are {', '.join(texts)}")
        return texts[stage]

    def cost_analysis(self) -> dict[str, float]:
        """Estimated flops, transcendentals and bytes accessed of the optimised program."""
        return self._made_of.device.client.module_cost(self._executable.module)

    def memory_analysis(self) -> MemoryStats:
        """Bytes of code, arguments, outputs and temporaries."""
        stats = self._executable.memory_stats()
        return MemoryStats(
            stats["generated_code_size"],
            stats["argument_size"],
            stats["output_size"],
            stats["alias_size"],
            stats["temp_size"],
        )

    def runtime_executable(self) -> LoadedExecutable:
        return self._executable

    @property
    def input_shardings(self) -> Any:
        return tree_unflatten(self.in_tree, self._said(self._layouts.inputs, self.in_tree))

    @property
    def output_shardings(self) -> Any:
        return tree_unflatten(self.out_tree, self._said(self._layouts.results, self.out_tree))

    def _said(self, known: Shardings, tree: PyTreeDef) -> list[Sharding]:
        """Of each leaf; all of it on the device of the program, if nothing is said."""
        default = everything_on(self._made_of.device)
        known = [*known, *[None] * (tree.num_leaves - len(known))]
        return [s or default for s in known[: tree.num_leaves]]

    input_formats = input_shardings
    output_formats = output_shardings
