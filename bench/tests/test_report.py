"""What write.py makes of results: the pages, their order and links, what is superseded, and tables in other pages."""

import json
import pathlib
import re
import unittest

from bench.report import glance, history, pages, results_tables, summary, write

OPERATOR = "gemm-rs m={} n=8192 k=28672 ranks=4 dtype=bf16"


class Pages(unittest.TestCase):
    results = write.load_results()
    by_name = {path.name: result for path, result in results}

    def texts(self):
        return {page: pages.page_text(page, texts) for page, texts in pages.sections(self.results, write.ROOT).items()}

    def test_links_name_headings_and_no_heading_stands_twice(self):
        for page, text in self.texts().items():
            headings = [line for line in text.splitlines() if line.startswith("## ")]
            self.assertEqual(len(set(headings)), len(headings), page.file)
            links = re.findall(r"\]\((#[^)]*)\)", text)
            self.assertEqual(links, [pages.anchor(heading) for heading in headings], page.file)

    def test_the_summary_leads_to_every_page_and_its_links_name_headings(self):
        text = glance.summary_text(self.results, summary.torch_times(self.results))
        links = set(re.findall(r"\]\(performance/([^)]*)\)", text))
        headings = {page.file: {pages.anchor(line) for line in found.splitlines() if line.startswith("## ")}
                    for page, found in self.texts().items()}
        self.assertLessEqual(headings.keys(), links)
        for link in links - headings.keys():
            file, _, heading = link.partition("#")
            self.assertIn("#" + heading, headings[file])
        self.assertNotIn(pages.HISTORY.file + "#", text)

    def test_every_result_of_a_kind_that_pages_have_stands_on_one(self):
        on_pages = "".join(self.texts().values())
        for path, result in self.results:
            has_section = pages.page_of(path, result) and (result["benchmark"] != "torch" or any(
                "stretto_us" in row for row in result["rows"]))
            self.assertEqual(on_pages.count(f"bench/results/{path.name}"), 1 if has_section else 0, path.name)

    def test_rows_that_were_superseded_stand_in_the_file_that_took_their_place(self):
        def rows_of(result):
            names = ("operator", "model", "load", "tokens", "t", "fp8")
            return {tuple(row.get(name) for name in names) for row in result.get("rows", result.get("experts"))}
        for old, new in {**history.SUPERSEDED, **history.REPEATED}.items():
            earlier, later = self.by_name[old], self.by_name[new]
            self.assertFalse(history.is_history(write.RESULTS / new), new)
            self.assertEqual([earlier.get(key) for key in ("benchmark", "machine", "ranks")],
                             [later.get(key) for key in ("benchmark", "machine", "ranks")], old)
            self.assertLessEqual(rows_of(earlier), rows_of(later), old)
        for first, later in history.LATER_ROWS.items():
            for file in later:
                self.assertLessEqual(rows_of(self.by_name[file]), rows_of(self.by_name[first]), file)
        for old, new in history.SUPERSEDED.items():
            self.assertLessEqual(self.by_name[old]["date"], self.by_name[new]["date"], old)

    def test_a_summary_takes_each_row_from_its_last_run(self):
        path = pathlib.Path("layers_passes_h200_x2.json")
        together, joined = history.LATER_ROWS[path.name]
        by_name = {together: {"rows": [{"operator": "b", "us": 2}, {"operator": "c", "us": 2}]},
                   joined: {"rows": [{"operator": "c", "us": 3}, {"operator": "a", "failed": {}}]}}
        rows = history.last_rows(path, {"rows": [{"operator": name, "us": 1} for name in "abc"]}, by_name)
        self.assertEqual([(row["operator"], row["us"]) for row in rows], [("a", 1), ("b", 2), ("c", 3)])

    def test_tables_of_figures_are_of_no_superseded_run(self):
        read = []

        class Noted(dict):
            def __getitem__(self, file):
                read.append(file)
                return super().__getitem__(file)
        results_tables.tables(Noted(self.by_name), summary.torch_times(self.results))
        self.assertGreater(len(read), 8)
        self.assertEqual([file for file in read if history.is_history(write.RESULTS / file)], [])

    def test_a_page_that_nothing_writes_is_wrong(self):
        written = write.pages(self.results)
        self.assertEqual(list(write.wrong_pages(written)), [])
        lost = write.PAGES / pages.HISTORY.file
        del written[lost]
        self.assertEqual(list(write.wrong_pages(written)), [lost])

    def test_who_is_superseded_is_told_below_the_heading(self):
        text = pages.noted(pathlib.Path("moe_h100_x1.json"), "## Heading\n\nSource.")
        self.assertEqual(text, "## Heading\n\n`moe_blocks_h100_x1.json` has these rows by later code.\n\nSource.")

    def test_what_was_tuned_for_stands_first_and_of_more_gpus_before(self):
        def of(ranks, **more):
            return {"benchmark": "fused", "ranks": ranks, **more}
        given = [of(2), of(8, of="Few rows"), of(4, turn_ms=100), {"benchmark": "gemm", "ranks": None}, of(8),
                 of(4), {"benchmark": "torch", "ranks": 2}, {"benchmark": "power"}]
        path = pathlib.Path("any.json")
        found = sorted(given, key=lambda result: pages.place_of(path, result))
        self.assertEqual([given.index(result) for result in found], [4, 5, 0, 2, 1, 6, 3, 7])

    def test_at_a_glance_counts_rows_that_are_behind(self):
        def row(m, ours):
            return {"operator": OPERATOR.format(m), "gemm_us": 10, "nccl_us": 20, "sequential_us": 30, "floor_us": 9,
                    "strategies": [{"strategy": "auto", "time_us": ours, "low_us": ours, "high_us": ours}]}
        result = {"benchmark": "fused", "machine": "GPU", "ranks": 4,
                  "rows": [row(512, 15), row(2048, 20), row(4096, 40)]}
        pytorch = {("GPU", 0, "gemm-rs", 512, 8192, 28672, 4): {"fused_us": 12},
                   ("GPU", 0, "gemm-rs", 2048, 8192, 28672, 4): {"fused_us": 40}}
        self.assertEqual(list(summary.at_a_glance(result, pytorch)),
                         [["gemm-rs", "1.06 (0.75)", "2.00 (2.00)", "0.23", "1.26 (0.80)", "1 of 3", "1 of 2"]])


