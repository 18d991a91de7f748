"""One module per scenario: `python -m tests.stress.scenarios.NAME SEED SECONDS`."""
