"""The docs site: `make docs` builds it from the Markdown of this directory."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

import umiak

project = "Umiak"
author = "the authors of Umiak"
copyright = "the authors of Umiak, Apache-2.0"
version = release = umiak.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "cli_reference",
]
exclude_patterns = ["_build", "_extensions"]

# Links to a heading of another page work as they do in the repository's own view.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]

# `--local` is a flag, not a dash; in docstrings `name` is code.
smartquotes = False
default_role = "code"

nitpicky = True
# Types of other projects, whose inventories cannot be had while the site is built, and inner types of ours.
nitpick_ignore_regex = [("py:.*", r"(?!umiak\.(train|load|join|Config|Result)$).*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False

# A command is copied without its prompt and without what it prints.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = f"Umiak {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/umiak.svg"
html_theme_options = {
    "light_logo": "umiak.svg",
    "dark_logo": "umiak.svg",
    "light_css_variables": {"color-brand-primary": "#0b6e8a", "color-brand-content": "#0b6e8a"},
    "dark_css_variables": {"color-brand-primary": "#5cc3dd", "color-brand-content": "#5cc3dd"},
}
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "one-dark"

# Pages outside of this directory are part of the site under other names; links to them are right in the repository's view.
ELSEWHERE = {"../README.md": "index.md", "../CONTRIBUTING.md": "contributing.md", "../CHANGELOG.md": "changes.md"}


def _lead_to_pages_of_the_site(app, page, source):
    for there, here in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({there}", f"]({here}")


def _keep_stars(app, what, name, thing, options, lines):
    """In our docstrings a star belongs to a pattern or a product; only `…` is markup."""
    lines[:] = [re.sub(r"(`[^`]*`)|([*|])", lambda found: found[1] or f"\\{found[2]}", line) for line in lines]


def setup(app):
    app.connect("source-read", _lead_to_pages_of_the_site)
    app.connect("autodoc-process-docstring", _keep_stars)
