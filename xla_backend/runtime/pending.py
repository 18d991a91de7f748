"""Programs that go on while their callers do, as everybody but the client that runs them sees."""

from __future__ import annotations

# What becomes of programs whose process is a child, or ends.
LOST = (
    "this process was forked while its parent computed the result, and has no part in that; wait "
    "for it before the fork (x.block_until_ready())"
)
STOPPED = "it was stopped, because the process ends"


class Origin:
    """Who started a program."""

    __slots__ = ()

    def error(self, message: str) -> Exception:
        """What to raise where somebody waits for a program that failed for this reason."""
        raise NotImplementedError

    def took(self, nanoseconds: int) -> None:
        """The program has ended well after so much time of its own."""


class Job:
    """One run of a program that was started. It keeps all that it uses until it is over, whoever
    else gives that up."""

    __slots__ = ()

    def is_done(self) -> bool:
        """Whether `wait` would return or raise at once."""
        raise NotImplementedError

    def wait(self) -> None:
        """Return when the buffers that it makes are computed. What a signal handler raises ends the
        wait, not the program.

        Raises:
          what its origin says, each time: the program failed, or one that it comes after did.
        """
        raise NotImplementedError
