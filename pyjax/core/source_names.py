"""What the user's source calls things: the expression that ran, and the variable its value goes to.

Read from the source when an error is written. Layer: core.
"""

from __future__ import annotations

import ast
import linecache

from pyjax.core.source_info import Frame


def expression(frame: Frame) -> str:
    """The source of the expression that a frame stands at, if it is on one line; else empty."""
    positions = list(frame.code.co_positions())
    index = frame.lasti // 2
    if not 0 <= index < len(positions):
        return ""
    line, end_line, start, end = positions[index]
    if line is None or line != end_line or start is None or end is None:
        return ""
    source = linecache.getline(frame.file_name, line).encode()
    return source[start:end].decode()


def assigned_variable(frame: Frame) -> str:
    """What the value of the statement at a frame is assigned to; empty if it is not."""
    if frame.function_name.startswith("<") and frame.function_name != "<module>":
        return ""  # a lambda or comprehension: part of a statement of another function
    source = "".join(linecache.getlines(frame.file_name))
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a notebook's cell with magics, a template
        return ""
    line = frame.line
    found = ""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                found = ast.unparse(target)  # a later one lies inside this one
    return found
