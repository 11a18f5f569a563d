"""The `stretto` command: the binary that the wheel carries, or that of the checkout's build."""

import os
import sys

from . import _wheels
from ._library import HERE, IN_CHECKOUT, builds


def binary():
    """The path of the command; None where there is none."""
    places = [HERE / "bin" / "stretto", *(build / "src" / "cli" / "stretto" for build in builds())]
    return next((path for path in places if path.is_file()), None)


def environment():
    """The process's, in which the loader finds CUDA's libraries as pip installs them, too, but last."""
    found = dict(os.environ)
    before = [found["LD_LIBRARY_PATH"]] if found.get("LD_LIBRARY_PATH") else []
    folders = [os.fspath(folder) for folder in _wheels.folders()]
    if folders:
        found["LD_LIBRARY_PATH"] = os.pathsep.join(before + folders)
    return found


def main():
    path = binary()
    if path is None:
        right = "./dev build release makes it" if IN_CHECKOUT else (
            "install the package again: pip install --force-reinstall stretto")
        print(f"stretto: there is no command at {HERE / 'bin' / 'stretto'}; {right}", file=sys.stderr)
        return 3
    os.execve(path, [os.fspath(path), *sys.argv[1:]], environment())


if __name__ == "__main__":
    sys.exit(main())
