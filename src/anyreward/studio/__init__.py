"""The reward studio: a page on which one paints a reward and sees the plan, its certified interval, and what makes it wide.

    ar.studio(atlas)                    # serves the page on this machine and opens it; in a notebook, shows it there

===============  ===================================================================================
`opening`        `studio` itself: what is shown, where it is served, when it ends
`server`         the web server, and who may talk to it
`desk`           answers what the page asks: plans, comparisons, goals, explorations
`asking`         what the page asks for, checked: rewards, states, numbers
`drawing`        atlases and plans as JSON that the page can draw
`exporting`      files for the reader: policies, rewards, a page that needs no server
`live`           explorations that are started and paused from the page
`widget`         the page in a notebook
`static/`        the page: one function `render({model, el})` in plain JavaScript modules
===============  ===================================================================================

The package is called like a function, which it is as well: ``anyreward.studio(atlas)`` is `opening.studio`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Studio(ModuleType):
    """A package that can be called."""

    def __call__(self, atlas: Any, **options: Any) -> Any:
        from .opening import studio

        return studio(atlas, **options)


sys.modules[__name__].__class__ = _Studio
