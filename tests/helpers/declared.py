"""Counts to declare something about."""

import anyreward as ar

from .problems import random_episodes

S, A, H = 4, 3, 4
SETTING = ar.Setting(n_states=S, n_actions=A, horizon=H)


def counted(setting=SETTING, episodes=30, seed=0):
    counts = ar.Counts(setting, transfer=True)
    counts.add_episodes(*counts.checked(*random_episodes(setting, episodes, seed)))
    return counts
