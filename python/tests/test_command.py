"""The `stretto` command as the package starts it."""

import contextlib
import io
import os
import pathlib
import unittest
from unittest import mock

from stretto import __main__ as command
from stretto import _wheels


class Command(unittest.TestCase):
    def test_it_is_started_with_its_arguments_and_cudas_libraries_last(self):
        with mock.patch.object(command, "binary", lambda: pathlib.Path("/here/stretto")), \
                mock.patch.object(_wheels, "folders", lambda: [pathlib.Path("/site/nvidia/lib")]), \
                mock.patch.dict(os.environ, LD_LIBRARY_PATH="/own"), \
                mock.patch("sys.argv", ["stretto", "env"]), \
                mock.patch("os.execve") as execve:
            command.main()
        path, arguments, environment = execve.call_args[0]
        self.assertEqual((str(path), arguments), ("/here/stretto", ["/here/stretto", "env"]))
        self.assertEqual(environment["LD_LIBRARY_PATH"], "/own:/site/nvidia/lib")

    def test_without_pips_libraries_the_environment_stays(self):
        with mock.patch.object(_wheels, "folders", lambda: []):
            self.assertEqual(command.environment(), dict(os.environ))

    def test_where_there_is_none_it_says_what_would_be_right(self):
        for in_checkout, right in ((True, "./dev build release"), (False, "--force-reinstall stretto")):
            said = io.StringIO()
            with mock.patch.object(command, "binary", lambda: None), \
                    mock.patch.object(command, "IN_CHECKOUT", in_checkout), \
                    contextlib.redirect_stderr(said):
                self.assertEqual(command.main(), 3)
            self.assertIn(right, said.getvalue())
            self.assertEqual(said.getvalue().count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
