"""The pages of the live view: the shell, its scripts, and a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from coterie.reports.live.hub import Hub
from coterie.reports.live.live_page import POLICY, live_page

HOSTS = ("127.0.0.1", "localhost")
"""Names under which this server may be asked: a page elsewhere cannot make a name of its own lead
here and then read along (DNS rebinding)."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(hub: Hub) -> FastAPI:
    """Return the application; it only ever reads."""
    app = FastAPI(title="coterie watch", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)

    @app.get("/")
    def page() -> Response:
        return Response(live_page(), 200, HEADERS, "text/html")

    @app.get("/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(_stream(hub), headers=HEADERS, media_type="text/event-stream")

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204, headers=HEADERS)  # browsers ask for one unasked

    return app


async def _stream(hub: Hub) -> AsyncIterator[str]:
    async for kind, data in hub.events():
        yield f"event: {kind}\ndata: {data}\n\n"
