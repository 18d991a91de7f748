"""What a process has once: caches with budgets, locks that a fork waits for, finalizers that no
signal interrupts. It knows nothing of compilers; pyjax uses it on every floor, too.
"""
