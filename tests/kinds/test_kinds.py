"""Kinds of tasks and of stages are told apart by their rows, and operators by their graphs."""

import pathlib
import re
import unittest

from kind_switches import DEFAULT, bare, chosen_by, in_words, listed_in, named_in, switched_over, unsaid_in

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Who makes tasks, and so names them: the rows, what lowers, and the rows of stages.
MAKERS = ("src/tasks/", "src/lower/", "src/op/stages/")
# Elsewhere no kind has a name but a plain product and a plain move, one of them in a file, and
PLAIN = {"copy", "gemm"}
NAMES = {
    "src/check/program_places.cpp": ["copy", "route"],  # of each kind of a stream's steps, whose work it does
    "src/emu/collectives.cpp": ["norm", "reduce"],  # a collective with a norm is what these two make of its rows
    "src/measure/measured_timeline.cpp": ["gemm", "reduce"],  # a tile's time stamps: of its product, and of its sum
}
# What each row says of its kind, and the type that makes a row without it an error of the compiler.
SAID = {"worker": "Required<Worker> worker;", "cost": "Required<Rate> rate;", "kernels": "Required<KernelKind> by;",
        "in_tile": "Required<TileRole> in_tile;"}
# Over numbers of any size, or what other libraries list.
DEFAULTS = {"src/emu/scheduler.cpp", "src/fibre/scenarios/chosen_rows.h", "src/gpu/cublas_status.cpp",
            "src/machine/json_reader.cpp", "src/op/routing_input.cpp"}

# The lists' own names and numbers of operands: one line for all enumerators.
SWITCHES = {"src/plan/plan.cpp": ["Opcode"], "src/op/print_graph.cpp": ["StageKind", "StageKind"]}


def found_in(texts, find):
    found = {name: list(find(text)) for name, text in texts.items()}
    return {name: enums for name, enums in found.items() if enums}


class Kinds(unittest.TestCase):
    def setUp(self):
        self.texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for folder in ("include", "src")
                      for path in (ROOT / folder).rglob("*.*") if path.suffix in (".h", ".cpp", ".cu", ".cuh")}
        self.assertGreater(len(self.texts), 300)
        plan, tasks = self.texts["include/stretto/plan.h"], self.texts["include/stretto/task_kind.h"]
        self.kinds = {"Opcode": listed_in(plan, "STRETTO_OPCODES") | listed_in(tasks, "STRETTO_TASK_KINDS"),
                      "StageKind": listed_in(self.texts["include/stretto/operator.h"], "STRETTO_STAGES")}
        self.assertLessEqual({"wait", "deliver", "gemm", "slice_weights"}, self.kinds["Opcode"])
        self.assertLessEqual({"gemm", "grouped", "gather"}, self.kinds["StageKind"])

    def test_no_switch_is_over_them(self):
        self.assertEqual(found_in(self.texts, lambda text: switched_over(text, self.kinds)), SWITCHES)

    def test_no_chain_of_choices_is_over_them(self):
        self.assertEqual(found_in(self.texts, lambda text: chosen_by(text, most=1)), {})

    def test_no_other_code_names_two_kinds_of_tasks(self):
        kinds = listed_in(self.texts["include/stretto/task_kind.h"], "STRETTO_TASK_KINDS")
        named = {name: named_in(text, kinds) for name, text in self.texts.items() if not name.startswith(MAKERS)}
        self.assertEqual({name: found for name, found in named.items() if len(found) > 1 or set(found) - PLAIN}, NAMES)
        self.assertEqual(in_words(self.texts, r"\busing enum (\w+::)*Opcode\b"), [])

    def test_each_row_says_cost_kernel_and_place_in_a_tile(self):
        header = self.texts["include/stretto/task_kind.h"]
        for member, declared in SAID.items():
            self.assertIn(declared, header, member)
        # A member that is said has no value of its own.
        self.assertNotIn("Required() ", header)
        rows = {name: text for name, text in self.texts.items()
                if name.startswith("src/tasks/") and re.search(r"^const TaskKind \w+ =", text, re.MULTILINE)}
        self.assertGreater(len(rows), 20)
        self.assertEqual(found_in(rows, lambda text: unsaid_in(text, SAID)), {})

    def test_defaults_are_of_no_enumeration_of_ours(self):
        self.assertEqual({name for name, text in self.texts.items() if DEFAULT.search(bare(text))}, DEFAULTS)

    def test_no_code_has_kinds_of_operators(self):
        self.assertEqual(in_words(self.texts, r"\bOpKind\b"), [])
        # There it is a member that is made with the ranks: what is due to each.
        self.assertEqual(in_words(self.texts, r"\breduces\s*\("), ["src/lower/due_reduces.cpp"])

    def test_switches_are_found(self):
        for text, enums in {
                "switch (op) { case Opcode::gelu: f(); break; default: g(); }": ["Opcode"],
                "switch (of(a, (b))) {\n case stretto::Opcode::gelu:\n return 1;\n}": ["Opcode"],
                "using enum Opcode; switch (op) { case gelu: case silu: return 1; }": ["Opcode"],
                "switch (op) { STRETTO_TASK_KINDS(STRETTO_CASE) }": ["Opcode"],
                "switch (kind) { case StageKind::permute: return 1; } switch (op) { case Opcode::gemm: }":
                    ["StageKind", "Opcode"],
                "switch (lane) { case LaneKind::copy: case LaneKind::nccl: return 1; }": [],
                "switch (form) { case OpForm::wait: case OpForm::notify: return 1; }": [],
                "switch (n) { case 1: return f(Opcode::gelu); }": [],
                "// switch (op) { case Opcode::gelu: }": [],
                'say("switch (op) { case Opcode::gelu: }");': []}.items():
            self.assertEqual(list(switched_over(text, self.kinds)), enums, text)

    def test_names_and_what_is_unsaid_are_found(self):
        kinds = self.kinds["Opcode"] - {"wait"}
        self.assertEqual(named_in("a == Opcode::gelu || Opcode::wait; // Opcode::silu", kinds), ["gelu"])
        row = "const TaskKind relu = {.worker = Worker::mover_kernel, .cost = {.rate = Rate::sums}};"
        self.assertEqual(unsaid_in(row, SAID), ["kernels", "in_tile"])

    def test_chains_are_found(self):
        chain = "x = op == Opcode::gelu ? a : op == Opcode::silu ? b : c;"
        self.assertEqual(list(chosen_by(chain, most=1)), ["Opcode"])
        self.assertEqual(list(chosen_by(chain, most=2)), [])
        self.assertEqual(list(chosen_by("// " + chain, most=1)), [])


if __name__ == "__main__":
    unittest.main()
