// 02: the checker. A shipped plan is clean; delete one line and the checker says what can go wrong.
//
// Synchronisation bugs are rarely seen by running a program: it works until a rank lags. The
// checker does not run anything. It builds the order that waits and notifies impose on all
// accesses, within a run and between consecutive runs, and reports every pair that is left without
// an order.
#include <fmt/format.h>

#include "expect.h"
#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"

using namespace stretto;

namespace {

// The plan without its `nth` line that begins with `word`, as an editor would delete it.
Plan without_line(const Plan& plan, const std::string& word, int nth) {
  std::string text = print(plan);
  size_t at = 0;
  for (int i = 0; i <= nth; ++i) {
    at = text.find("\n  " + word + " ", at + 1);
    expect(at != std::string::npos, "the plan has that many lines with " + word);
  }
  const size_t end = text.find('\n', at + 1);
  fmt::print("\ndeleted line:{}\n", text.substr(at + 1, end - at - 1));
  text.erase(at, end - at);
  return parse_plan(text, "edited.plan");
}

CheckReport examine(const Plan& plan) {
  const CheckReport report = check(plan);
  fmt::print("{} tasks, {} waits, {} notifies: {}\n", report.tasks, report.waits, report.notifies,
             report.clean() ? "clean" : "NOT clean");
  for (const Diagnostic& found : report.diagnostics) {
    fmt::print("  {}: {}\n    hint: {}\n", to_string(found.kind), found.message, found.hint);
  }
  return report;
}

bool has(const CheckReport& report, DiagnosticKind kind) {
  for (const Diagnostic& found : report.diagnostics) {
    if (found.kind == kind) return true;
  }
  return false;
}

void example() {
  const Segment op = parse_segment("gemm-rs m=128 n=64 k=96 ranks=2 dtype=bf16");
  const Machine machine = default_machine(op.ranks);
  const Plan plan = lower(op, parse_schedule("tiles,tile=64x64,comm-sms=1", op, machine), machine);
  expect(examine(plan).clean(), "what lowering makes is clean");

  // Without its notify, someone waits for a counter that stops short.
  const Plan silent = without_line(plan, "notify", 0);
  const CheckReport stuck = examine(silent);
  expect(has(stuck, DiagnosticKind::unreachable_threshold),
         "the missing notify is found as a threshold out of reach");

  // The emulator meets the same fault the hard way, and can still say who waits for what.
  const EmulateResult result = emulate(silent);
  expect(!result.finished && !result.stuck.empty(), "the run cannot finish");
  for (const StuckLane& lane : result.stuck) {
    fmt::print("  emulator: {} waits for {} >= {}, sees {}\n", lane.lane, lane.signal,
               lane.expected, lane.seen);
  }

  // Without its wait, a reduction may read partial sums that have not arrived.
  const CheckReport race = examine(without_line(plan, "wait", 0));
  expect(!race.clean(), "the missing wait is found");
  for (const Diagnostic& found : race.diagnostics) {
    expect(!found.message.empty() && !found.hint.empty(),
           "each diagnostic says what is wrong and what would be right");
  }
}

}  // namespace

int main() { return run_example(example); }
