"""Stretto as a part of another project's build: what it brings, and what it leaves alone.

The consumer's sources are compiled; to compile all of Stretto once more would show nothing else.
"""

import pathlib
import re
import shutil
import tempfile
import unittest

from tools import CMAKE, CONSUMER, ROOT, compile_command, configure, said


class Subproject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = pathlib.Path(tempfile.mkdtemp(prefix="stretto-"))
        cls.addClassCleanup(shutil.rmtree, cls.build)
        configure(cls.build, f"-DSTRETTO_SOURCE={ROOT}")

    def test_sources_compile_without_a_standard_of_their_own(self):
        for source in ("consumer.cpp", "consumer.c"):
            # Not by ninja, which would build the archive before.
            command = compile_command(self.build, source).split()
            said(*command[:command.index("-o")], "-o", self.build / "one.o", "-c",
                 CONSUMER / source, cwd=self.build)

    def test_nothing_of_how_stretto_is_compiled_reaches_its_users(self):
        for source in ("consumer.cpp", "consumer.c"):
            command = compile_command(self.build, source)
            self.assertNotIn(" -W", command)
            self.assertNotIn(" -D", command)
            self.assertEqual({ROOT / "include", self.build / "stretto" / "include"},
                             set(map(pathlib.Path, re.findall(r"-I ?(\S+)", command))))

    def test_what_rooms_need_is_linked(self):
        link = said("ninja", "-C", self.build, "-t", "commands", "cpp_consumer").splitlines()[-1]
        for library in ("libstretto_cpp.a", "libfmt", "libhwy", "libboost_context"):
            self.assertIn(library, link)

    def test_no_tests_benchmarks_or_tools_are_built(self):
        targets = said(CMAKE, "--build", self.build, "--target", "help")
        self.assertIn("stretto_cpp:", targets)
        for word in ("test_", "bench", "example_", "fuzz_", "stub_", "\nstretto:"):
            self.assertNotIn(word, targets)

    def test_the_users_cache_is_left_alone(self):
        cache = (self.build / "CMakeCache.txt").read_text()
        self.assertIn("CMAKE_BUILD_TYPE:STRING=\n", cache)


if __name__ == "__main__":
    unittest.main()
