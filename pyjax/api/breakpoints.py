"""breakpoint: a prompt inside a compiled program, with the values of the user's variables.

Layer: api.
"""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from pyjax.core.avals import is_valid_value
from pyjax.core.errors import new_error
from pyjax.core.source_info import is_internal_file
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.lax.callbacks import debug_callback


class RecordedFrame:
    """A frame of the user's code as it was when `breakpoint` was called.

    Attributes:
      file, line, function: where.
      names: of its variables, with their values when the program is there.
    """

    def __init__(self, frame: FrameType) -> None:
        self.file = frame.f_code.co_filename
        self.line = frame.f_lineno
        self.function = frame.f_code.co_name
        self.globals = frame.f_globals
        self.names = {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)

    def where(self) -> str:
        """`train.py:12 in loss`, and the line."""
        text = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line} in {self.function}\n    {text}"

    def source(self, around: int = 5) -> str:
        """The lines around, with an arrow at this one."""
        first = max(1, self.line - around)
        lines = []
        for number in range(first, self.line + around + 1):
            text = linecache.getline(self.file, number)
            if text:
                lines.append(f"{'->' if number == self.line else '  '} {number:4} {text.rstrip()}")
        return "\n".join(lines)


class Prompt(cmd.Cmd):
    """Commands on recorded frames, the innermost first."""

    prompt = "(pyjaxdb) "

    def __init__(self, frames: list[RecordedFrame], stdin: Any, stdout: Any) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is sys.stdin and stdout is sys.stdout
        self.frames = frames
        self.index = 0

    @property
    def frame(self) -> RecordedFrame:
        return self.frames[self.index]

    def _say(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _value(self, expression: str) -> Any:
        return eval(expression, dict(self.frame.globals), self.frame.names)

    def _show(self, expression: str, form: Callable[[Any], str]) -> None:
        try:
            self._say(form(self._value(expression)))
        except Exception as error:  # of the user's expression: it is shown, and the prompt stays
            self._say(f"*** {type(error).__name__}: {error}")

    def do_p(self, arg: str) -> None:
        """p EXPRESSION: print its value."""
        self._show(arg, repr)

    def do_pp(self, arg: str) -> None:
        """pp EXPRESSION: print its value on several lines."""
        self._show(arg, pprint.pformat)

    def default(self, line: str) -> None:
        self._show(line, repr)

    def do_EOF(self, arg: str) -> bool:
        """The end of the input: as quit."""
        return self.do_quit(arg)

    def emptyline(self) -> bool:
        return False

    def do_list(self, arg: str) -> None:
        """list: the lines around."""
        self._say(self.frame.source())

    def do_backtrace(self, arg: str) -> None:
        """backtrace: all frames."""
        for i, frame in enumerate(self.frames):
            self._say(f"{'>' if i == self.index else ' '} {frame.where()}")

    def do_up(self, arg: str) -> None:
        """up: to the caller."""
        self._move(self.index + 1, "this is the outermost frame")

    def do_down(self, arg: str) -> None:
        """down: back towards the breakpoint."""
        self._move(self.index - 1, "this is the innermost frame")

    def _move(self, index: int, otherwise: str) -> None:
        if not 0 <= index < len(self.frames):
            self._say(f"*** {otherwise}")
            return
        self.index = index
        self._say(self.frame.where())

    def do_continue(self, arg: str) -> bool:
        """continue: go on with the program."""
        return True

    def do_quit(self, arg: str) -> bool:
        """quit: end the program with an exception."""
        raise KeyboardInterrupt("quit at a breakpoint")

    do_l, do_bt, do_u, do_d, do_c, do_q = (
        do_list,
        do_backtrace,
        do_up,
        do_down,
        do_continue,
        do_quit,
    )


# By name: `backend(frames, **options)` shows them and returns when the program may go on.
Backend = Callable[..., None]


def _command_line(frames: list[RecordedFrame], stdin: Any = None, stdout: Any = None) -> None:
    shown = Prompt(frames, stdin or sys.stdin, stdout or sys.stdout)
    shown._say(f"Entering the debugger:\n{shown.frame.where()}")
    shown.cmdloop()


_BACKENDS: dict[str, Backend] = {"cli": _command_line}


def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> None:
    """Stop the program when it gets here, and ask what to show.

    The prompt sees the variables of the functions that call this one, as they were when they were
    traced; those that were traced have the values of this run. Expressions are evaluated there;
    the commands are p, pp, list, backtrace, up, down, continue and quit (or their first letters).

    Args:
      backend: "cli", a prompt in the terminal.
      filter_frames: leave out frames of this library.
      num_frames: how many frames to keep, from the innermost.
      ordered: keep the order of ordered effects.
      token: is passed on, for programs that order effects by data; None is all there is here.
      kwargs: of the backend: `stdin` and `stdout`.
    Raises:
      ValueError: there is no such backend.   NotImplementedError: a token.
      KeyboardInterrupt: the user quits.

    >>> import io
    >>> typed, shown = io.StringIO("p 2 * x\\nc\\n"), io.StringIO()
    >>> def f(x):
    ...     pyjax.debug.breakpoint(num_frames=1, stdin=typed, stdout=shown)
    ...     return x + 1
    >>> float(f(20.0)), "40.0" in shown.getvalue()
    (21.0, True)
    """
    if token is not None:
        raise new_error(
            NotImplementedError, "breakpoint: tokens are not passed on; use ordered=True."
        )
    show = _BACKENDS.get(backend or "cli")
    if show is None:
        known = ", ".join(map(repr, _BACKENDS))
        raise new_error(
            ValueError, f"breakpoint: there is no backend {backend!r}; there is {known}."
        )
    frames: list[RecordedFrame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (num_frames is None or len(frames) < num_frames):
        if not (filter_frames and is_internal_file(frame.f_code.co_filename)):
            frames.append(RecordedFrame(frame))
        frame = frame.f_back
    # Variables that hold traced values are passed through the program; others stay as they are.
    values = [x for f in frames for x in f.names.values()]
    whole = {id(x) for x in values if not _is_tree(x)}
    leaves, tree = tree_flatten(
        [f.names for f in frames], is_leaf=lambda x: id(x) in whole or _is_opaque(x)
    )
    traced = [isinstance(x, Tracer) for x in leaves]

    def stop(*values: Any) -> None:
        found = iter(values)
        filled = [np.asarray(next(found)) if t else x for x, t in zip(leaves, traced)]
        for recorded, names in zip(frames, tree_unflatten(tree, filled)):
            recorded.names = names
        show(frames, **kwargs)

    debug_callback(stop, *[x for x, t in zip(leaves, traced) if t], ordered=ordered)


# Containers of arrays have less levels.
_DEEPEST = 50


def _is_tree(x: Any, within: frozenset[int] = frozenset()) -> bool:
    """Whether a variable is a tree: lists may contain themselves, and keys may have no order."""
    if type(x) not in (dict, list, tuple):
        return True
    if id(x) in within or len(within) == _DEEPEST:
        return False
    if isinstance(x, dict):
        try:
            sorted(x)
        except TypeError:
            return False
    inside = within | {id(x)}
    return all(_is_tree(c, inside) for c in (x.values() if isinstance(x, dict) else x))


def _is_opaque(x: Any) -> bool:
    """Values that are no containers of arrays are leaves."""
    return not is_valid_value(x) and type(x) not in (dict, list, tuple)
