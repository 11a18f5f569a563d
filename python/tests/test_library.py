"""Finding the library, and what is said when there is none or another one."""

import ctypes.util
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import stretto
from stretto import _library, _wheels

HEADER = pathlib.Path(__file__).resolve().parents[2] / "include" / "stretto" / "c.h"


class Finding(unittest.TestCase):
    def test_a_variable_names_the_library_and_nothing_else_is_tried(self):
        with mock.patch.dict(os.environ, STRETTO_LIBRARY="/nowhere/libstretto.so"):
            with self.assertRaises(stretto.LibraryNotFound) as caught:
                stretto.find_library()
        self.assertIn("/nowhere/libstretto.so", str(caught.exception))
        self.assertIn("STRETTO_LIBRARY names it", str(caught.exception))
        self.assertIsInstance(caught.exception, ImportError)

    def test_what_a_checkout_lacks_its_build_makes(self):
        with mock.patch.dict(os.environ, STRETTO_LIBRARY=""), \
                mock.patch.object(_library, "CHECKOUT", pathlib.Path("/nowhere")), \
                mock.patch.object(_library, "HERE", pathlib.Path("/nowhere/python/stretto")):
            with self.assertRaises(stretto.LibraryNotFound) as caught:
                stretto.find_library()
        self.assertIn("/nowhere/build/release/src/c/libstretto.so", str(caught.exception))
        self.assertIn("./dev build release makes it", str(caught.exception))

    def test_what_is_no_library_is_said(self):
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(b"text")
            file.flush()
            with self.assertRaisesRegex(stretto.LibraryNotFound, re.escape(file.name)):
                stretto.Library(file.name)

    def test_a_library_of_another_interface_is_refused(self):
        with self.assertRaisesRegex(stretto.LibraryNotFound, "speaks version 0"):
            stretto.Library(ctypes.util.find_library("m"))

    def test_a_library_that_lacks_a_function_is_older(self):
        with mock.patch.dict(_library.FUNCTIONS, stretto_of_tomorrow=(_library.STATUS, [])):
            for chosen, said in ((stretto.find_library(), "STRETTO_LIBRARY names it: build it anew"),
                                 ("", "./dev build release builds it anew")):
                with self.subTest(chosen), mock.patch.dict(os.environ, STRETTO_LIBRARY=str(chosen)), \
                        self.assertRaisesRegex(stretto.LibraryNotFound, "libstretto.*has no stretto_of_tomorrow: it is "
                                               f"older than this package; {said}"):
                    stretto.Library(_library.library().path)

    def test_the_version_is_the_projects(self):
        text = (HEADER.parents[2] / "CMakeLists.txt").read_text()
        self.assertIn(f"project(stretto VERSION {stretto.version()} ", text)
        self.assertIn(f"## [{stretto.version()}]", (HEADER.parents[2] / "CHANGELOG.md").read_text())


class Header(unittest.TestCase):
    """ctypes believes what _library.py says: it must be what c.h says."""

    C_TYPES = {"int": ("status", "c_int"), "int32_t": ("c_int",), "const char*": ("c_char_p",)}

    @staticmethod
    def functions():
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        found = re.findall(r"STRETTO_C_API\s+([\w\s*]+?)(stretto_\w+)\(([^)]*)\);", text)
        return {name: (result.strip(), [one.strip() for one in arguments.split(",")
                                        if one.strip() != "void"])
                for result, name, arguments in found}

    def test_all_functions_are_declared_with_as_many_arguments(self):
        functions = self.functions()
        self.assertEqual(set(functions), set(_library.FUNCTIONS))
        for name, (result, arguments) in functions.items():
            declared, types = _library.FUNCTIONS[name]
            self.assertEqual(len(arguments), len(types), name)
            self.assertIn(declared if isinstance(declared, str) else declared.__name__,
                          self.C_TYPES[result], name)
            for argument, type_ in zip(arguments, types):
                self.assertTrue(self.is_of(argument, type_), f"{name}: {argument}")

    def is_of(self, argument, type_):
        words = argument.replace("const ", "").rsplit(" ", 1)[0]
        if words.endswith("*") or words.endswith("**"):
            return type_ is ctypes.c_void_p or issubclass(type_, ctypes._Pointer)
        sizes = {"int32_t": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "double": 8, "stretto_tensor": 4}
        return ctypes.sizeof(type_) == sizes[words] and (words == "double") == (
            type_ is ctypes.c_double)

    def test_structs_have_the_same_fields_in_the_same_order(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        for name, struct in (("stretto_operator", _library.COperator),
                             ("stretto_tensor_info", _library.CTensorInfo),
                             ("stretto_call_tensor", _library.CCallTensor),
                             ("stretto_plan_request", _library.CPlanRequest),
                             ("stretto_context_request", _library.CContextRequest),
                             ("stretto_operation_request", _library.COperationRequest)):
            body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (name, name), text, re.S).group(1)
            body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", body)  # functions, by their names
            fields = [re.sub(r".*[ *]", "", one.strip()) for line in body.split(";")
                      for one in line.split(",") if one.strip()]
            self.assertEqual(fields, [field for field, _ in struct._fields_], name)


class Sizes(unittest.TestCase):
    def test_structs_say_their_sizes(self):
        for struct in (_library.COperator, _library.CTensorInfo, _library.CCallTensor,
                       _library.CPlanRequest, _library.CContextRequest, _library.COperationRequest):
            self.assertEqual(struct().size, ctypes.sizeof(struct))

    def test_a_struct_of_a_newer_package_is_refused(self):
        class Grown(_library.COperator):
            _fields_ = [("group", ctypes.c_char_p)]
        op = Grown(b"gemm-rs", None, b"m=64 n=64 k=64", 1, b"bf16", b"tp")
        count = ctypes.c_int32()
        with self.assertRaisesRegex(ValueError, "op.size is 56, .*older than the header"):
            _library.library().tensor_count(
                ctypes.cast(ctypes.byref(op), ctypes.POINTER(_library.COperator)), ctypes.byref(count))


class Wheels(unittest.TestCase):
    def test_libraries_of_wheels_are_loaded_unless_others_are_chosen(self):
        with tempfile.TemporaryDirectory() as root:
            folder = pathlib.Path(root)
            real = ctypes.util.find_library("m")
            # Any library does: what counts is its name.
            path = next(p for p in (pathlib.Path(d) / real for d in
                                    ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
                                     "/lib64", "/usr/lib64", "/lib/aarch64-linux-gnu"))
                        if p.exists())
            for name in ("libnvrtc.so.13", "libnccl.so.2"):
                (folder / name).symlink_to(path)
            clean = {key: value for key, value in os.environ.items()
                     if key not in ("CUDA_HOME", "STRETTO_NCCL_PATH")}
            with mock.patch.dict(os.environ, clean, clear=True), \
                    mock.patch.object(_wheels, "is_loaded", lambda name: False):
                names = [one.name for one in _wheels.preload([folder])]
                self.assertEqual(names, ["libnvrtc.so.13", "libnccl.so.2"])
                os.environ["CUDA_HOME"] = "/elsewhere"
                self.assertEqual([one.name for one in _wheels.preload([folder])], ["libnccl.so.2"])
                os.environ["STRETTO_NCCL_PATH"] = "/elsewhere"
                self.assertEqual(_wheels.preload([folder]), [])

    def test_what_the_process_has_stays(self):
        self.assertTrue(_wheels.is_loaded("libc.so.6"))
        self.assertFalse(_wheels.is_loaded("libstretto-is-not-this.so"))


if __name__ == "__main__":
    unittest.main()
