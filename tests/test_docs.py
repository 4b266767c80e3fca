"""The pages of docs/ hang together: links lead somewhere, everything public has its place, newcomers find their answers.

`make docs` checks more, executes the tutorials and takes a minute; these are the parts that take no time.
"""

import re
from functools import cache
from pathlib import Path

import pytest

import anyreward as ar

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "_made"} & set(path.relative_to(DOCS).parts))
TEXTS = [*PAGES, *ROOT.glob("*.md")]
EXAMPLES = {"simulator": "call_centre", "logs": "logs", "rewards": "asking"}  # which program a tutorial takes apart


def links(path):
    """The relative links of a page, as (file, anchor)."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (path.parent / file).resolve() if file else path, anchor


@cache
def anchors(path):
    """The anchors of the headings of a page, as GitHub and Sphinx make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", path.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"[*`]|\]\(.*?\)", "", heading).lower()).replace(" ", "-") for heading in headings}


def successors(path):
    """Where one click leads: the links of a page, and what its table of contents names."""
    found = {file for file, _ in links(path)}
    for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(), re.S):
        names = [line for line in block.splitlines() if line and not line.startswith(":")]
        found |= {(path.parent / f"{name}.md").resolve() for name in names}
    return {file for file in found if file in PAGES}


def cells(path):
    return [
        "\n".join(line for line in cell.splitlines() if not line.startswith(":"))
        for cell in re.findall(r"```\{code-cell\}[^\n]*\n(.*?)```", path.read_text(), re.S)
    ]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for file, anchor in links(path):
        assert file.exists(), f"{path.name} links to {file}, which does not exist"
        if anchor:
            assert anchor in anchors(file), f"{path.name} links to #{anchor} of {file.name}"


def test_every_algorithm_is_in_the_table():
    table = (DOCS / "algorithms.md").read_text()
    assert all(f"| `{name}` |" in table for name in ar.ALGORITHMS)


@pytest.mark.parametrize(("tutorial", "example"), EXAMPLES.items())
def test_a_tutorial_shows_what_its_example_runs(tutorial, example):
    """Every class and function of the example that the tutorial shows is there word for word."""
    page, program = DOCS / "tutorials" / f"{tutorial}.md", (ROOT / "examples" / f"{example}.py").read_text()
    assert f"examples/{example}.py" in page.read_text()
    shown = [part for cell in cells(page) for part in re.split(r"\n{3,}(?=\S)", cell) if re.match(r"(class|def) ", part)]
    named = [part for part in shown if f"{part.splitlines()[0]}\n" in program]
    assert named
    for part in named:
        assert part.rstrip() in program


def test_tutorials_assert_what_they_show():
    for path in (DOCS / "tutorials").glob("*.md"):
        if cells(path):
            assert any(re.search(r"^\s*assert |check_explorer|raise RuntimeError", cell, re.M) for cell in cells(path)), path.name


def test_newcomers_find_their_answers_within_two_clicks():
    """The reader's test of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## The reader's test") :].split("\n## ")[0]
    questions = re.findall(r"^\| (.+?\?) \| .*?\]\((docs/[^)#]+)(?:#([^)]+))?\)", section, re.M)
    assert len(questions) >= 10
    first = DOCS / "index.md"
    once = {first} | successors(first)
    twice = once.union(*map(successors, once))
    for question, page, anchor in questions:
        assert (ROOT / page).resolve() in twice, question
        assert not anchor or anchor in anchors((ROOT / page).resolve()), question
