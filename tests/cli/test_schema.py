"""What --json prints is what docs/schema says, and holds nothing that it does not say."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    import jsonschema
except ImportError:
    jsonschema = None

STRETTO = os.environ["STRETTO_BINARY"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schema"
SMALL = ["gemm-rs", "--m", "192", "--n", "160", "--k", "128", "--ranks", "4"]


def said(*arguments, status=0):
    """The object that a command prints."""
    done = subprocess.run([STRETTO, *map(str, arguments), "--json"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return json.loads(done.stdout)


def read(name):
    return json.loads((SCHEMAS / name).read_text())


def target(schema, file):
    """The schema that a $ref means, and the file that it stands in."""
    while "$ref" in schema:
        name, _, path = schema["$ref"].partition("#/")
        file = name or file
        schema = read(file)
        for part in path.split("/"):
            schema = schema[part]
    return schema, file


def undocumented(value, schema, file, place=""):
    """The fields of an object that no schema of it speaks of."""
    alternatives, seen = [(schema, file)], []
    while alternatives:
        one, of = target(*alternatives.pop())
        seen.append((one, of))
        for key in ("allOf", "oneOf", "anyOf"):
            alternatives += [(other, of) for other in one.get(key, [])]
    if isinstance(value, list):
        items = [(one["items"], of) for one, of in seen if "items" in one]
        return [found for i, entry in enumerate(value) for schema_of, of in items[:1]
                for found in undocumented(entry, schema_of, of, f"{place}[{i}]")]
    if not isinstance(value, dict):
        return []
    found = []
    for key, entry in value.items():
        known = [(one["properties"][key], of) for one, of in seen if key in one.get("properties", {})]
        free = [one for one, _ in seen if "additionalProperties" in one or
                one.get("type") == "object" and "properties" not in one]
        if known:
            found += undocumented(entry, *known[0], f"{place}.{key}")
        elif not free:
            found.append(f"{place}.{key}")
    return found


@unittest.skipUnless(jsonschema, "no python3-jsonschema: objects were not held to their schemas")
class Schemas(unittest.TestCase):
    def holds(self, value, name):
        schema = read(name + ".json")
        resolver = jsonschema.RefResolver((SCHEMAS / (name + ".json")).as_uri(), schema)
        jsonschema.Draft202012Validator(schema, resolver=resolver).validate(value)
        self.assertEqual(undocumented(value, schema, name + ".json"), [])

    def test_are_schemas_of_all_verbs(self):
        page = (ROOT / "docs" / "cli.md").read_text()
        verbs = set(re.findall(r"\n    stretto ([a-z]+) ", page)) - {"launch", "completions", "help"}
        files = {path.stem for path in SCHEMAS.glob("*.json")} - {"common", "error"}
        self.assertEqual(files, verbs)
        for path in SCHEMAS.glob("*.json"):
            jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))

    def test_of_verbs_on_plans(self):
        for verb in ("run", "check", "simulate", "report"):
            for strategies in ("all", "auto,tiles"):
                self.holds(said(verb, *SMALL, "--strategy", strategies), verb)
        self.holds(said("plan", *SMALL), "plan")
        self.holds(said("plan", *SMALL, "--workspace"), "plan")
        self.holds(said("plan", *SMALL, "--workspace", "--serve"), "plan")
        self.holds(said("check", "mlp", "m=64", "h=32", "f=64", "--ranks", "2"), "check")
        # Of seven ranks many a strategy serves nothing.
        odd = ["gemm-rs", "--m", "193", "--n", "160", "--k", "119", "--ranks", "7"]
        self.holds(said("simulate", *odd, "--strategy", "all"), "simulate")

    def test_of_broken_plans(self):
        text = subprocess.run([STRETTO, "plan", *SMALL], text=True, stdout=subprocess.PIPE,
                              check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            plan = pathlib.Path(folder) / "broken.plan"
            for edit in (r"\n  wait [^\n]*", r"\n  notify [^\n]*"):
                plan.write_text(re.sub(edit, "", text, count=1))
                self.holds(said("check", plan, status=1), "check")
                self.holds(said("run", plan, status=1), "run")
            self.holds(said("simulate", plan, status=1), "error")

    def test_of_lists(self):
        for verb in ("strategies", "machines", "env", "explore", "model", "doctor"):
            self.holds(said(verb), verb)
        self.holds(said("machines", "h200x8"), "machines")
        self.holds(said("model", "llama-3-8b", "--tp", "8", "--rows", "64"), "model")

    def test_of_explored_kernels(self):
        self.holds(said("explore", "all_to_all", "--seeds", "2"), "explore")
        bug = next(one["name"] for one in said("explore")["kernels"] if one["kind"] == "bug")
        self.holds(said("explore", bug, status=1), "explore")

    def test_of_measurements(self):
        results = ROOT / "bench" / "results"
        for name in ("operators_h200_x2", "operators_h200_x4", "operators_h200_x8"):
            self.holds(json.loads((results / (name + ".json")).read_text()), "bench")

    def test_of_errors(self):
        for words, verb, kind, status in (
                (["simulate", "gemm-rz", "--m", "8"], "simulate", "usage", 2),
                (["simulate", *SMALL, "--no-such-option"], "simulate", "usage", 2),
                (["modle"], "", "usage", 2),
                (["check", *SMALL, "-o", "/nowhere/at/all"], "check", "system", 3)):
            error = said(*words, status=status)
            self.holds(error, "error")
            self.assertEqual((error["verb"], error["error"]["kind"], error["error"]["exit_status"]),
                             (verb, kind, status))

    def test_find_what_is_wrong(self):
        good = said("plan", *SMALL)
        for change in ({"schema": 2}, {"text": 5}, {"plan": {}}, {"operator": {"kind": "x"}}):
            with self.assertRaises(jsonschema.ValidationError):
                self.holds({**good, **change}, "plan")
        self.assertEqual(undocumented({**good, "new": 1}, read("plan.json"), "plan.json"), [".new"])


if __name__ == "__main__":
    unittest.main()
