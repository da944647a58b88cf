"""The HTML around the figures: one file with style, scripts and data, and a policy that binds it.

Texts from runs are hostile. They reach the page only inside one JSON element, in which no `<` is
left, and the policy lets no script run but those whose hashes it names, and nothing be loaded.
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
"""The figures in the order in which a page shows them; each is a view and a script."""
_BEFORE, _AFTER = ("core", "panel", "lines", "drawings", "cells"), ("page",)


def page(
    title: str,
    story: Json | None,
    *,
    more_scripts: Sequence[str] = (),
    connect: str = "'none'",
) -> str:
    """Return a whole page. A live view has no story at first, scripts of its own and a source."""
    scripts = [plotly(), *(static(f"{name}.js") for name in (*_BEFORE, *COMPONENTS, *_AFTER))]
    scripts = [_for_script(each) for each in (*scripts, *more_scripts)]
    template = _environment().get_template("page.html")
    return template.render(
        title=title,
        policy=policy(scripts, connect),
        style=Markup(static("style.css")),  # noqa: S704 — our own file
        scripts=[Markup(each) for each in scripts],  # noqa: S704 — our own, and plotly's
        story=None if story is None else Markup(_json(story)),  # noqa: S704 — without any <
        version=metadata.version("coterie"),
    )


def policy(scripts: Sequence[str], connect: str) -> str:
    """Return the content security policy: only these scripts, nothing from anywhere."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


@cache
def static(name: str) -> str:
    """Return the text of a script or style of ours."""
    return (resources.files("coterie.reports.html") / "static" / name).read_text(encoding="utf-8")


@cache
def plotly() -> str:
    """Return plotly.js, which the package plotly brings along."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _json(story: Json) -> str:
    """Return the data as JSON that cannot end the script element it stands in."""
    text = json.dumps(story, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _for_script(text: str) -> str:
    """Return a script as the browser will see it, on which its hash depends."""
    if "</script" in text.lower() or "<!--" in text:
        raise ValueError("A script would end the element that it stands in.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@cache
def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("coterie.reports.html"), autoescape=True, undefined=StrictUndefined
    )
