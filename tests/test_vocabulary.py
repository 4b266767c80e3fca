"""The documentation, docstrings and printed sentences use one word for one thing: the list is in docs/reference/glossary.md."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "reference" / "glossary.md"
OWN = "## One word for one thing"


def ruled_out():
    """The words that the glossary rules out, with those to use in their place."""
    table = GLOSSARY.read_text().split(OWN)[1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    return {word: say for say, words in rows for word in words.split(", ")}


def prose(path):
    """What a reader reads in a file: of Python, docstrings and messages; of a page, all but code."""
    text = path.read_text()
    if path.suffix == ".py":
        constants = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
        text = "\n".join(node.value for node in constants if isinstance(node.value, str) and " " in node.value)
    else:
        text = re.sub(r"^```.*?^```", "", text.split(OWN)[0], flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)


PAGES = [path for path in ROOT.glob("docs/**/*.md") if not {"_build", "_made"} & set(path.parts)]
MORE = [*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.html"), *ROOT.glob("examples/*.py")]
FILES = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *MORE]


def pattern(words):
    each = "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)
    return re.compile(rf"\b(?:{each})s?\b", re.I)


def test_the_list_is_read():
    words = ruled_out()
    assert len(words) >= 40
    assert words["time step"] == "step"
    assert pattern(words).search("It has a time\n    step.")


@pytest.mark.parametrize("room", sorted({path.relative_to(ROOT).parts[0] for path in FILES}))
def test_one_word_for_one_thing(room):
    words = ruled_out()
    wrong = pattern(words)
    found = [
        f"{path.relative_to(ROOT)}: {' '.join(prose(path)[max(0, hit.start() - 40) : hit.end() + 20].split())!r}"
        for path in FILES
        if path.relative_to(ROOT).parts[0] == room
        for hit in wrong.finditer(prose(path))
    ]
    assert not found, "\n".join(found)
