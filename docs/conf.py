"""How `make docs` builds the site: reads the pages of this folder, executes those that have code cells, and checks every link.

What the build makes of the code itself, the reference of the command line, is written to `docs/_made/`.
"""

import inspect
import os
import re
import textwrap
from pathlib import Path

import click
import typer
from jupyter_client.manager import KernelManager

import anyreward
from anyreward.cli import app as command_line

HERE = Path(__file__).parent

project = "anyreward"
author = "The anyreward developers"
version = release = anyreward.__version__
html_show_copyright = False

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "_made", "reproduced"]
default_role = "py:obj"  # `Atlas.plan` in a docstring is a link where there is such an object, and code otherwise

# Pages are MyST Markdown, which is readable on GitHub as well. Links of one page to a heading of another are checked.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]

# Executed pages. An error ends the build. Nothing is taken from a cache, so that the outputs are those of this code.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # for a cell; compiling for the first time takes a while
nb_merge_streams = True
KernelManager.transport_encryption.default_value = "auto"  # what kernels are told and answer is for nobody else on this machine
os.environ["IPYTHONDIR"] = str(HERE / "_made" / "ipython")  # not the user's, which may run code of the user's at every start

# The reference, from the docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_use_ivar = True
add_module_names = False

html_theme = "pydata_sphinx_theme"
html_title = "anyreward"
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_nav_level": 1,
    "footer_start": [],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
    "pygments_light_style": "tango",
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"


def command_reference() -> str:
    """A section for each command of the command line: what `anyreward COMMAND --help` prints."""
    group = typer.main.get_command(command_line)
    top = click.Context(group, info_name="anyreward", terminal_width=88, max_content_width=88)
    sections = [f"```text\n{group.get_help(top)}\n```\n"]
    for name, command in group.commands.items():
        context = click.Context(command, info_name=name, parent=top, terminal_width=88, max_content_width=88)
        sections.append(f"## anyreward {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(sections)


def plain(text: str) -> str:
    """Words of a docstring as Markdown: what is in backticks is code, theorems are links, everything else is literal."""
    parts = re.split(r"(`[^`]*`)", text)
    text = "".join(part if i % 2 else re.sub(r"([\\*_\[\]<>~|])", r"\\\1", part) for i, part in enumerate(parts))
    return NAMED.sub(
        lambda named: re.sub(NUMBER, lambda found: f"[{found[0]}](../theory.md#{THEOREMS[found[0]]})", named[0]), text
    )


def formulas() -> str:
    """A section for each algorithm: what its file says first, with the formulas."""
    sections = []
    for name, kind in sorted(anyreward.ALGORITHMS.items()):
        text = inspect.getdoc(inspect.getmodule(kind)) or ""
        written = []
        for paragraph in text.split("\n\n"):
            lines = paragraph.splitlines()
            formula = all(line.startswith("    ") for line in lines) or any(re.search(r"\S {3,}\S", line) for line in lines)
            written.append(f"```text\n{textwrap.dedent(paragraph)}\n```" if formula else plain(paragraph))
        facts = f"*{kind.goal[0].upper()}{kind.goal[1:]}.* Own guarantee: {plain(kind.guarantee)}."
        sections.append(f"## {name}\n\n{facts}\n\n" + "\n\n".join(written) + "\n")
    return "\n".join(sections)


ROOT_PAGES = {"contributing": "CONTRIBUTING.md", "changelog": "CHANGELOG.md", "security": "SECURITY.md"}


def follow_root_pages(app, docname, source) -> None:
    """Pages of the root are pages of the site. Links to them and from them are written for readers of the repository."""
    text, up = source[0], "../" * docname.count("/")
    if docname in ROOT_PAGES:
        text = re.sub(r"\]\((?!https?:|#|docs/)", "](../", (HERE.parent / ROOT_PAGES[docname]).read_text()).replace(
            "](docs/", "]("
        )
    for page, file in ROOT_PAGES.items():
        text = text.replace(f"](../{up}{file}", f"]({up}{page}.md")
    source[0] = text


RESULTS = {
    "Atlas", "Audit", "Certificate", "ConstrainedPlan", "Drift", "Explanation", "GoalPlan", "Interval", "Plan", "TradeOff",
    "Verification",
}  # fmt: skip


def show_signature(app, what, name, obj, options, signature, annotation):
    """What the library makes and nobody constructs has no signature; types are shown by their last names."""
    if what == "class" and name.rsplit(".", 1)[-1] in RESULTS:
        return "", annotation
    short = None if signature is None else re.sub(r"~?\b(?:\w+\.)+(?=[A-Za-z_])", "", signature).replace("<factory>", "...")
    return short, annotation


NUMBER = r"\d+(?:\.\d+|[a-z])?"
THEOREMS = {  # the anchor of each theorem and section of theory.md
    found[1]: re.sub(r"[^\w\- ]", "", found[0].lstrip("# ").lower()).replace(" ", "-")
    for found in re.finditer(r"^##+ (?:(?:Lemma|Theorem) )?(\d+(?:\.\d+|[a-z])?)\b.*$", (HERE / "theory.md").read_text(), re.M)
}
NAMED = re.compile(rf"(?<=`docs/theory\.md`,)\s+{NUMBER}(?:(?:,|,?\s+and)\s+{NUMBER})*")


def link_theorems(app, what, name, obj, options, lines) -> None:
    """What a docstring calls `docs/theory.md`, 13.3 is a link to that theorem. All pages of the reference are in one folder."""

    def links(named: re.Match) -> str:
        return re.sub(NUMBER, lambda found: f"`{found[0]} <../theory.html#{THEOREMS[found[0]]}>`__", named[0])

    lines[:] = NAMED.sub(links, "\n".join(lines)).split("\n")


SECTION = re.compile(r"^(Parameters|Attributes|Returns|Yields|Raises|Methods|Other Parameters)$")


def show_code(app, what, name, obj, options, lines) -> None:
    """Indented lines of a docstring's text are examples: they become code blocks. Lists of parameters stay as they are."""
    if what == "property":
        lines.insert(0, "")  # or else what stands before a colon is taken for its type
    text, listing, in_code = [], False, False
    for i, line in enumerate(lines):
        underlined = i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1]) is not None
        if underlined:
            listing = SECTION.match(line) is not None
        blank_before = i == 0 or not lines[i - 1].strip()
        if not listing and line.startswith("    ") and blank_before and not in_code:
            text += [".. code-block:: text" if "-->" in line else ".. code-block:: python", ""]
            in_code = True
        if line.strip() and not line.startswith("    "):
            in_code = False
        text.append(line)
    lines[:] = text


def write_what_is_made() -> None:
    made = HERE / "_made"
    made.mkdir(exist_ok=True)
    for name, text in {"command-line": command_reference(), "formulas": formulas()}.items():
        path = made / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app) -> None:
    write_what_is_made()
    app.connect("autodoc-process-signature", show_signature)
    app.connect("source-read", follow_root_pages)
    app.connect("autodoc-process-docstring", link_theorems, priority=50)
    app.connect("autodoc-process-docstring", show_code, priority=100)  # before napoleon
