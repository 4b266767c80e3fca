"""The command studio: it says where the page is, serves it until Ctrl-C, and says in one sentence what is wrong."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

import anyreward as ar
from anyreward.cli import app


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    path = tmp_path_factory.mktemp("atlases") / "chain.atlas"
    ar.explore(ar.envs.double_chain(5), 4, max_episodes=200, stationary=True).save(path)
    return path


def test_the_page_is_served_until_ctrl_c(chain, tmp_path):
    command = [sys.executable, "-m", "anyreward", "studio", str(chain), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            line = process.stdout.readline()
            assert process.stdout.readline() == "Ctrl-C ends it.\n"
            base, key = re.search(r"(http://127\.0\.0\.1:\d+)/#key=(\S+)", line).groups()
            headers = {"Content-Type": "application/json", "X-Anyreward-Token": key}
            with urllib.request.urlopen(urllib.request.Request(f"{base}/api/hello", b"{}", headers)) as answer:
                assert json.load(answer)["atlas"] == "chain"
        finally:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert (out, err) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.atlas"], "gone.atlas"),
        (["CHAIN", "--port", "99999"], "--port is 99999"),
        (["CHAIN", "--grid", "3x3"], "3 x 3"),
        (["CHAIN", "--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
        (["CHAIN", "--env", "nowhere:thing"], "nowhere"),
    ],
)
def test_what_is_wrong_is_one_sentence(chain, arguments, said):
    arguments = [str(chain) if each == "CHAIN" else each for each in arguments]
    done = CliRunner().invoke(app, ["studio", *arguments, "--no-browser"])
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
