"""The page of the live view: that of a report, without data but with a source of them."""

from __future__ import annotations

from functools import cache
from importlib import resources

from coterie.reports.html.page_shell import page

POLICY = "frame-ancestors 'none'"
"""What only a header can say; all other rules stand in the page, as in a report."""


@cache
def live_page() -> str:
    """Return the page: it holds everything but what is told by events."""
    script = (resources.files("coterie.reports.live") / "static" / "live.js").read_text("utf-8")
    return page("Coterie, live", None, more_scripts=[script], connect="'self'")
