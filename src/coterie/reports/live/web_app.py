"""The web application of the live view: one page and a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from importlib import resources

from fastapi import FastAPI, Response
from fastapi.responses import StreamingResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from coterie.reports.html.page_shell import render_page
from coterie.reports.live.broadcaster import Broadcaster

HOSTS = ("127.0.0.1", "localhost")
"""The host names of this server. Other names are refused, so that no web page can read the runs by
DNS rebinding."""
HEADERS = {
    # Only a header can set this rule; the others are in the page, as in a report.
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_app(broadcaster: Broadcaster) -> FastAPI:
    """Return the application, which changes nothing."""
    app = FastAPI(title="coterie watch", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False)

    @app.get("/")
    def page() -> Response:
        return Response(_render_live_page(), 200, HEADERS, "text/html")

    @app.get("/events")
    async def events() -> StreamingResponse:
        return StreamingResponse(
            _stream(broadcaster), headers=HEADERS, media_type="text/event-stream"
        )

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204, headers=HEADERS)  # browsers request it

    return app


async def _stream(broadcaster: Broadcaster) -> AsyncIterator[str]:
    async for name, data in broadcaster.events():
        yield f"event: {name}\ndata: {data}\n\n"


@cache
def _render_live_page() -> str:
    """Return the report page without data, with the script that receives them."""
    script = (resources.files("coterie.reports.live") / "static" / "live.js").read_text("utf-8")
    return render_page("Coterie, live", None, more_scripts=[script], connect="'self'")
