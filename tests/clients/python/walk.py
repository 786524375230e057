"""Asks an agent everything that python-nomad can ask. `SONGLINE_BIN` names the agent's program. The stories are in `stories_*.py`."""

import os
import sys
import unittest

for name in ("NOMAD_ADDR", "NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION"):
    # Whoever runs this may be using a real cluster in the same shell.
    os.environ.pop(name, None)

import counting


def main():
    """Runs all stories, then counts."""
    if "SONGLINE_BIN" not in os.environ:
        sys.exit("SONGLINE_BIN must name the program to test")
    names = counting.watch()
    here = os.path.dirname(os.path.abspath(__file__))
    stories = unittest.defaultTestLoader.discover(here, pattern="stories_*.py", top_level_dir=here)
    result = unittest.TextTestRunner(verbosity=1).run(stories)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(0 if counting.report(names) else 1)


if __name__ == "__main__":
    main()
