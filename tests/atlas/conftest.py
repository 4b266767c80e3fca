"""A checkpoint that is well-formed, for tests that damage or forge one."""

import pytest

from ..helpers.checkpoints import go


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A checkpoint: its path, its bytes and its atlas."""
    path = tmp_path_factory.mktemp("files") / "good"
    atlas = go("path", path, 0.003)
    return path, path.read_bytes(), atlas
