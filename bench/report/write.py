#!/usr/bin/env python3
"""Writes docs/performance.md and the pages of docs/performance, and their plots with --plots, from
bench/results/*.json; and the tables of README.md and docs/results.md.

    bench/report/write.py            rewrite the pages
    bench/report/write.py --plots    and docs/plots/*.svg (needs matplotlib)
    bench/report/write.py --check    exit 1 when a page is not what the results say

Every figure of these comes from a results file; none is typed by hand.
"""

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.report.glance import summary_text  # noqa: E402
from bench.report.pages import FOLDER, page_text, place_of, sections  # noqa: E402
from bench.report.results_tables import tables, with_tables  # noqa: E402
from bench.report.summary import torch_times  # noqa: E402

RESULTS = ROOT / "bench" / "results"
SUMMARY = ROOT / "docs" / "performance.md"
PAGES = ROOT / "docs" / FOLDER
PLOTS = ROOT / "docs" / "plots"
WITH_TABLES = (ROOT / "README.md", ROOT / "docs" / "results.md")


def load_results():
    results = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob("*.json")]
    return sorted(((path, result) for path, result in results if "benchmark" in result),
                  key=lambda found: place_of(*found))


def pages(results):
    """By path."""
    torch_rows = torch_times(results)
    of_figures = tables({path.name: result for path, result in results}, torch_rows)
    return {SUMMARY: summary_text(results, torch_rows),
            **{PAGES / page.file: page_text(page, texts) for page, texts in sections(results, ROOT).items()},
            **{path: with_tables(path.read_text(encoding="utf-8"), of_figures) for path in WITH_TABLES}}


def wrong_pages(written):
    """Those that say something else, and those that nothing writes any more."""
    yield from (path for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text)
    yield from (path for path in sorted(PAGES.glob("*.md")) if path not in written)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--plots", action="store_true")
    args = parser.parse_args()
    results = load_results()
    written = pages(results)
    if args.check:
        wrong = [str(path.relative_to(ROOT)) for path in wrong_pages(written)]
        if wrong:
            sys.exit(f"{', '.join(wrong)}: other than bench/results says; run bench/report/write.py")
        return
    PAGES.mkdir(exist_ok=True)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    if args.plots:
        from bench.report.plots import draw

        draw(results, PLOTS)


if __name__ == "__main__":
    main()
