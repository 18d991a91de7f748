"""SciPy's LAPACK as programs call it, on whatever target: its custom calls, the check of their
arguments, and how many threads it uses meanwhile.
"""
