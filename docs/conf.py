"""How Sphinx builds the site from these pages; `make docs` does it.

Nothing on the built pages is loaded from elsewhere, and they work from a folder without a server.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes

import coterie

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ARRAY = re.compile(r"~?(?:numpy\.)?ndarray\[tuple\[.+?\], ~?(?:numpy\.)?dtype\[(.+?)\]\]")
REQUEST = re.compile(r"~?[\w.]*Fetch \|[^\[\]]+?Train(?=, )")

project = "Coterie"
author = "The Coterie authors"
project_copyright = "The Coterie authors, Apache-2.0"
version = release = coterie.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
# Headings can be linked to as on GitHub, down to the third level.
myst_heading_anchors = 3
# Or --options would become dashes.
smartquotes = False

# Docstrings are written for people who read code: `name` is code, not a reference.
default_role = "code"
napoleon_google_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True

# A reference to something of ours that is not there fails the build; other packages' pages are
# elsewhere, and are not asked.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!coterie\b).*")]

html_theme = "furo"
html_title = "Coterie"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Summaries would have to be fetched, which pages of a folder cannot do.
html_show_search_summary = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#005b96",
        "color-brand-content": "#005b96",
        "color-brand-visited": "#7a3e74",
    },
    "dark_css_variables": {
        "color-brand-primary": "#56b4e9",
        "color-brand-content": "#56b4e9",
        "color-brand-visited": "#cc79a7",
    },
    "navigation_with_keys": True,
}


def keep_colons(
    app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]
) -> None:
    """Keep what stands before a colon in the text of an attribute: napoleon takes it for a type."""
    if what in ("attribute", "data", "property") and lines and ":" in lines[0]:
        lines[0] = f": {lines[0]}"


def shorten_types(
    app: Sphinx,
    what: str,
    name: str,
    found: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Write arrays and requests by the names of the code, not by what these stand for."""

    return signature and _shorten(signature), returned and _shorten(returned)


def _shorten(text: str) -> str:
    return REQUEST.sub("Request", ARRAY.sub(r"NDArray[\1]", text))


def write_dashes(app: Sphinx, page: nodes.document, name: str) -> None:
    """Write a dash between parameters and what they are, which Sphinx writes as two hyphens.

    The types of attributes are shortened here, because no event of autodoc has them.
    """
    for annotation in list(page.findall(addnodes.desc_annotation)):
        text = annotation.astext()
        if (shorter := _shorten(text)) != text:
            annotation.children = [nodes.Text(shorter)]
    for text in list(page.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def setup(app: Sphinx) -> None:
    """Connect the functions above; napoleon has the priority 500."""
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-signature", shorten_types)
    app.connect("doctree-resolved", write_dashes)
