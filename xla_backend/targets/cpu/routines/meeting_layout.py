"""The memory of a session and its places (see `meetings`), as native code and Python know it."""

from __future__ import annotations

# Why a run has ended before its end: partners never come, another participant failed.
NEVER_COME, ANOTHER_FAILED = 3, 4

# An engine gave up, and has an error.
ENGINE_FAILED = 5

# The header: why it has ended, how many participants stand still, how many there are here, and how
# often to look before sleeping; i32; the address of the engine. Behind it the number of the meeting
# that each participant waits in.
ENDED, STILL, PARTICIPANTS, SPINS, ENGINE = 0, 4, 8, 12, 16
HEADER_BYTES = 64
# A place: how often all had come and, in the lower bits, how many came since; how many sleep; how
# many members are here, 0 for all; the rank of the first; what the engine said; where members come
# early, how many meetings there were and, in the lower bits, how many wait for this one; i32. Then
# the addresses of tables; and for each member that is here which one of them it is, i32.
WORD, SLEEPERS, HERE, FIRST, STATUS, WAITING, TABLES = 0, 4, 8, 12, 16, 20, 64
# What a member that comes early or goes late keeps: the word of the place when it came, how many
# meetings there were before, and the word when it was ready to go; i32. Then its table.
CAME, EPOCH, READY, OWN_TABLE = 0, 4, 8, 16
LINE = 64


def places_start(participants: int) -> int:
    """Where the places of a session begin."""
    return HEADER_BYTES + _lines(4 * participants)


def place_bytes(members: int) -> int:
    """Of the place of a group."""
    return numbers_start(members) + _lines(4 * members)


def numbers_start(members: int) -> int:
    """Where a place says which of the members here a member is."""
    return TABLES + _lines(8 * members)


def state_bytes(addresses: int) -> int:
    """What one member keeps of a meeting that it comes early to, or leaves late."""
    return _lines(OWN_TABLE + 8 * addresses)


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE
