"""Documents fit a screen of 100 columns, and their links lead somewhere."""

import fnmatch
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = 100
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages(*patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def name_of(path):
    return str(path.relative_to(ROOT))


LINK_ALONE = re.compile(r"^\s*[-*] \[[^\]]*\]\([^)]*\)$")


def is_free(line):
    """A table's, an entry of a list of links, or code."""
    return line.startswith("|") or line.startswith("    ") or LINK_ALONE.match(line)


def anchors_of(text):
    """As GitHub makes them."""
    headings = (re.sub(r"[`*]", "", heading).strip().lower() for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def broken_links(path):
    text = path.read_text(encoding="utf-8")
    for link in LINK.findall(FENCED.sub("", text)):
        if re.match(r"https?:|mailto:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md":
            if anchor not in anchors_of(target.read_text(encoding="utf-8")):
                yield link


class Pages(unittest.TestCase):
    def test_lines_fit_a_screen(self):
        read = pages("*.md", "docs/**/*.md", "examples/*.md", "integrations/**/*.md", "src/*.md",
                     "bench/**/*.md", "include/**/*.md")
        self.assertGreater(len(read), 50)
        for path in read:
            lines = FENCED.sub("", path.read_text(encoding="utf-8")).split("\n")
            long = [line for line in lines if len(line) > COLUMNS and not is_free(line)]
            self.assertEqual(long, [], name_of(path))

    def test_links_lead_somewhere(self):
        for path in pages("*.md", "docs/**/*.md", "examples/*.md", "integrations/**/*.md",
                          "src/*.md", "bench/*.md", "include/**/*.md"):
            self.assertEqual(list(broken_links(path)), [], name_of(path))

    def test_lines_of_cpp_are_compiled_as_they_stand(self):
        page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
        block = re.search(r"\n\n((?:    .*\n)+)", page[page.index("\n## From C++\n"):]).group(1)
        compiled = (ROOT / "tests/package/consumer/serving.cpp").read_text(encoding="utf-8")
        lines = [line.split("//")[0].strip() for line in block.splitlines()]
        self.assertGreater(len(lines), 3)
        for line in lines:
            self.assertIn(f"  {line}\n", compiled)

    def test_every_file_of_the_tuner_has_its_place(self):
        page = (ROOT / "docs/tuning.md").read_text(encoding="utf-8")
        section = page[page.index("## Where it is in the code"):page.index("## The file")]
        named = {name for line in section.splitlines() if line.startswith("| ")
                 for name in re.findall(r"`(\w+)`", line.split("|")[2])} - {"auto"}
        self.assertEqual(named, {path.stem for path in (ROOT / "src/tune").glob("*.*")} - {"CMakeLists"})

    def test_every_room_is_listed(self):
        rooms = re.findall(r"^\| `(\w+)` \|", (ROOT / "src/README.md").read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(sorted(rooms), sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir()))

    def test_every_device_header_is_of_some_kernel(self):
        folder = ROOT / "include/stretto/device"
        named = re.findall(r"`([\w*]+\.h)`", (folder / "README.md").read_text(encoding="utf-8"))
        there = {path.name for path in folder.glob("*.h")}
        for pattern in named:
            self.assertTrue(fnmatch.filter(there, pattern), pattern)
        self.assertEqual([name for name in sorted(there) if not any(fnmatch.fnmatch(name, one) for one in named)], [])

    def test_every_kernel_of_the_language_is_said_to_be_of_plans_or_not(self):
        headers = "".join(path.read_text(encoding="utf-8") for path in pages("include/stretto/device/lang/kernels/*.h"))
        kernels = re.findall(r"^STRETTO_KERNEL void (\w+)\(Block& block,\s+const \w+Args<Block>&", headers, re.MULTILINE)
        page = (ROOT / "docs/device-language.md").read_text(encoding="utf-8")
        table = page.split("## Which kernels plans name")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (`.*`) \| (.*) \|$", table, re.MULTILINE)
        of_plans = {kernel: not re.match("no:|parts of", what)
                    for names, what in rows for kernel in re.findall(r"`(\w+)`", names)}
        self.assertGreater(len(kernels), 15)
        self.assertEqual(set(kernels) - set(of_plans), set())
        chosen = re.findall(r'"([^"]*)"', (ROOT / "src/tables/low_latency_shape.cpp").read_text(encoding="utf-8"))
        for kernel, is_of_plans in of_plans.items():
            name = re.sub(r"(all_reduce_norm)_(one|two)_shot", r"\1_{}", kernel)
            self.assertEqual(any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", one) for one in chosen), is_of_plans, kernel)

    def test_every_page_is_listed_by_task(self):
        index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
        for path in pages("docs/*.md"):
            if path.name != "README.md":
                self.assertIn(f"({path.name}", index)

    def test_every_notebook_is_listed(self):
        index = (ROOT / "docs/notes/README.md").read_text(encoding="utf-8")
        for path in pages("docs/notes/*.md"):
            if path.name != "README.md":
                self.assertIn(f"({path.name})", index)


if __name__ == "__main__":
    unittest.main()
