"""Which code relies on each theorem of `docs/theory.md`, and which tests watch it, as docstrings say it.

    python -m tests.theorems       # brings the lines "Used by ... Watched by ..." of that page up to date

A docstring or a comment names a theorem by its number: `docs/theory.md`, 13.2, or several as in `docs/theory.md`, 3a, 4.1 and
8.1. A number without a point is that of a section.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "theory.md"
NUMBER = r"\d+(?:\.\d+|[a-z])?"
REFERENCE = re.compile(rf"`docs/theory\.md`,\s+({NUMBER}(?:,?\s+and\s+{NUMBER}|,\s+{NUMBER})*)")
HEADED = re.compile(rf"^(### (?:Lemma|Theorem) ({NUMBER}) \(.+\))\n\n(?:\*Used by\* .*\n\n)?", re.M)


def numbers(text: str) -> list[str]:
    """The theorems and sections that a text names, in order."""
    return [number for found in REFERENCE.findall(text) for number in re.findall(NUMBER, found)]


def named_in(folder: str) -> dict[str, list[Path]]:
    """The files of a folder that name each theorem or section."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path != Path(__file__):
            for number in dict.fromkeys(numbers(path.read_text())):
                found.setdefault(number, []).append(path)
    return found


def theorems(page: str) -> list[str]:
    """The numbers of the theorems and lemmas of the page."""
    return [number for _, number in HEADED.findall(page)]


def sections(page: str) -> list[str]:
    """The numbers of its sections."""
    return re.findall(r"^## (\d+)\. ", page, re.M)


def linked(page: str) -> str:
    """The page with a line below the heading of each theorem, which links to the files that name it."""
    used, watched = named_in("src"), named_in("tests")

    def links(paths: list[Path], room: str) -> str:
        return ", ".join(f"[{path.relative_to(ROOT / room)}](../{path.relative_to(ROOT)})" for path in paths) or "nothing"

    def with_links(found: re.Match[str]) -> str:
        by, tests = links(used.get(found[2], []), "src/anyreward"), links(watched.get(found[2], []), "tests")
        return f"{found[1]}\n\n*Used by* {by}. *Watched by* {tests}.\n\n"

    return HEADED.sub(with_links, page)


if __name__ == "__main__":
    PAGE.write_text(linked(PAGE.read_text()))
