"""All code that follows from the compiler's own sources: what is compiled ahead, for a pack that
comes with the installation.

`pieces` lists it from the tables of kernels; nothing is run for it. Left out, unless all is asked
for, are products of few programs' types (`_SELDOM`) and convolutions of these, a fifth of the work;
what depends on LLVM's fast-math flags, and on a largest number of threads other than 1, is compiled
where it is needed.

Every piece is kept under the key by which whoever needs the code looks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.llvm.kept_code import OBJECT, put_together, text_key
from xla_backend.llvm.objects import compile_object, compile_objects
from xla_backend.llvm.target import TargetInfo
from xla_backend.persistent.installed import Entry
from xla_backend.runtime.buffer_protocol import buffer_protocol_texts
from xla_backend.runtime.host_libraries.lent_threads import lent_threads_text
from xla_backend.targets.cpu.routines.bridge_functions import bridge_text
from xla_backend.targets.cpu.routines.kept_objects import MODULE, PARTS, kept_key
from xla_backend.targets.cpu.routines.library import GROUPS, groups_entry
from xla_backend.targets.cpu.routines.pool_functions import pool_text, serial_text
from xla_backend.targets.cpu.routines.python_calls import BRIDGE
from xla_backend.targets.cpu.routines.queue_functions import queue_text
from xla_backend.targets.cpu.routines.queues import QUEUE
from xla_backend.targets.cpu.routines.subjects import group_parts, groups_by_symbol
from xla_backend.targets.cpu.routines.thread_pool import POOL, SERIAL_POOL
from xla_backend.targets.cpu.routines.threaded import thunk_text
from xla_backend.targets.cpu.routines.threaded_names import THUNK

_OPT = 1


# Integers of 8 and 16 bits whose products have as many; s8 has them in programs with quantised
# weights.
_SELDOM = ("u8_u8", "s16_s16", "u16_u16")


def pieces(everything: bool = False) -> list[str]:
    """Names of groups of kernels."""
    names = dict.fromkeys(groups_by_symbol().values())
    return [name for name in names if everything or not _is_seldom(name)]


def _is_seldom(group: str) -> bool:
    family, _, rest = group.partition(".")[0].partition("_")
    return family in ("gemm", "conv") and rest.removeprefix("batched_") in _SELDOM


def compiled_piece(group: str, target: TargetInfo) -> Entry:
    """The entry of a group of kernels."""
    texts, _ = group_parts(group, target, ())
    content = put_together(compile_objects(texts, target))
    return Entry(kept_key(group, target, PARTS), OBJECT, target.key, content)


def runtime_entries(target: TargetInfo, texts: Sequence[str] = ()) -> Iterator[Entry]:
    """What every process needs: the pool and the bridge, and which kernel is in which group; and
    further code, by its text."""
    linux = "linux" in target.triple
    named = {
        BRIDGE: bridge_text(target),
        POOL: pool_text(target, linux),
        SERIAL_POOL: serial_text(target),
        QUEUE: queue_text(target, linux),
        THUNK: thunk_text(target),
    }
    for name, text in named.items():
        content = put_together([compile_object(text, target)])
        yield Entry(kept_key(name, target, MODULE), OBJECT, target.key, content)
    lent = [lent_threads_text(target, has_threads) for has_threads in (False, True)]
    for text in (*lent, *buffer_protocol_texts(), *texts):
        code = compile_object(text, target)
        yield Entry(text_key(text, target, _OPT), OBJECT, target.key, code)
    groups = groups_entry(groups_by_symbol())
    yield Entry(kept_key(GROUPS, target), GROUPS, target.key, groups)
