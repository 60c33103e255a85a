"""Sphinx's settings for the site. ``make docs`` runs it over the pages that scripts/site/stage.py puts together."""

import re
from typing import Any

from holdfast import __version__

project = "Holdfast"
author = "the authors of Holdfast"
project_copyright = "the authors of Holdfast, Apache-2.0"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["conf.py"]
suppress_warnings = ["misc.highlighting_failure"]  # blocks that leave something out with an ellipsis
smartquotes = False  # a quoted text is often code

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
add_module_names = False

html_theme = "furo"
html_title = f"Holdfast {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#12707a", "color-brand-content": "#12707a"},
    "dark_css_variables": {"color-brand-primary": "#4cc3cd", "color-brand-content": "#4cc3cd"},
}
highlight_language = "text"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

_MADE_BY_HOLDFAST = {"Run", "AsyncRun", "Store", "Agent", "Worker", "Tool"}
"""Classes that no program makes itself: how they are made says nothing to a reader."""


def _signature(
    _app: Any, what: str, name: str, _object: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    if what == "class" and name.rpartition(".")[2] in _MADE_BY_HOLDFAST:
        return "", None
    return _short(signature), _short(returns)


def _short(text: str | None) -> str | None:
    """Names of types without their modules, also where autodoc keeps them: in parameters of callables."""
    return text and re.sub(r"~(?:[a-z_]\w*\.)*", "", text)


def _docstring(_app: Any, what: str, name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """The groups of a run's attributes are the headings of its page."""
    if what == "class" and name.rpartition(".")[2] in {"Run", "AsyncRun"}:
        del lines[1:]


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("autodoc-process-signature", _signature)
