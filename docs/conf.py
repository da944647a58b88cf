"""How Sphinx builds the site from these pages; `make docs` does it.

Nothing on the built pages is loaded from elsewhere, and they work from a folder without a server.
"""

from __future__ import annotations

import coterie

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
