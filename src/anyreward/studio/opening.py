"""`studio`: what is shown, where it is served, and when it ends."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..atlas.atlas import Atlas
from ..setting import boolean, shown, whole_number
from .desk import Desk
from .live import Live

if TYPE_CHECKING:
    from .widget import StudioWidget

HOST = "127.0.0.1"
NEEDED = "the studio needs two more packages: pip install 'anyreward[studio]'."
NOTEBOOK = "the studio in a notebook needs one more package: pip install 'anyreward[notebook]'."


def studio(
    atlas: Atlas | Mapping[str, Atlas],
    *,
    env: Any = None,
    grid: tuple[int, int] | None = None,
    out: str | Path | None = "explored.atlas",
    port: int = 0,
    host: str = HOST,
    browser: bool = True,
    wait: bool | None = None,
) -> Serving | StudioWidget | None:
    """Shows atlases on a page where one paints a reward, and sees the plan, its certified interval and what makes it wide.

        ar.studio(atlas)                                # opens a browser, and serves the page until Ctrl-C
        with ar.studio(atlas, wait=False) as page:      # goes on; page.url is where it is
            ...

    In a notebook with the extra `notebook`, it is a widget of the cell instead.

    Parameters
    ----------
    atlas : Atlas, or mapping of str to Atlas
        What to plan in; several by the names under which they are offered.
    env : optional
        The environment that was explored, so that the page can explore it further, in any of the forms that `explore` takes.
    grid : (int, int), optional
        Rows and columns, if the states are the cells of a grid, numbered row by row. Known for grid worlds.
    out : path, optional
        Where what is explored on the page is saved. A file that is there already is left alone: a number is added to the name.
    port : int, default 0
        0: any that is free.
    host : str, default "127.0.0.1"
        Where to listen. With any other address than that of this machine, whoever can reach it and has the page's address, whose
        fragment is the key, can plan and explore here.
    browser : bool, default True
        Whether to open a browser.
    wait : bool, optional
        Whether to serve until Ctrl-C before going on. None: unless Python is used interactively.

    Returns
    -------
    Serving, a widget, or None
        None after waiting. What is served ends with the program, or by `Serving.close`.
    """
    desk = desk_for(atlas, env, grid, out)
    boolean(browser, "browser")
    if in_notebook() and wait is None:
        try:
            from .widget import StudioWidget
        except ImportError:
            raise ValueError(NOTEBOOK) from None
        return StudioWidget(desk)
    serving = Serving(desk, whole_number(port, "port"), host)
    if browser:
        webbrowser.open(serving.url)
    if not (not hasattr(sys, "ps1") if wait is None else boolean(wait, "wait")):
        return serving
    print(f"The studio is at {serving.url}\nCtrl-C ends it.", flush=True)
    with serving:
        serving.wait()
    return None


def desk_for(atlas: Any, env: Any, grid: Any, out: Any) -> Desk:
    """The desk for what `studio` is given, checked."""
    atlases = dict(atlas) if isinstance(atlas, Mapping) else {"atlas": atlas}
    if not atlases:
        raise ValueError("there is no atlas to show: give at least one.")
    for name, each in atlases.items():
        if not isinstance(each, Atlas):
            raise ValueError(f"{name} is {shown(each)}: the studio shows an atlas, or a mapping from names to atlases.")
    first = next(iter(atlases.values()))
    if grid is not None:
        from ..plots import grid_of

        grid_of(first, grid)  # raises if it does not fit
    known = {} if env is None else {str(first.source.get("env", "the environment")): env}
    return Desk(atlases, Live(known, None if out is None else Path(out)), grid)


def in_notebook() -> bool:
    """Whether this is a cell of a notebook, which can show widgets."""
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and hasattr(running, "kernel")


class Serving:
    """A page that is served: `url` says where, `close` ends it.

    Parameters
    ----------
    desk : Desk
    port : int
    host : str
    """

    def __init__(self, desk: Desk, port: int = 0, host: str = HOST) -> None:
        try:
            import uvicorn

            from .server import application
        except ImportError:
            raise ValueError(NEEDED) from None
        if not 0 <= port < 2**16:
            raise ValueError(f"port is {port}: it has to be from 0, for any that is free, to 65535.")
        self.desk, self.token = desk, secrets.token_urlsafe(24)
        try:
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as problem:
            raise ValueError(f"the studio cannot listen at {host}, port {port}: {problem.strerror or problem}.") from None
        self.port = int(self._socket.getsockname()[1])
        named = f"[{host}]" if ":" in host else host
        names = {named, *(("localhost", "127.0.0.1") if host in (HOST, "localhost") else ()), *_all_names(host)}
        self.url = f"http://{named if host not in ('0.0.0.0', '::') else 'localhost'}:{self.port}/#key={self.token}"
        app = application(desk, [f"{name}:{self.port}" for name in names], self.token)
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none", limit_concurrency=100,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="studio", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)

    def wait(self) -> None:
        """Returns when the page is not served any more; Ctrl-C ends it."""
        try:
            while self._thread.is_alive():
                self._thread.join(0.5)
        except KeyboardInterrupt:
            pass

    def close(self) -> None:
        """Ends it: explorations of the page end after the stretch under way."""
        self.desk.live.close()
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Serving({self.url})"


def _all_names(host: str) -> set[str]:
    """The names of this machine, if it listens at all of its addresses."""
    if host not in ("0.0.0.0", "::"):
        return set()
    try:
        addresses = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        addresses = set()
    named = {f"[{address}]" if ":" in address else address for address in addresses}
    return {socket.gethostname(), "localhost", "127.0.0.1", "[::1]", *named}
