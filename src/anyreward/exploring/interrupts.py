"""Ctrl-C during an exploration: the first one asks it to stop where it can, a second one ends it at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during an exploration that was saved: says how to resume."""


@dataclass
class Interrupts:
    """Listens to Ctrl-C for an exploration, which looks at `requested` where it can stop.

    Parameters
    ----------
    message
        Gives the line that answers the first Ctrl-C, on stderr.
    """

    message: Callable[[], str]
    requested: bool = field(default=False, init=False)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """In this block the first Ctrl-C is noted and answered, and a second one raises KeyboardInterrupt.

        That is so in the main thread, where Python lets signals be handled, and unless the application has a handler of its own
        or ignores Ctrl-C.
        """
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, *_: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        with suppress(Exception):  # stderr may be closed, or in the middle of another line
            print(self.message(), file=sys.stderr, flush=True)
