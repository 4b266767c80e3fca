"""UMB files, the binary exchange format of model checkers, through the package umbi."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import replace_file

if TYPE_CHECKING:
    from .exporting import Model


def write_umb(model: Model, path: Path) -> None:
    """Writes a model as a UMB file: probabilities or intervals, names of actions, and labels as atomic propositions."""
    try:
        import umbi
        from umbi.datatypes import Interval
    except ImportError:
        raise ValueError("umbi is not installed: pip install 'anyreward[umb]', or choose a name that ends in .drn.") from None
    ats = umbi.ats.ExplicitAts()
    ats.num_players = 1
    rows, labels = list(model.states()), model.labels()
    actions = list(dict.fromkeys(choice.action for row in rows for choice in row))
    number = {action: i for i, action in enumerate(actions)}
    ats.num_choice_actions, ats.choice_action_to_name = len(actions), actions
    for _ in rows:
        ats.add_state()
    for s, row in enumerate(rows):
        for choice in row:
            made = ats.add_state_choice(s)
            made.action = number[choice.action]
            for target, low, high in zip(choice.targets.tolist(), choice.lower.tolist(), choice.upper.tolist(), strict=True):
                made.add_branch(target, low if model.empirical else Interval(low, high))
    ats.state_to_player = [0] * len(rows)
    ats.set_initial_states([model.initial])
    ats.num_initial_states = 1
    for label in sorted({label for each in labels for label in each}):
        ats.add_ap_annotation(name=label).set_state_values([label in each for each in labels])
    ats.validate()
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, "model.umb")
        umbi.ats.write(ats, written)
        replace_file(path, Path(written).read_bytes())
