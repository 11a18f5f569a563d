"""Programs in C and C++ against the installed tree, which was moved after it was installed."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tools import BUILD, CMAKE, CONSUMER, VERSION, compile_command, configure, needed, said


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        said(CMAKE, "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = (cls.folder / "first").rename(cls.folder / "moved")
        cls.libraries = next(cls.prefix.rglob("libstretto.so")).parent

    def check_consumers(self, folder, **environment):
        for name in ("cpp_consumer", "c_consumer"):
            text = said(folder / name, env={**os.environ, **environment})
            self.assertIn(f"stretto {VERSION}: ", text)

    def test_cmake_finds_it(self):
        build = self.folder / "by-cmake"
        configure(build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        said(CMAKE, "--build", build)
        self.check_consumers(build)
        command = compile_command(build, "consumer.cpp")
        self.assertNotIn(" -W", command)
        self.assertIn("=c++20" if "-std=c++" in command else "=gnu++20", command)

    def test_cmake_refuses_another_version(self):
        script = self.folder / "other.cmake"
        script.write_text("find_package(stretto 99 REQUIRED)\n")
        done = subprocess.run([CMAKE, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-P", script], text=True,
                              capture_output=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"version: {VERSION}", done.stderr)

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config_finds_it(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": os.fspath(self.libraries / "pkgconfig")}
        for compiler, source, package in (("c++ -std=c++20", "consumer.cpp", "stretto-cpp"),
                                          ("cc -std=c99 -pedantic-errors", "consumer.c", "stretto")):
            flags = said("pkg-config", "--cflags", "--libs", package, env=environment).split()
            self.assertEqual(said("pkg-config", "--modversion", package, env=environment).strip(),
                             VERSION)
            name = "cpp_consumer" if package == "stretto-cpp" else "c_consumer"
            said(*compiler.split(), CONSUMER / source, "-o", self.folder / name, *flags)
        self.check_consumers(self.folder, LD_LIBRARY_PATH=os.fspath(self.libraries))

    def test_the_library_shows_its_functions_only_and_its_interface_is_in_its_name(self):
        library = self.libraries / "libstretto.so"
        shown = [line.split()[-1] for line in
                 said("nm", "-D", "--defined-only", library).splitlines()]
        self.assertIn("stretto_plan_make", shown)
        self.assertEqual([name for name in shown if not name.startswith("stretto_")], [])
        header = (self.prefix / "include" / "stretto" / "c.h").read_text()
        interface = header.split("#define STRETTO_C_VERSION ")[1].split()[0]
        self.assertIn(f"[libstretto.so.{interface}]", said("readelf", "-d", library))

    def test_text_formatting_is_linked_in(self):
        for path in (self.libraries / "libstretto.so", self.prefix / "bin" / "stretto"):
            self.assertEqual([name for name in needed(path) if "fmt" in name or "boost" in name], [])

    def test_it_needs_what_the_page_says(self):
        """docs/install.md: the C++ run-time, zlib, and Highway where that is shared."""
        runtime = {"ld-linux-x86-64", "ld-linux-aarch64", "libc", "libm", "libgcc_s", "libstdc++", "libpthread", "libdl"}
        own = {name.partition(".so")[0] for name in needed(self.libraries / "libstretto.so")} - runtime
        self.assertLessEqual(own, {"libz", "libhwy"})

    def test_the_command_is_there(self):
        self.assertEqual(said(self.prefix / "bin" / "stretto", "--version"), f"stretto {VERSION}\n")


if __name__ == "__main__":
    unittest.main()
