"""The web server of the page, and who may talk to it.

Only this machine can connect, unless the reader asks for another address. A question has to carry the token, which is in the
fragment of the page's address: browsers do not send fragments, so that it is in no log and in no referrer. The page sends it in a
header, which no other site can do without a permission that is never given. Beyond that,

- the host that a request names has to be ours, so that a name of somebody else's that leads to this machine (DNS rebinding) is of
  no use;
- a request that comes from another origin is refused;
- a question is JSON of limited size, and nothing in it is opened, imported or run;
- the page may load nothing but its own files, and may not be shown inside another one (Content-Security-Policy).
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Iterable
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .desk import AT_ONCE, Desk, Superseded
from .drawing import as_json
from .exporting import STATIC

log = logging.getLogger(__name__)
TOKEN = "x-anyreward-token"
MAX_BODY, MAX_UPLOAD = 4 * 2**20, 16 * 2**20  # bytes of a question
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(Exception):
    """A request that is not answered: status and sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Guard:
    """Refuses whatever does not come from the page, and gives every answer its headers.

    Parameters
    ----------
    app
        What is guarded.
    hosts
        The values of the header Host that are ours, with their port.
    token
    """

    def __init__(self, app: Any, hosts: Iterable[str], token: str) -> None:
        self.app, self.hosts, self.token = app, frozenset(host.lower() for host in hosts), token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                kept = [(k, v) for k, v in message["headers"] if k.lower() not in NAMES]
                message = {**message, "headers": [*kept, *((k.lower().encode(), v.encode()) for k, v in HEADERS.items())]}
            await send(message)

        try:
            self.check(scope)
        except Refused as no:
            await JSONResponse({"error": no.sentence}, no.status)(scope, receive, marked)
            return
        await self.app(scope, receive, marked)

    def check(self, scope: Any) -> None:
        """Raises `Refused` if a request is not one of the page's own."""
        given: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value.decode("latin-1"))
        host = given.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self.hosts:
            raise Refused(421, "This is not the address of the studio.")
        origin = given.get(b"origin")
        if origin is not None and (len(origin) != 1 or origin[0].lower() != f"http://{host[0].lower()}"):
            raise Refused(403, "Another site may not ask the studio.")
        if given.get(b"sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            raise Refused(403, "Another site may not ask the studio.")
        if scope["path"].startswith("/api/"):
            token = given.get(TOKEN.encode(), [""])
            if len(token) != 1 or not hmac.compare_digest(token[0].encode(), self.token.encode()):
                raise Refused(401, "The address of the studio has a key, which is missing or outdated: open the address that was "
                                   "printed when the studio was started.")  # fmt: skip


NAMES = {name.lower().encode() for name in HEADERS} | {b"server"}


async def body_of(request: Request, most: int) -> Any:
    """The JSON of a question. Raises `Refused` if it is something else, or too large."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "A question has to be JSON.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise Refused(413, f"A question may have at most {most // 2**20} MB.")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(413, f"A question may have at most {most // 2**20} MB.")
        parts.append(part)
    try:
        asked = json.loads(b"".join(parts), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(400, "The question is not readable JSON.") from None
    if not isinstance(asked, dict):
        raise Refused(400, "A question has to be a JSON object.")
    return asked


def _no_constant(name: str) -> None:
    """Refuses NaN and Infinity, which are not JSON."""
    raise ValueError(name)


def application(desk: Desk, hosts: Iterable[str], token: str) -> Guard:
    """The application that answers for a desk, guarded."""
    works, looks = CapacityLimiter(8), CapacityLimiter(4)

    async def ask(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            asked = await body_of(request, MAX_UPLOAD if name == "upload" else MAX_BODY)
            limiter = looks if name in AT_ONCE else works
            answer = await to_thread.run_sync(desk.answer, name, asked, limiter=limiter)
            return Response(as_json(answer), media_type="application/json")
        except Refused as no:
            return JSONResponse({"error": no.sentence}, no.status)
        except Superseded:
            return JSONResponse({"superseded": True})
        except ClientDisconnect:
            return Response(status_code=499)
        except ValueError as problem:
            return JSONResponse({"error": str(problem), "term": getattr(problem, "term", None)}, 422)
        except MemoryError:
            return JSONResponse({"error": "This takes more memory than there is."}, 422)
        except Exception:
            log.exception("the studio could not answer %s", name)
            return JSONResponse({"error": "The studio could not answer; its terminal says why."}, 500)

    async def home(request: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    routes = [
        Route("/", home, methods=["GET"]),
        Route("/api/{name}", ask, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Guard(Starlette(routes=routes), hosts, token)
