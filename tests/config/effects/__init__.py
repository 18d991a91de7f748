"""What each option visibly does: one row or more an option, in one module an area.

`table` declares rows, `observe` has what they look with, `pending` lists the options that have none
yet, `server` sets options and looks, in processes of their own; `test_effects.py` asks it.
"""
