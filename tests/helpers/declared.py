"""Counts to declare something about."""

import anyreward as ar
from anyreward.testing import random_episodes

S, A, H = 4, 3, 4
SETTING = ar.Setting(n_states=S, n_actions=A, horizon=H)


def counted(setting: ar.Setting = SETTING, episodes: int = 30, seed: int = 0) -> ar.Counts:
    counts = ar.Counts(setting, transfer=True)
    counts.add_episodes(*counts.checked(*random_episodes(setting, episodes, seed)))
    return counts
