"""Which way to compute a product is the fastest, as measured on a device and remembered on disk.

What is tried computes with zeros and ones, so that sums are the same however they are grouped: a
way whose results differ from the library's is not taken, and a warning says so. A bare product has
to be exact but for the rounding of its result: a part of the sum that is missing may be little.

What is remembered belongs to the product (shapes, types, layouts, what is fused to it), to the
candidates and to the model of the device: another process with the same ones takes what was found,
so that its results are the same bits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

import ml_dtypes
import numpy as np

from xla_backend.hlo.attributes import ParameterAttributes
from xla_backend.hlo.errors import HloError
from xla_backend.hlo.fingerprint import module_fingerprint
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.persistent import store
from xla_backend.persistent.settings import cache_settings
from xla_backend.targets.gpu.autotune_results import Seconds, read_results, write_result
from xla_backend.targets.gpu.product_candidates import Candidate, Choose, Cublas

# Of entries on disk, and the version of what they say.
_KIND = "tuning"
_VERSION = "1"
# So many of the candidates are tried, those that should be the fastest, and the best of each kind.
_TRIALS = 8
# Products of more bytes are not computed twice, which takes memory that may be needed: what should
# be the fastest is taken.
_MOST_BYTES = 2 << 30
# What work that is fused to a product may make of a difference in rounding.
_ROUNDING = 0.02
_BARE = frozenset({Opcode.DOT, Opcode.CONVOLUTION})

_log = logging.getLogger(__name__)


class Trial(NamedTuple):
    """How long a program takes, and what it computes if somebody asks."""

    seconds: float
    results: Sequence[np.ndarray] = ()


class Timer(Protocol):
    """A device that programs are tried on; `model`: its name, the same for equal ones."""

    @property
    def model(self) -> str: ...

    def operands(self, module: HloModule) -> Any:
        """Arguments of a module, for all trials of it."""
        ...

    def trial(self, module: HloModule, choose: Choose, operands: Any, with_results: bool) -> Trial:
        """Run a scheduled module with what `choose` chooses."""
        ...


class Autotuner:
    """Chooses by measurement."""

    def __init__(
        self,
        timer: Timer,
        settings: str = "",
        load: str = "",
        dump: str = "",
        *,
        check: bool = True,
    ) -> None:
        """`settings`: what else the code depends on that is tried, such as flags and versions.
        `load`, `dump`: files of results, to read before anything is tried, and to write; "" for
        none. `check`: whether results are compared.

        Raises:
          FlagError: there is no file to read, or it has no results.
        """
        self._timer = timer
        self._settings = settings
        self._loaded = read_results(load) if load else {}
        self._dump = dump
        self._check = check
        self._known: dict[str, Candidate] = {}

    def __call__(self, node: Instruction, found: Sequence[Candidate]) -> Candidate:
        """The fastest of the candidates for a product or a fusion around one. `found`: those that
        should be the fastest first."""
        kinds = {type(c): n for n, c in reversed(list(enumerate(found)))}
        tried = [c for n, c in enumerate(found) if n < _TRIALS or n == kinds[type(c)]]
        arrays = [*(o.shape for o in node.operands), node.shape]
        if len(tried) == 1 or sum(shape.byte_size for shape in arrays) > _MOST_BYTES:
            return tried[0]
        module = trial_module(node)
        made_for = self._timer.model, self._settings, module_fingerprint(module)
        key = store.entry_key(_KIND, _VERSION, *made_for, *map(repr, tried))
        if key not in self._known:
            seconds = self._remembered(key) or self._measured(key, module, tried)
            self._known[key] = min(tried, key=lambda candidate: seconds.get(repr(candidate), inf))
            if self._dump:
                write_result(self._dump, key, seconds)
        return self._known[key]

    def _remembered(self, key: str) -> Seconds | None:
        if key in self._loaded:
            return self._loaded[key]
        if not cache_settings().internal:
            return None
        content = store.load(key, _KIND, self._timer.model)
        return None if content is None else json.loads(content)

    def _measured(self, key: str, module: HloModule, tried: Sequence[Candidate]) -> Seconds:
        try:
            operands = self._timer.operands(module)
        except MemoryError as error:
            _log.info("%s is not tried: %s", module.name, error)
            return {repr(candidate): inf for candidate in tried}
        assert module.entry is not None and module.entry.root is not None
        is_bare = module.entry.root.opcode in _BARE
        expected: Sequence[np.ndarray] = ()
        seconds = {}
        for candidate in sorted(tried, key=_doubts):
            trial = self._tried(module, candidate, operands)
            expected = expected or trial.results
            wrong = trial.results and _difference(expected, trial.results, is_bare)
            if wrong:
                _log.warning(
                    "%s computes %s wrong on %s and is not taken; please report it. %s",
                    *(candidate, module.entry.root, self._timer.model, wrong),
                )
            seconds[repr(candidate)] = inf if wrong else trial.seconds
        _log.debug("%s on %s: %s", module.entry.root, self._timer.model, seconds)
        # What was short of memory now may be tried another time.
        if cache_settings().internal and min(seconds.values()) < inf:
            store.store(key, _KIND, self._timer.model, json.dumps(seconds).encode())
        return seconds

    def _tried(self, module: HloModule, candidate: Candidate, operands: Any) -> Trial:
        """Run a candidate, which takes for ever if the device does not."""
        try:
            return self._timer.trial(module.clone(), always(candidate), operands, self._check)
        except (HloError, MemoryError) as error:
            _log.info("%s is no way to compute %s: %s", candidate, module.name, error)
            return Trial(inf)


def _doubts(candidate: Candidate) -> int:
    """The library is right, and what many devices have run comes before what few have."""
    return 0 if isinstance(candidate, Cublas) else 2 if isinstance(candidate, GroupTiling) else 1


def _difference(
    expected: Sequence[np.ndarray], results: Sequence[np.ndarray], is_bare: bool
) -> str:
    """What differs more than by rounding; "" for nothing. `is_bare`: each element is an exact sum,
    rounded once."""
    for want, got in zip(expected, results, strict=True):
        if want.tobytes() == got.tobytes():
            continue
        bad = want != got
        if want.dtype.kind not in "biu":
            with np.errstate(all="ignore"):
                bad &= ~_is_near(want, got, is_bare)
        if bad.any():
            at = tuple(np.argwhere(bad)[0].tolist())
            return f"Of {bad.size} elements {bad.sum()} differ: {at} is {got[at]}, not {want[at]}."
    return ""


def _is_near(want: np.ndarray, got: np.ndarray, is_bare: bool) -> np.ndarray:
    """Where numbers are as near as rounding leaves them; all NaN are near each other."""
    wide, found = want.astype(np.complex128), got.astype(np.complex128)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    if is_bare:
        allowed = 2 * float(ml_dtypes.finfo(want.dtype).eps) * size
    else:
        allowed = _ROUNDING * (size + size.max(initial=0.0))
    return (np.abs(found - wide) <= allowed) | (np.isnan(wide) & np.isnan(found))


def always(candidate: Candidate) -> Choose:
    """What chooses this candidate, whatever there is."""
    return lambda node, found: candidate


def trial_module(node: Instruction) -> HloModule:
    """A module that does what one instruction does."""
    module = HloModule("trial", is_scheduled=True)
    entry = Computation("trial")
    parameters: dict[Instruction, Instruction] = {}
    for operand in dict.fromkeys(node.operands):
        attributes = ParameterAttributes(len(parameters))
        parameter = Instruction(Opcode.PARAMETER, operand.shape, (), attributes)
        parameters[operand] = entry.add(parameter)
    copy = clone_instruction(node, [parameters[o] for o in node.operands])
    copy.called = [c.clone() for c in node.called]
    entry.root = entry.add(copy)
    module.add_computation(entry, entry=True)
    return module
