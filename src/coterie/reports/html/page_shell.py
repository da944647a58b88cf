"""The HTML around the figures: one file with style, scripts and data.

Texts from runs may be hostile. They reach the page only inside one JSON element, in which every `<`
is escaped. The content security policy allows only the scripts with the given hashes, and no
loading.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib import metadata, resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coterie.reports.html.page_data import VIEWS
from coterie.reports.html.views.view_parts import Json

COMPONENTS = tuple(VIEWS)
"""The figures, in their order on the page; each has a view and a script."""
_BEFORE, _AFTER = ("core", "panel", "lines", "drawings", "cells"), ("page",)


def render_page(
    title: str,
    page_data: Json | None,
    *,
    more_scripts: Sequence[str] = (),
    connect: str = "'none'",
) -> str:
    """Return a page. The live page has no data at first, one more script and a data source."""
    scripts = [
        read_plotly(),
        *(read_static(f"{name}.js") for name in (*_BEFORE, *COMPONENTS, *_AFTER)),
    ]
    scripts = [_as_browser_reads(each) for each in (*scripts, *more_scripts)]
    template = _environment().get_template("page.html")
    return template.render(
        title=title,
        policy=security_policy(scripts, connect),
        style=Markup(read_static("style.css")),  # noqa: S704 — our own file
        scripts=[Markup(each) for each in scripts],  # noqa: S704 — our own, and plotly's
        page_data=None if page_data is None else Markup(_escape(page_data)),  # noqa: S704 — no <
        version=metadata.version("coterie"),
    )


def security_policy(scripts: Sequence[str], connect: str) -> str:
    """Return the content security policy: only these scripts may run, nothing may be loaded."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


@cache
def read_static(name: str) -> str:
    """Return the text of one of our scripts or styles."""
    return (resources.files("coterie.reports.html") / "static" / name).read_text(encoding="utf-8")


@cache
def read_plotly() -> str:
    """Return plotly.js from the package plotly."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _escape(page_data: Json) -> str:
    """Return the data as JSON that cannot close its script element."""
    text = json.dumps(page_data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _as_browser_reads(text: str) -> str:
    """Return a script as the browser reads it, because its hash depends on line ends."""
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("A script would close its own script element.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@cache
def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("coterie.reports.html"), autoescape=True, undefined=StrictUndefined
    )
