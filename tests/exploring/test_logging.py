"""What the logger `anyreward` is told."""

import logging
import subprocess
import sys

import anyreward as ar
from anyreward.words import up


def test_explorations_begin_look_save_and_end_in_the_log(caplog, tmp_path):
    with caplog.at_level(logging.DEBUG, logger="anyreward"):
        atlas = ar.explore("double-chain", 4, max_episodes=50, env_args={"length": 5}, checkpoint=tmp_path / "it.atlas")
    told = [(record.levelname, record.getMessage()) for record in caplog.records if record.name.startswith("anyreward.exploring")]
    assert told[0] == ("INFO", "exploring double-chain with rf-trajectory, from episode 0 on")
    assert told[-1] == ("INFO", f"explored double-chain: epsilon {up(atlas.certificate.epsilon)} after 50 episodes")
    for t, epsilon in atlas.history:
        assert ("DEBUG", f"epsilon {up(epsilon)} after {t} episodes") in told
    assert ("DEBUG", f"saved 50 episodes in {tmp_path / 'it.atlas'}") in told


def test_resuming_is_told(caplog, tmp_path):
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=20, checkpoint=tmp_path / "it.atlas")
    with caplog.at_level(logging.INFO, logger="anyreward"):
        ar.explore(ar.envs.double_chain(5), 4, max_episodes=30, checkpoint=tmp_path / "it.atlas")
    assert "from episode 20 on" in caplog.text


def test_what_was_found_about_an_environment_is_told(caplog):
    with caplog.at_level(logging.INFO, logger="anyreward"):
        ar.explore("FrozenLake-v1", 4, max_episodes=5)
    report = ar.audit("FrozenLake-v1", 4)
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in report.lines() if line not in told] == []


def test_nothing_is_printed_unless_it_is_asked_for():
    """Beside the line about compiling, which may be the first."""
    explore = "ar.explore(ar.envs.double_chain(5), 4, max_episodes=20)"
    ask = "import logging, sys; print('ASKED', file=sys.stderr); logging.basicConfig(level=logging.INFO)"
    code = f"import anyreward as ar; {explore}; {ask}; {explore}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    before, after = done.stderr.split("ASKED\n")
    assert [line for line in before.splitlines() if "compiling" not in line] == []
    assert "INFO:anyreward.exploring.run:exploring a known model with rf-trajectory" in after
