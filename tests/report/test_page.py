"""Reports of `stretto report`: what the file holds, and what a browser makes of it."""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import zlib

STRETTO = os.environ["STRETTO_BINARY"]
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome")
                if (path := shutil.which(name))), None)
MODEL = ["llama-3.2-1b", "--tp", "4", "--rows", "64,1K"]
OPERATOR = ["gemm-rs", "--m", "1024", "--n", "1024", "--k", "2048", "--ranks", "4"]
HOSTILE = "</script><img src=x onerror=alert(1)>"


def stretto(*arguments):
    return subprocess.run([STRETTO, *arguments], text=True, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE).stdout


def unpack(text):
    return zlib.decompress(base64.b64decode(text), -15)


def columns(packed, count, width):
    data, at, found = unpack(packed), 0, []
    for _ in range(width):
        value, column = 0, []
        for _ in range(count):
            number, shift = 0, 0
            while True:
                byte = data[at]
                at += 1
                number |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            value += -((number + 1) // 2) if number % 2 else number // 2
            column.append(value)
        found.append(column)
    assert at == len(data)
    return found


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.page = cls.folder / "report.html"
        stretto("report", *OPERATOR, "--strategy", "sequential,tiles,auto", "-o", cls.page)
        text = cls.page.read_text()
        cls.data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>',
                                        text, re.S)[1])

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)


class File(Reports):
    def test_needs_no_other_file(self):
        text = self.page.read_text()
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://")
        self.assertNotRegex(text, r"<(link|script|img)[^>]+(src|href)=")
        self.assertIn("default-src 'none'", text)

    def test_has_the_plans(self):
        for run in self.data["runs"]:
            self.assertEqual(unpack(run["text"]).decode(),
                             stretto("plan", *OPERATOR, "--schedule", run["schedule"]))

    def test_lanes_know_their_lines(self):
        run = self.data["runs"][1]
        lines = unpack(run["text"]).decode().split("\n")
        kind, rank, index, line, length = columns(run["lanes"]["data"], run["lanes"]["count"], 5)
        for i, at in enumerate(line):
            self.assertEqual(lines[at - 1],
                             f"lane {rank[i]} {self.data['lane_kinds'][kind[i]]} {index[i]}")
            self.assertIn(lines[at + length[i]], ("", "end"))

    def test_has_the_simulated_times(self):
        said = json.loads(stretto("simulate", *OPERATOR, "--strategy", "sequential,tiles,auto",
                                  "--json"))
        for run, one in zip(self.data["runs"], said["results"]):
            self.assertEqual(run["name"], one["strategy"])
            self.assertAlmostEqual(run["predicted"]["total_us"], one["simulate"]["total_us"])
            names = run["names"]
            lane, start, took, pos, name = columns(run["predicted"]["spans"],
                                                   run["predicted"]["count"], 17)[:5]
            self.assertAlmostEqual(max(s + t for s, t in zip(start, took)) / 1e3,
                                   one["simulate"]["total_us"], delta=0.002)
            busy = sum(t for t, n in zip(took, name) if names[n] not in ("wait", "boundary"))
            self.assertAlmostEqual(busy / 1e3, sum(use["busy_us"] for use in one["simulate"]["lanes"]),
                                   delta=0.01 * max(1, busy / 1e3))
            self.assertEqual(len(run["path"]), len(one["simulate"]["critical_path"]))
            self.assertTrue(all(t > 0 for t, n in zip(took, name) if names[n] == "wait"))

    def test_says_what_auto_weighed(self):
        weighed = self.data["weighed"]
        self.assertGreater(len(weighed), 5)
        self.assertEqual(sum(one["chosen"] for one in weighed), 1)
        self.assertEqual(weighed, sorted(weighed, key=lambda one: one["us"]))

    def test_of_a_broken_plan_names_the_lines(self):
        text = stretto("plan", *OPERATOR)
        broken = self.folder / "broken.plan"
        broken.write_text(re.sub(r"\n  wait [^\n]*", "", text, count=1))
        page = self.folder / "broken.html"
        stretto("report", str(broken), "-o", page)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])
        check = data["runs"][0]["check"]
        self.assertFalse(check["clean"])
        self.assertEqual(unpack(data["runs"][0]["text"]).decode(), broken.read_text())
        self.assertIn("line", check["problems"][0])

    def test_escapes_names(self):
        plan = self.folder / (HOSTILE.replace("/", "") + ".plan")
        plan.write_text(stretto("plan", *OPERATOR))
        page = self.folder / "hostile.html"
        stretto("report", str(plan), "-o", page)
        self.assertNotIn("<img src=x", page.read_text())
        self.assertEqual(page.read_text().count("</script>"), 2)

    def test_takes_measured_traces(self):
        trace = self.folder / "trace.json"
        stretto("simulate", *OPERATOR, "--strategy", "tiles", "--perfetto", trace)
        page = self.folder / "measured.html"
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            stretto("report", *OPERATOR, "--strategy", "tiles", "--measured", trace, "-o", page)
        self.assertIn("is a prediction", failed.exception.stderr)
        timed = json.loads(trace.read_text())
        timed["otherData"]["timeline"] = "measured"  # as a run on GPUs says
        trace.write_text(json.dumps(timed))
        stretto("report", *OPERATOR, "--strategy", "tiles", "--measured", trace, "-o", page)
        data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S)[1])
        run = data["runs"][0]
        self.assertAlmostEqual(run["measured"]["total_us"], run["predicted"]["total_us"], delta=0.01)
        self.assertEqual(run["measured"]["count"], run["predicted"]["count"])
        with self.assertRaises(subprocess.CalledProcessError) as failed:
            stretto("report", *OPERATOR, "--strategy", "slices", "--measured", trace, "-o", page)
        self.assertEqual(failed.exception.returncode, 2)
        self.assertIn("name that schedule", failed.exception.stderr)


class ModelPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.page = cls.folder / "model.html"
        cls.said = json.loads(stretto("model", *MODEL, "--json"))
        stretto("model", *MODEL, "--html", "-o", cls.page)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_holds_what_json_says_and_needs_no_other_file(self):
        text = self.page.read_text()
        self.assertEqual(json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1]), self.said)
        self.assertNotRegex(text, r"<(link|script|img)[^>]+(src|href)=")
        self.assertIn("default-src 'none'", text)

    def test_a_page_is_a_file(self):
        for wrong in (["--html"], ["--html", "--json", "-o", "x.html"]):
            with self.assertRaises(subprocess.CalledProcessError) as failed:
                stretto("model", *MODEL, *wrong)
            self.assertEqual(failed.exception.returncode, 2)


# What a page does when it is used; `said` goes into its title.
DRIVE = """<script>
const said = [];
addEventListener('error', event => said.push('error ' + event.message));
addEventListener('unhandledrejection', event => said.push('rejected ' + event.reason));
strettoReport.then(async ({view, plan}) => {
  const rest = () => new Promise(next => setTimeout(next, 100));
  const mouse = (type, x, y) => view.canvas.dispatchEvent(new MouseEvent(type, {clientX: x, clientY: y, bubbles: true}));
  const tip = () => [...view.tip.children].map(line => line.textContent).join(' | ');
  await rest();
  for (const run of data.runs) await plan.textOf(run);
  const run = data.runs[1], band = run.timelines[0], dots = () => view.canvas.getBoundingClientRect();
  // The row of a rank opens its lanes.
  const rank = view.rows.find(row => row.type === 'share' && row.band === band);
  view.stage.scrollTop = rank.y - 100;
  await rest();
  const before = view.rows.length;
  mouse('mousedown', dots().left + 20, dots().top + rank.y - view.stage.scrollTop + 8);
  mouse('mouseup', dots().left + 20, dots().top + rank.y - view.stage.scrollTop + 8);
  await rest();
  said.push('opened ' + (view.rows.length - before));
  // A tile, and a wait that another lane has ended.
  for (const wanted of ['gemm', 'wait']) {
    let span = 0;
    while (run.names[band.spans.name[span]] !== wanted || (wanted === 'wait' && !band.spans.byLane[span])) ++span;
    view.reveal(run, view.lineOf(band, span));
    await rest();
    const row = view.rowOf(band, band.spans.lane[span]);
    const x = dots().left + view.x(band.spans.start[span] + band.spans.took[span] / 2);
    const y = dots().top + row.y + row.height / 2 - view.stage.scrollTop;
    mouse('mousemove', x, y);
    said.push(wanted + ': ' + tip());
    mouse('mousedown', x, y);
    mouse('mouseup', x, y);
    await rest();
    said.push('line: ' + document.querySelector('#plan-lines .at')?.textContent);
  }
  const drawn = view.pen.getImageData(0, 0, view.canvas.width, view.canvas.height).data, colours = new Set();
  for (let i = 0; i < drawn.length; i += 4) colours.add((drawn[i] << 16) + (drawn[i + 1] << 8) + drawn[i + 2]);
  said.push('colours ' + colours.size);
  for (const press of ['w', 'd', 'a', 's']) view.stage.dispatchEvent(new KeyboardEvent('keydown', {key: press}));
  for (const button of document.querySelectorAll('button')) button.click();
  await rest();
  said.push('theme ' + document.documentElement.dataset.theme);
  const wide = document.documentElement.scrollWidth - innerWidth;
  said.push('overflow ' + wide);
}).catch(error => said.push('failed ' + error)).finally(() => {
  document.body.replaceChildren(make('pre', {id: 'said', text: said.join('\\n')}));
});
</script>
"""


