"""Where in the user's code something happened: cheap capture, lazy formatting.

A capture is the code object and instruction offset of the innermost frame outside the library, with
the name stack; line numbers and source text are looked up only when somebody prints them. What an
operation is traced at also knows who called that function, up to the function that is traced: see
`core/call_chains.py`.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import threading
import warnings
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pyjax._config import blocks
from pyjax._config.blocks import Leaving, take_out

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BACKEND = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "xla_backend") + os.sep
_OPTIONS = os.path.dirname(os.path.abspath(blocks.__file__)) + os.sep  # `config/` of a checkout
_PROGRAMS = {
    os.path.join(_PACKAGE, "tools", "demo.py")
}  # a user's program that happens to live here
_HIDDEN_FILES = {threading.__file__, "<frozen runpy>"}
# Methods that are made of text, as those of data classes are, name no file; neither does the user's
# program of `python -c`.
if "-c" not in sys.orig_argv[1:] or hasattr(sys.modules["__main__"], "__file__"):
    _HIDDEN_FILES.add("<string>")
_HIDDEN_PREFIXES = (_PACKAGE, _BACKEND, _OPTIONS, "<frozen ")
excluded_paths: list[str] = []  # paths that libraries have hidden, too
_HIDDEN_ENDINGS = ("contextlib.py", "functools.py")
# What runs the cells of notebooks. The cells are files of folders named `ipykernel_` and a number.
_HIDDEN_PARTS = tuple(f"{os.sep}{name}{os.sep}" for name in ("IPython", "ipykernel"))

# Whether a file belongs to the library: decided once per file. Keyed by name, whose hash is kept;
# the hash of a code object is computed from its contents each time.
internal_files: dict[str, bool] = {}


def is_internal_file(filename: str) -> bool:
    """Whether frames of this file are hidden from users."""
    hidden = (
        filename.startswith((*_HIDDEN_PREFIXES, *excluded_paths))
        or filename in _HIDDEN_FILES
        or filename.endswith(_HIDDEN_ENDINGS)
        or any(part in filename for part in _HIDDEN_PARTS)
    )
    return hidden and filename not in _PROGRAMS


def include_frame(frame: FrameType) -> bool:
    """Whether a frame is the user's, and is shown."""
    return not is_internal_file(frame.f_code.co_filename)


def register_exclusion(path: str) -> None:
    """Hide frames of files whose names begin so, as those of pyjax are hidden: operations and
    messages name the line that called them.

    >>> register_exclusion("/opt/my_library/")
    """
    excluded_paths.append(path)
    internal_files.clear()


class _NameScopes(threading.local):
    opened: list[name_scope]  # the innermost scope first

    def __init__(self) -> None:
        self.opened = []


_scopes = _NameScopes()


class name_scope:
    """Context manager: `name` is appended to the names of operations traced inside.

    >>> def layer(x):
    ...     with extend_name_stack("layer"):
    ...         return 2 * x
    >>> "layer/mul" in pyjax.jit(layer).lower(1.0).as_text(debug_info=True)
    True
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        opened = _scopes.opened
        opened[:0] = (self,)

    __exit__ = Leaving(lambda manager: take_out(_scopes.opened, manager))


def current_names() -> tuple[str, ...]:
    """The names of this thread's scopes, the outermost first."""
    opened = _scopes.opened
    return tuple([scope._name for scope in opened[::-1]]) if opened else ()


class NameStack(NamedTuple):
    """Names of scopes, the outermost first.

    >>> str(NameStack(("encoder", "layer")))
    'encoder/layer'
    """

    stack: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "/".join(self.stack)


