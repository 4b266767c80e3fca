"""What describes a release agrees with itself: the package, the changelog, the citation and the metadata."""

import re
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import anyreward as ar

ROOT = Path(__file__).parents[1]


def test_the_changelog_and_the_citation_name_the_version_and_its_date():
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    citation = dict(re.findall(r"^(version|date-released): (.+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    assert releases[0] == (ar.__version__, citation["date-released"])
    assert citation["version"] == ar.__version__
    assert sorted(releases, key=lambda release: release[1], reverse=True) == releases


def test_pinned_versions_are_within_what_is_declared():
    specifiers = pytest.importorskip("packaging.specifiers")
    requirements = pytest.importorskip("packaging.requirements")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / "requirements-dev.txt").read_text(), re.M))
    wanted = [*declared["dependencies"], *(line for extra in declared["optional-dependencies"].values() for line in extra)]
    for requirement in map(requirements.Requirement, wanted):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement
    versions = [name.rsplit(" ", 1)[1] for name in declared["classifiers"] if re.search(r"Python :: 3\.\d+$", name)]
    assert versions
    assert all(specifiers.SpecifierSet(declared["requires-python"]).contains(version) for version in versions)


def test_the_extras_that_the_makefile_installs_exist():
    extras = set(metadata.metadata("anyreward").get_all("Provides-Extra"))
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    for text in ((ROOT / "Makefile").read_text(), *groups["dev"]):
        for names in re.findall(r"(?:\.|anyreward)\[([a-z,]+)\]", text):
            assert set(names.split(",")) <= extras


def test_the_tools_of_the_site_are_pinned_and_change_no_package_of_the_tests():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["docs"]
    tests, site = (
        dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", (ROOT / f"requirements-{name}.txt").read_text(), re.M))
        for name in ("dev", "docs")
    )
    assert set(wanted) <= set(site)
    assert all(tests[name] == version for name, version in site.items() if name in tests)


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="this is no checkout of git")
def test_no_large_file_is_kept():
    """Nobody should have to download packages that somebody left in the folder. The largest file is a report with 1.9 MB."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    kept = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    assert len(kept) > 100
    assert [path.name for path in kept if path.stat().st_size > 2**21] == []
