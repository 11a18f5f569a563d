"""What the tests of packages share: where things are, and commands that say what they printed when they fail."""

import json
import os
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONSUMER = HERE / "consumer"
BUILD = pathlib.Path(os.environ.get("STRETTO_BUILD", ROOT / "build" / "test"))
CMAKE = os.environ.get("CMAKE", "cmake")
VERSION = re.search(r"project\(stretto VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def said(*command, **options):
    """What a command prints; it must end with 0."""
    done = subprocess.run([os.fspath(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def needed(path):
    """The shared libraries that a binary names."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said("readelf", "-d", path))


def compile_command(build, source):
    """How a build compiles the source of this name."""
    commands = json.loads((build / "compile_commands.json").read_text())
    return next(one["command"] for one in commands if one["file"].endswith("/" + source))


def configure(build, *options):
    """Configures the consumer's build, which asks for no standard, no warnings and no build type."""
    said(CMAKE, "-S", CONSUMER, "-B", build, "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
         *options)
