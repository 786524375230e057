"""Starts programs of other people beside an agent. `SONGLINE_BIN` names the agent's program, `AUTOSCALER_BIN` and `PROMETHEUS_BIN` those of
other people; a story whose program is not named is skipped. The stories are in `stories_*.py`."""

import os
import sys
import unittest


def main():
    """Runs all stories."""
    if "SONGLINE_BIN" not in os.environ:
        sys.exit("SONGLINE_BIN must name the program to test")
    for name in ("NOMAD_ADDR", "NOMAD_TOKEN", "NOMAD_NAMESPACE", "NOMAD_REGION"):
        # Whoever runs this may be using a real cluster in the same shell.
        os.environ.pop(name, None)
    here = os.path.dirname(os.path.abspath(__file__))
    stories = unittest.defaultTestLoader.discover(here, pattern="stories_*.py", top_level_dir=here)
    result = unittest.TextTestRunner(verbosity=1).run(stories)
    print(f"== clients/programs: {result.testsRun - len(result.skipped)} stories, {len(result.skipped)} skipped")
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
