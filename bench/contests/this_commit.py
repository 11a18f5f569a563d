"""The commit that is checked out here, for the results of a run."""

import os
import subprocess


def this_commit():
    result = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False,
                            cwd=os.path.dirname(__file__) or ".")
    return result.stdout.strip() or "unknown"
