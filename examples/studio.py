"""The reward studio with two things to design rewards for: a grid world, and the maintenance plant of the other example.

`make studio` opens it. `python examples/studio.py` without `serve` only says where the page would be, and ends.
"""

import argparse
import io
from contextlib import redirect_stdout

import anyreward as ar

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("what", nargs="?", choices=["serve"], help="serve the page until Ctrl-C")
options.add_argument("--port", type=int, default=0)
options.add_argument("--no-browser", action="store_true")
asked = options.parse_args()

print("Exploring a grid of 21 x 21 cells ...", flush=True)
world = ar.envs.grid_world()
world.name = "grid-world"
grid = ar.explore(world, horizon=20, max_episodes=100_000, stationary=True, progress=False)
print("Exploring the plant of maintenance.py ...", flush=True)
with redirect_stdout(io.StringIO()):
    from maintenance import atlas as plant

if asked.what:
    ar.studio({"grid": grid, "plant": plant}, port=asked.port, browser=not asked.no_browser)
else:
    with ar.studio({"grid": grid, "plant": plant}, browser=False, wait=False) as page:
        print(f"The page would be at http://127.0.0.1:{page.port}/. Run it with: make studio")
