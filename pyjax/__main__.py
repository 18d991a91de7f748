"""python -m pyjax: see `pyjax.tools.command_line`."""

from pyjax.tools.command_line import console

if __name__ == "__main__":
    console()
