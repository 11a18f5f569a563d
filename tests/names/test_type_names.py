"""No two types of the library have one name."""

import pathlib
import unittest

from type_names import defined_in, defined_twice

ROOT = pathlib.Path(__file__).resolve().parents[2]


class TypeNames(unittest.TestCase):
    def test_those_of_the_library_are_theirs_alone(self):
        files = [path for folder in ("include", "src") for path in (ROOT / folder).rglob("*.*")
                 if path.suffix in (".h", ".cpp")]
        self.assertGreater(len(files), 300)
        texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
        names = [name for text in texts.values() for name in defined_in(text)]
        self.assertIn("stretto::Plan", names)
        self.assertIn("stretto::Operation::State", names)
        self.assertEqual(defined_twice(texts), {})

    def test_one_name_in_two_files_is_found(self):
        text = "namespace stretto {\nclass Timeline final : public Base {\n  struct Part { int x; };\n};\n}\n"
        self.assertEqual(defined_twice({"a.h": text, "b.h": text}), {"stretto::Timeline": ["a.h", "b.h"]})

    def test_a_file_s_own_names_and_declarations_are_not(self):
        own = "namespace stretto {\nnamespace {\nstruct Wave { int at; };\n}\nclass Plan;\nstruct Plan* made();\n}\n"
        self.assertEqual(defined_twice({"a.cpp": own, "b.cpp": own}), {})


if __name__ == "__main__":
    unittest.main()