class Frame:
    """A place in the user's code, with the name stack at that moment.

    Attributes:
      caller: the place that called this function, if that belongs to what was being traced.
      outside: the place is not in what was being traced, but called it: a function of the library
        was traced for this line, and may be used for others.
      depth: how many places the chain has, this one counted.
      scope: the number of the trace that `caller` ends at; 0 if there was none.
      rules: if faults are looked for, the differentiation rules that made an operation of the one
        at this place, the first applied first.
      lanes: then, too, the vmaps around the operation (`core.fault_checks.Lane`), innermost first.
      attributes: what the compiler is told about the operation (`core.xla_attributes`).

    >>> (eqn,) = pyjax.make_jaxpr(lambda x: x + 1)(1.0).eqns
    >>> isinstance(eqn.source, SourceInfo), eqn.source.function_name
    (True, '<lambda>')
    """

    __slots__ = (
        "attributes",
        "caller",
        "code",
        "depth",
        "lanes",
        "lasti",
        "names",
        "outside",
        "rules",
        "scope",
    )

    def __init__(
        self,
        code: CodeType,
        lasti: int,
        names: tuple[str, ...] = (),
        caller: Frame | None = None,
        scope: int = 0,
        outside: bool = False,
        rules: tuple[str, ...] = (),
        lanes: tuple[Any, ...] = (),
        attributes: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.code = code
        self.lasti = lasti
        self.names = names
        self.caller = caller
        self.depth: int = 1 if caller is None else caller.depth + 1
        self.scope = scope
        self.outside = outside
        self.rules = rules
        self.lanes = lanes
        self.attributes = attributes

    def updated(self, **fields: Any) -> Frame:
        """The same place with some attributes replaced."""
        kept = {name: getattr(self, name) for name in self.__slots__ if name != "depth"}
        return Frame(**{**kept, **fields})

    def chain(self) -> list[Frame]:
        """This place, who called it, and so on outwards."""
        found: list[Frame] = []
        frame: Frame | None = self
        while frame is not None:
            found.append(frame)
            frame = frame.caller
        return found

    def key(self) -> tuple[object, ...]:
        """Equal for the same place; who called it, and in which trace, does not count."""
        return id(self.code), self.lasti, self.names, self.rules, self.lanes, self.attributes

    @property
    def file_name(self) -> str:
        return self.code.co_filename

    @property
    def function_name(self) -> str:
        return self.code.co_name

    @property
    def line(self) -> int:
        """The line number (1-based); found from the instruction offset when asked."""
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.lasti < end and number is not None:
                return number
        return line

    @property
    def name_stack(self) -> NameStack:
        """The names of scopes around it, the outermost first."""
        return NameStack(self.names)

    def __repr__(self) -> str:
        return f"{os.path.basename(self.file_name)}:{self.line} ({self.function_name})"


def python_user_frame() -> FrameType | None:
    """The innermost running frame outside the library."""
    frame: FrameType | None = sys._getframe(1)
    internal = internal_files
    while frame is not None:
        filename = frame.f_code.co_filename
        hidden = internal.get(filename)
        if hidden is None:
            hidden = internal[filename] = is_internal_file(filename)
        if not hidden:
            return frame
        frame = frame.f_back
    return None


def user_frame() -> str:
    """Text of the innermost user frame, for error messages: `train.py:42 in loss:   if x > 0:`."""
    frame = python_user_frame()
    if frame is None:
        return ""
    return summarize(Frame(frame.f_code, frame.f_lasti))


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` at the innermost line outside the library, whatever lies between."""
    frame = python_user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )


def user_frames(most: int) -> str:
    """The innermost user frames, at most so many, one a line."""
    lines: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(lines) < most:
        if not is_internal_file(frame.f_code.co_filename):
            lines.append(summarize(Frame(frame.f_code, frame.f_lasti)))
        frame = frame.f_back
    return "\n".join(lines)


def called_function() -> str:
    """`name: ` of the public function that the user's code called, for error messages; else empty.

    It is the outermost function between the user's frame and here that has a public name: decorated
    functions are called through the wrappers of their decorators.
    """
    frame: FrameType | None = sys._getframe(1)
    found = ""
    while frame is not None and is_internal_file(frame.f_code.co_filename):
        code = frame.f_code
        if not code.co_name.startswith(("_", "<")) and "<locals>" not in code.co_qualname:
            found = code.co_qualname
        frame = frame.f_back
    return f"{found}: " if found else ""


def current_source() -> Frame | None:
    """The user's place that is running, with the names of scopes around it.

    >>> def here():
    ...     return current().function_name
    >>> here()
    'here'
    """
    frame = python_user_frame()
    return None if frame is None else Frame(frame.f_code, frame.f_lasti, current_names())


def summarize_source(source_info: Frame | None, num_frames: int = 1) -> str:
    """`/path/file.py:42 (function)` of a place, and of as many of its callers as asked for.

    >>> def here():
    ...     return summarize(current())
    >>> here().endswith("(here)")
    True
    """
    if source_info is None:
        return "unknown"
    chain = source_info.chain()[:num_frames]
    return "\n".join(f"{f.file_name}:{f.line} ({f.function_name})" for f in chain)


def summarize(frame: Frame | None) -> str:
    """`file.py:42 in function:   source text`; empty when there is no frame."""
    if frame is None:
        return ""
    line = frame.line
    text = linecache.getline(frame.file_name, line).strip()
    if len(text) > 100:
        text = text[:97] + "..."
    place = f"{os.path.basename(frame.file_name)}:{line} in {frame.function_name}"
    return f"{place}:   {text}" if text else place


def function_location(fun: Any) -> str:
    """`name at file.py:12` for a Python function; its name alone for other callables."""
    return place_text(*function_place(fun))


def function_place(fun: Any) -> tuple[str, CodeType | None]:
    """The name of a callable, and its code if it is a Python function: what its location is
    written from, when somebody wants to read it."""
    inner = unwrapped(fun)
    inner = getattr(inner, "func", inner)
    return function_name(fun), getattr(inner, "__code__", None)


def place_text(name: str, code: CodeType | None) -> str:
    """`name at file.py:12`."""
    if code is None:
        return name
    return f"{name} at {os.path.basename(code.co_filename)}:{code.co_firstlineno}"


# More than anybody has; objects that make up attributes have no innermost one either.
_MOST_WRAPPED = 200


def unwrapped(fun: Any) -> Any:
    """The innermost of what a function wraps, as `functools.wraps` notes it; of functions that wrap
    each other in a circle, one of them."""
    for _ in range(_MOST_WRAPPED):
        if not hasattr(fun, "__wrapped__"):
            break
        fun = fun.__wrapped__
    return fun


def is_of_library(fun: Any) -> bool:
    """Whether a function is known to be one of pyjax's own."""
    code = getattr(unwrapped(fun), "__code__", None)
    return code is not None and is_internal_file(code.co_filename)


def function_name(fun: Any) -> str:
    """The name under which a callable appears in jaxprs and messages."""
    name = getattr(fun, "__name__", None)
    while name is None and isinstance(fun, functools.partial):  # others' `func` is their own affair
        fun = fun.func
        name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else type(fun).__name__
