"""Control flow: cond, switch, while_loop, fori_loop, scan, map, and solvers with derivatives of
their own.

Public names only; each lives in the module it is imported from.
"""
