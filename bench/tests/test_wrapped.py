"""What is wrapped of a page, and what stays as it is."""

import unittest

from bench.report.wrapped import COLUMNS, wrap_page

LONG = "word " * 40


class Wrapped(unittest.TestCase):
    def test_prose_and_lists_are_wrapped_and_stay_what_they_are(self):
        page = f"{LONG}\n\n- {LONG}\n  {LONG}\n- short\n\n1. {LONG}\n"
        lines = wrap_page(page).split("\n")
        self.assertLessEqual(max(map(len, lines)), COLUMNS)
        self.assertEqual(" ".join(lines).split(), page.split())
        self.assertTrue(all(line[:2] in ("", "wo", "- ", "  ", "1.") for line in lines))

    def test_tables_code_headings_and_lone_links_stay(self):
        for kept in (f"| {LONG} |", f"```\n{LONG}\n```", f"text\n\n    {LONG}", f"# {LONG}",
                     f"- [{LONG}](there)"):
            self.assertEqual(wrap_page(kept), kept)

    def test_what_fits_stays_as_it_was_broken(self):
        self.assertEqual(wrap_page("a line\nand another\n"), "a line\nand another\n")

    def test_no_line_begins_with_what_would_mark_it(self):
        text = wrap_page("x" * 96 + " - " + LONG + "3. " + LONG)
        self.assertFalse([line for line in text.split("\n") if line.startswith(("- ", "3. "))])

    def test_short_code_is_not_broken(self):
        lines = wrap_page("x" * 90 + " `stretto model llama` " + LONG).split("\n")
        self.assertIn("`stretto model llama`", lines[1])


if __name__ == "__main__":
    unittest.main()