class PagesWithTables(unittest.TestCase):
    results = {path.name: result for path, result in write.load_results()}

    def words_of(self, *path):
        return " ".join(write.ROOT.joinpath(*path).read_text(encoding="utf-8").split())

    def behind(self, file):
        """What stands in brackets of the rows of one session that were behind AsyncTP."""
        ratios = [torch for _, torch in results_tables.beside_torch(self.results[file])]
        return ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios) if ratio < 1), len(ratios)

    def test_only_what_stands_between_the_comments_is_written(self):
        begin, end = "<!-- table one: written by bench/report/write.py -->", "<!-- end -->"
        page = f"Before.\n\n{begin}\n\n| old |\n\n{end}\n\nBehind.\n"
        self.assertEqual(results_tables.with_tables(page, {"one": "| new |"}), page.replace("old", "new"))

    def test_every_table_has_its_place(self):
        found = [name for path in write.WITH_TABLES
                 for _, name, *_ in results_tables.BLOCK.findall(path.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(found), ["all_shapes", "measured", "one_gpu", "power"])

    def test_sentences_beside_the_tables_say_the_same(self):
        at_the_limit = [ratio for _, file, _ in results_tables.AT_THE_LIMIT
                        for ratio, _ in results_tables.beside_torch(self.results[file])]
        self.assertIn(f"at the GPUs' power limit {min(at_the_limit):.2f} times", self.words_of("README.md"))
        page = self.words_of("docs", "results.md")
        on_two, rows = self.behind("torch_h200_x2.json")
        on_four, _ = self.behind("torch_h200_x4.json")
        self.assertIn(f"one of {rows} rows on 2 GPUs was behind AsyncTP ({on_two}) and two on 4 ({on_four})", page)
        self.assertEqual((on_two.count("."), on_four.count(".")), (1, 2))

    def test_the_device_languages_page_has_the_times_of_its_all_reduce(self):
        def range_of(file):
            rows = [row for row in self.results[file]["all_reduce_norm"] if row["tokens"] <= 256]
            best = [min(one["median_us"] for kind in row.values() if isinstance(kind, list) for one in kind)
                    for row in rows]
            ratios = [row["nccl_norm"]["median_us"] / us for row, us in zip(rows, best)]
            return f"{min(ratios):.1f} to {max(ratios):.1f} times"
        page = self.words_of("docs", "device-language.md")
        self.assertIn(f"{range_of('language_h200_x2.json')} as fast as NCCL and a norm on 2 GPUs, and "
                      f"{range_of('language_h200_x4.json')} on 4", page)


class ResultFiles(unittest.TestCase):
    # These say it of each run in them, or are of PyTorch alone, which has a version.
    WITHOUT_COMMIT = {"new_bucket_h200_host.json", "other_shapes_h200_x2.json", "torch_all_reduce_h200_x2.json",
                      "torch_all_reduce_h200_x4.json"}

    def test_each_says_what_was_measured_where(self):
        paths = sorted(write.RESULTS.glob("*.json"))
        self.assertGreater(len(paths), 40)
        for path in paths:
            with self.subTest(path.name):
                result = json.loads(path.read_text(encoding="utf-8"), parse_constant=self.fail)
                self.assertTrue(result.get("machine"))
                if path.name not in self.WITHOUT_COMMIT:
                    self.assertRegex(result.get("commit", ""), r"^[0-9a-f]{7,40}$")


if __name__ == "__main__":
    unittest.main()
