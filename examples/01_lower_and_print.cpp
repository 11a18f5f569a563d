// 01: from an operator and a schedule to a plan, and the plan as text.
//
// An operator says what is computed: here C = A * B^T whose sum over K is spread over two ranks,
// and whose rows are then scattered (GEMM + ReduceScatter). A schedule says how: who computes which
// tile when, who moves the partial sums, what tells the receiver that they are there. Lowering
// makes the program of every rank out of both. Nobody writes a wait or a notify: they follow from
// what each task reads and writes.
#include <fmt/format.h>

#include "expect.h"
#include "stretto/lower.h"

using namespace stretto;

namespace {

size_t count(const Plan& plan, Opcode op) {
  size_t found = 0;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) found += instr.op == op;
  }
  return found;
}

void example() {
  Segment op;
  op.kind = kGemmRs;
  op.m = 128;  // global sizes: rows and columns of C, length of the sums
  op.n = 64;
  op.k = 96;
  op.ranks = 2;
  op.dtype = DType::bf16;
  const Machine machine = default_machine(op.ranks);

  // A preset, with one change: small tiles, so that the plan fits a screen.
  const Schedule schedule = parse_schedule("tiles,tile=64x64,comm-sms=1", op, machine);
  fmt::print("schedule: {}\n\n", to_string(schedule));

  // The steps of lowering, and what each leaves behind.
  const auto watch = [](const LowerStep& step, const Draft& draft) {
    fmt::print("{:<16} {:>2} buffers {:>2} lanes {:>3} instructions   {}\n", step.name,
               draft.plan.buffers.size(), draft.plan.lanes.size(), draft.plan.num_instrs(),
               step.why_here);
  };
  const Plan plan = lower(op, schedule, machine, watch);

  const std::string text = print(plan);
  fmt::print("\n{}", text);

  // Two tiles of 64 rows on each of two ranks; each owner adds two partial sums for its one tile.
  expect(count(plan, Opcode::gemm) == 4, "2 ranks compute 2 tiles each");
  expect(count(plan, Opcode::reduce) == 2, "each rank reduces the tile that it owns");
  expect(count(plan, Opcode::wait) > 0, "the reductions wait for the tiles");
  expect(print(parse_plan(text)) == text, "a printed plan is read back exactly");
}

}  // namespace

int main() { return run_example(example); }
