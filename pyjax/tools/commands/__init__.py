"""The sub-commands of `pyjax`, one a module.

Each has `add(subparsers)`, which declares its parser and names the function that runs it:
`parser.set_defaults(run=...)`. That takes the parsed arguments and returns the exit status.
"""
