"""The page in a notebook: the same `render`, with messages in place of a web server.

Each question has a thread of its own, so that the kernel hears the next one meanwhile: a stroke ends the plan that is being made.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import anywidget

from .desk import Desk, Superseded
from .drawing import as_json
from .exporting import script, style

log = logging.getLogger(__name__)


class StudioWidget(anywidget.AnyWidget):
    """A cell of a notebook that shows the page."""

    _esm, _css = script(), style()

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        super().__init__()
        self.on_msg(self._asked)

    def _asked(self, _: Any, message: Any, buffers: Any) -> None:
        """Has one question answered."""
        threading.Thread(target=self._answer, args=(message,), name="studio question", daemon=True).start()

    def _answer(self, message: Any) -> None:
        """Answers one question; the answer carries its number."""
        number = message.get("number") if isinstance(message, dict) else None
        try:
            answer = json.loads(as_json(self._desk.answer(message["name"], message["asked"])))
        except Superseded:
            answer = {"superseded": True}
        except ValueError as problem:
            answer = {"error": str(problem), "term": getattr(problem, "term", None)}
        except Exception:  # an answer that never came would leave the page waiting
            log.exception("the studio could not answer %s", message)
            answer = {"error": "The studio could not answer; the log of the notebook says why."}
        self.send({"number": number, "answer": answer})
