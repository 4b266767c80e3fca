"""Every theorem of docs/theory.md is named by the code that relies on it and by a test, and every reference leads to one."""

import re

import pytest

from .theorems import HEADED, PAGE, ROOT, linked, named_in, numbers, sections, theorems

TEXT = PAGE.read_text()


def test_every_theorem_is_relied_on_and_watched():
    found, used, watched = theorems(TEXT), named_in("src"), named_in("tests")
    assert len(found) >= 60
    assert len(set(found)) == len(found)
    assert [number for number in found if number not in used] == []
    assert [number for number in found if number not in watched] == []


def test_theorems_are_numbered_by_section():
    """The numbers of a section count up from 1, or from a; nothing is called a theorem that has no number."""
    for part in re.split(r"^(?=## \d)", TEXT, flags=re.M)[1:]:
        section, found = sections(part)[0], theorems(part)
        plain, lettered = [n for n in found if "." in n], [n for n in found if "." not in n]
        assert plain == [f"{section}.{k + 1}" for k in range(len(plain))]
        assert lettered == [f"{section}{letter}" for letter in "abc"[: len(lettered)]]
    assert len(re.findall(r"^### ", TEXT, re.M)) == len(HEADED.findall(TEXT))
    ours = TEXT.replace("Theorems 1 and 2 of the paper", "").replace("the paper's\nLemma 1", "")
    assert set(re.findall(r"\b(?:Lemma|Theorem)s? (\d+(?:\.\d+|[a-z])?)", ours)) <= set(theorems(TEXT))


@pytest.mark.parametrize("folder", ["src", "tests", "examples", "benchmarks"])
def test_references_lead_to_what_there_is(folder):
    there = {*theorems(TEXT), *sections(TEXT)}
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.stem in ("theorems", "test_theorems"):
            continue
        text = path.read_text()
        assert set(numbers(text)) <= there, path
        mentions = len(re.findall(r"`docs/theory\.md`", text))
        assert mentions == len(re.findall(r"`docs/theory\.md`,\s+\d", text)), f"{path} does not say which theorem it means"
        assert not re.search(r"[Ss]ections? \d[\w, ]* of\s+`?docs/theory", text), path


def test_the_page_links_to_both():
    assert linked(TEXT) == TEXT, "docs/theory.md is not up to date: run python -m tests.theorems"
    for number in ("13.3", "3a"):  # and would notice
        assert linked(TEXT.replace(f" {number} (", " 99.1 (")) != TEXT
