"""compute-sanitizer over a few short GPU tests; what each tool found, as JSON.

    python3 bench/verify/sanitize.py --build build/release --commit ID --out FILE

memcheck and synccheck must find nothing. racecheck's hazards are counted and not judged: warps tell each other through
words of shared memory that are polled with acquire and stored with release, which it takes for races
(docs/notes/presets.md, section 6).
"""
import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys

JUDGED = ("memcheck", "synccheck")
TOOLS = JUDGED + ("racecheck",)
# Kernels of one GPU, and small plans of every mover on two.
SUITES = {
    "test_tables": "GemmGpuTest.EveryTypeAndBothEpilogues:GemmSignalsGpuTest.*",
    "test_run": ":".join(
        f"*PresetsOnGpus.AreRight/*_{kind}_m_{sizes}_ranks_2_*_{preset}"
        for kind in ("ag_gemm", "gemm_rs", "gemm_ar")
        for sizes, preset in (("129_n_512_k_512", "tiles"), ("129_n_512_k_512", "decomposed"),
                              ("7_n_512_k_512", "slices"), ("1_n_1024_k_1024", "low_latency"))),
}
SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: (\d+)")


def find_tool():
    folders = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(folders))


def find_program(build, name):
    for folder, _, files in os.walk(build):
        path = os.path.join(folder, name)
        if name in files and os.access(path, os.X_OK):
            return path
    return None


def found_in(text):
    """What the tool counted, over all processes; None where it says nothing."""
    counts = [int(number) for _, number in SUMMARY.findall(text)]
    return sum(counts) if counts else None


def tests_in(text):
    passed = re.search(r"\[  PASSED  \] (\d+) test", text)
    failed = re.search(r"\[  FAILED  \] (\d+) test", text)
    return int(passed[1]) if passed else 0, int(failed[1]) if failed else 0


def run(sanitizer, tool, program, tests, seconds):
    command = [sanitizer, "--tool", tool]
    if tool == "memcheck":
        # Codes that calls return are no accesses: probes for what a GPU or a library has.
        command += ["--report-api-errors", "no"]
    command += [program, f"--gtest_filter={tests}", "--gtest_brief=1"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds, check=False)
        text, ended = done.stdout.decode(errors="replace"), f"exit {done.returncode}"
    except subprocess.TimeoutExpired as error:
        text, ended = (error.stdout or b"").decode(errors="replace"), f"ended after {seconds} s"
    passed, failed = tests_in(text)
    return {"tool": tool, "program": os.path.basename(program), "passed": passed, "failed": failed,
            "found": found_in(text), "ended": ended}, text


def is_good(result):
    """A tool that says nothing has not looked; tests that fail under it may have done nothing."""
    if result["found"] is None or result["passed"] == 0 or result["failed"] > 0:
        return False
    return result["tool"] not in JUDGED or result["found"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=int, default=240, help="the longest a tool may take for one program")
    options = parser.parse_args()
    sanitizer = find_tool()
    if sanitizer is None:
        sys.exit("compute-sanitizer is not installed: it comes with the CUDA toolkit, in the bin of CUDA_HOME")
    programs = {name: find_program(options.build, name) for name in SUITES}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        sys.exit(f"no {', '.join(missing)} in {options.build}; ./dev build release makes them")
    results = []
    for tool in TOOLS:
        for name, path in programs.items():
            result, text = run(sanitizer, tool, path, SUITES[name], options.seconds)
            result["good"] = is_good(result)
            results.append(result)
            print(text)
            print(f"{tool} {name}: {result['found']} found, {result['passed']} tests passed, "
                  f"{result['failed']} failed, {result['ended']}", flush=True)
            # After each, for a step that is ended early.
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump({"commit": options.commit, "date": datetime.date.today().isoformat(),
                           "tests": SUITES, "results": results}, file, indent=1)
                file.write("\n")
    sys.exit(0 if all(result["good"] for result in results) else 1)


if __name__ == "__main__":
    main()
