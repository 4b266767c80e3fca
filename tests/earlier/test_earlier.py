"""Files of earlier versions are read, and say what they no longer promise."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import anyreward as ar

pytestmark = pytest.mark.usefixtures("quick_look")
EARLIER = Path(__file__).parent


SAID = {
    "chain.atlas": [],
    "chain-paper.atlas": [],
    "masked.atlas": ["legal in unvisited states", "own reward"],
    "masked-one-reward.atlas": ["legal in unvisited states", "void", "own reward"],
    "ends-paid-pooled.atlas": ["always terminates it", "pooled over the steps", "own reward"],
    "paid.atlas": ["own reward"],
}


@pytest.mark.parametrize("name", SAID)
def test_files_of_earlier_versions_are_read_and_say_what_they_no_longer_promise(name, tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        atlas = ar.load(EARLIER / name)
    texts = [str(warning.message) for warning in said]
    assert len(texts) == len(SAID[name])
    for text, word in zip(texts, SAID[name], strict=True):
        assert "was saved by an earlier version" in text
        assert word in text
    if name.startswith("masked"):
        assert atlas.counts.setting.hidden_masks
        assert "which actions are legal" in str(atlas.certificate)
    if name == "masked-one-reward.atlas":
        assert not atlas.certificate.met
        assert "says nothing" in str(atlas.certificate)
    if name.startswith("ends"):
        assert "always terminates it" in str(atlas.certificate)
        with pytest.raises(ValueError, match="pooled over the steps"):
            atlas.plan("own")
        assert atlas.plan("own", stationary_rewards=True).lower >= 0
    if name == "paid.atlas":
        assert "always pays the same at the same step" in str(atlas.plan("own", rewards="deterministic"))
        assert "always pays the same" not in str(atlas.plan("own"))
    plan = atlas.plan(np.eye(atlas.counts.setting.n_states)[0])
    assert 0 <= plan.lower <= plan.upper
    atlas.save(tmp_path / "again.atlas")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what is saved now says all that it has to
        again = ar.load(tmp_path / "again.atlas")
    assert again == atlas
    if atlas.paid is not None and len(atlas.paid):
        assert again.paid == atlas.paid
        assert again.paid.pooled == atlas.paid.pooled


def test_bounds_of_earlier_versions_are_not_joint():
    """Step-dependent certificates keep the bound that they were made with; with stationary transitions there is no difference."""
    options = ar.load(EARLIER / "chain.atlas").certificate.options
    assert options["joint"] is False
    about = ar.explore(ar.envs.double_chain(length=5), 4, max_episodes=20, stationary=True, progress=False).certificate.to_dict()
    about["options"] = {name: value for name, value in about["options"].items() if name != "joint"}
    assert ar.Certificate.from_dict(about).options["joint"] is True
