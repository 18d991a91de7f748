"""Writing the stages of a compilation to files or to stdout, with XLA's names and formats.

interface     what compilers tell, and to whom
run_listener  what programs tell
dumper        who listens; it loads with the first compilation that asks for a dump
"""