def browse(folder, page, *options):
    """What a browser makes of a page, and what it complains of."""
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--virtual-time-budget=20000", "--window-size=1400,1600", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", *options, "--dump-dom", f"file://{page}"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@unittest.skipUnless(BROWSER, "no chromium: the page was not looked at by a browser")
class InABrowser(Reports):
    def browse(self, page, *options):
        return browse(self.folder, page, *options)

    def drive(self, page):
        driven = self.folder / "driven.html"
        driven.write_text(page.read_text() + DRIVE)
        dom, console = self.browse(driven)
        found = re.search(r'<pre id="said">(.*?)</pre>', dom, re.S)
        self.assertIsNotNone(found, dom[-2000:])
        return found[1].split("\n"), console

    def test_shows_what_is_pointed_at(self):
        said, console = self.drive(self.page)
        self.assertEqual(console, [])
        text = "\n".join(said)
        self.assertNotRegex(text, "(?m)^(error|rejected|failed)")
        self.assertRegex(text, r"(?m)^opened [1-9]")
        self.assertRegex(text, r"(?m)^gemm: gemm, [0-9.]+ µs \| rank \d+ compute \d+, line \d+ of the plan \| .* \| "
                               r"rows \d+ to \d+, columns \d+ to \d+ of \w+, sums of 512 \| writes [0-9.]+ KiB")
        self.assertRegex(text, r"(?m)^wait: wait, .* \| ended by rank \d+ compute \d+, line \d+ \| wait slots")
        lines = [line for line in said if line.startswith("line: ")]
        self.assertRegex(lines[0], r"line: \d+  gemm #")
        self.assertRegex(lines[1], r"line: \d+  wait slots")
        self.assertGreater(int(re.search(r"colours (\d+)", text)[1]), 8)
        self.assertIn("theme dark", text)
        self.assertIn("overflow 0", text)

    def test_shows_verdicts_and_what_auto_weighed(self):
        dom, console = self.browse(self.page)
        self.assertEqual(console, [])
        self.assertEqual(dom.split('id="data"')[0].count("free of races and deadlocks"), 3)
        self.assertIn("What auto weighed", dom)
        self.assertNotIn("Unpacking", dom)

    def test_runs_no_script_of_a_name(self):
        plan = self.folder / (HOSTILE.replace("/", "") + ".plan")
        plan.write_text(stretto("plan", *OPERATOR))
        page = self.folder / "hostile.html"
        stretto("report", str(plan), "-o", page)
        dom, console = self.browse(page)
        self.assertEqual(console, [])
        self.assertIn("&lt;img src=x", dom)
        self.assertNotIn("<img", dom.split('id="data"')[0])



# Points at the first bar and the last point of a model's page.
POINT = """<script>
const tip = document.getElementById('tip'), said = [];
for (const element of [document.querySelector('#parts rect'), [...document.querySelectorAll('#gains circle')].pop()]) {
  element.dispatchEvent(new MouseEvent('mousemove', {clientX: 300, clientY: 300, bubbles: true}));
  said.push([...tip.children].map(line => line.textContent).join(' | '));
  element.dispatchEvent(new MouseEvent('mouseleave'));
  said.push('hidden ' + tip.hidden);
}
said.push('overflow ' + (document.documentElement.scrollWidth - innerWidth));
document.body.append(make('pre', {id: 'said', text: said.join('\\n')}));
</script>
"""


@unittest.skipUnless(BROWSER, "no chromium: the page was not looked at by a browser")
class ModelInABrowser(ModelPages):
    def test_charts_and_tables_are_drawn_and_say_what_is_pointed_at(self):
        driven = self.folder / "driven.html"
        driven.write_text(self.page.read_text() + POINT)
        dom, console = browse(self.folder, driven)
        self.assertEqual(console, [])
        shown = dom.split('id="data"')[0]
        layers = self.said["results"]
        self.assertEqual(shown.count("<rect"), 2 * sum(len(layer["linears"]) for layer in layers))
        self.assertEqual(shown.count("<circle"), sum(len(layer["linears"]) + 1 for layer in layers))
        for layer in layers:
            self.assertIn(f"<b>{layer['gain']:.2f}x</b>", shown)
            for part in layer["linears"]:
                self.assertIn(f"<td>{part['stretto_us']:.1f}</td>", shown)
        said = re.search(r'<pre id="said">(.*?)</pre>', dom, re.S)[1].split("\n")
        first = layers[0]["linears"][0]
        self.assertIn(f"{first['linear']}, 64 rows | ag-gemm 64 x ", said[0])
        self.assertIn(f"Stretto: {first['stretto_us']:.1f} µs, {first['gain']:.2f}x", said[0])
        self.assertEqual(said[2].split(" | ")[0], "layer, 1,024 rows")
        self.assertEqual(said[1::2], ["hidden true", "hidden true"])
        self.assertEqual(said[-1], "overflow 0")

    def test_where_nothing_is_served_no_chart_is_shown(self):
        page = self.folder / "odd.html"
        stretto("model", MODEL[0], "--tp", "1000", "--rows", "64", "--html", "-o", page)
        dom, console = browse(self.folder, page)
        self.assertEqual(console, [])
        self.assertIn('id="charts" hidden', dom)
        self.assertIn("32 heads are no multiple of 1000 ranks", dom.split('id="data"')[0])


if __name__ == "__main__":
    unittest.main()
