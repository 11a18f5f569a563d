// 04: a plan of one's own, made in C++: who computes, adds and sends what, and nothing of waits.
//
// A reduce-scatter by a ring is no point of the schedule space: the sum for a rank starts at the
// next one, gets a term at each rank on its way, and ends at its owner. Here its tasks are put on
// lanes in a loop, for any number of ranks, which a text like ring.plan cannot do.
// derive_signals() adds the waits and notifies. Who knows the order better than the data does,
// because places are written many times, gives it: that is a Draft, which lowering passes along.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "expect.h"
#include "stretto/check.h"
#include "stretto/derive.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

using namespace stretto;

namespace {

constexpr int kTile = 64;
enum : uint16_t { kA, kB, kPart, kRing, kOut };  // the buffers, in their order

struct Ring {
  Plan plan;
  std::vector<InstrRef> program;  // its tasks in an order in which one thread could execute them
};

// Puts a task at the end of a lane.
void put(Ring& ring, uint32_t lane, Opcode op, int tile, const std::vector<Region>& reads,
         const Region& write) {
  Plan& plan = ring.plan;
  Instr task;
  task.op = op;
  task.tile = tile;
  task.first_operand = static_cast<uint32_t>(plan.operands.size());
  task.num_reads = static_cast<uint16_t>(reads.size());
  task.num_writes = 1;
  plan.operands.insert(plan.operands.end(), reads.begin(), reads.end());
  plan.operands.push_back(write);
  std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  ring.program.push_back({lane, static_cast<uint32_t>(instrs.size())});
  instrs.push_back(task);
}

// The rows of one tile of a rank's buffer, over as many columns.
Region tile_rows(uint16_t buffer, int rank, int tile, int cols = kTile) {
  return {tile * kTile, (tile + 1) * kTile, 0, cols, buffer, static_cast<uint16_t>(rank)};
}

Ring ring_of(int ranks) {
  const int m = ranks * kTile;
  Ring ring;
  Plan& plan = ring.plan;
  plan.op = parse_operator(
      fmt::format("gemm-rs m={} n={} k={} ranks={} dtype=bf16", m, kTile, ranks * kTile, ranks));
  plan.schedule = "ring";
  plan.sms = 132;
  const int sums = (ranks - 1) * kTile;
  plan.buffers = {{"a", DType::bf16, BufferRole::input, m, kTile},
                  {"b", DType::bf16, BufferRole::input, kTile, kTile},
                  {"part", DType::fp32, BufferRole::local, sums, kTile},
                  {"ring", DType::fp32, BufferRole::symmetric, sums, kTile, 0, /*copies=*/2},
                  {"out", DType::bf16, BufferRole::output, kTile, kTile, /*sharded_rows=*/m}};
  for (int rank = 0; rank < ranks; ++rank) {
    plan.lanes.push_back({LaneKind::compute, static_cast<uint16_t>(rank), 0, {}});
    plan.lanes.push_back({LaneKind::comm, static_cast<uint16_t>(rank), 0, {}});
  }
  for (int hop = 0; hop < ranks; ++hop) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto compute = static_cast<uint32_t>(2 * rank), comm = compute + 1;
      const int owner = (rank + 2 * ranks - 1 - hop) % ranks, next = (rank + 1) % ranks;
      const std::vector<Region> factors = {tile_rows(kA, rank, owner), tile_rows(kB, rank, 0)};
      if (hop == 0) {  // begins at the next rank
        put(ring, compute, Opcode::gemm, owner, factors, tile_rows(kRing, next, 0));
        continue;
      }
      put(ring, compute, Opcode::gemm, owner, factors, tile_rows(kPart, rank, hop - 1));
      const bool is_last = hop == ranks - 1;
      put(ring, comm, Opcode::reduce, owner,
          {tile_rows(kRing, rank, hop - 1), tile_rows(kPart, rank, hop - 1)},
          is_last ? tile_rows(kOut, rank, 0) : tile_rows(kRing, next, hop));
    }
  }
  return ring;
}

// Proved, and right under adversarial orders of all lanes; its bits.
uint64_t examine(const Plan& plan, const char* how) {
  const CheckReport report = check(plan);
  fmt::print("{}: {} tasks, {} waits, {} notifies, {}\n", how, report.tasks, report.waits,
             report.notifies, report.clean() ? "clean" : report.diagnostics.front().message);
  expect(report.clean(), "the derived plan is proved");
  uint64_t hash = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    EmulateOptions options;
    options.seed = seed;
    options.runs = 3;
    const EmulateResult result = emulate(plan, options);
    expect(result.finished && result.verified && result.faults.empty(), "every run is right");
    expect(seed == 1 || result.output_hash == hash, "and has the same bits");
    hash = result.output_hash;
  }
  return hash;
}

void example() {
  for (const int ranks : {2, 3, 8}) {
    Ring ring = ring_of(ranks);
    const Plan derived = derive_signals(ring.plan);

    // The same with the order given.
    const Operator op = ring.plan.op;
    const Machine machine = default_machine(ranks);
    const OperatorSchedule any = schedule_of(find_preset("tiles"), op, machine);
    Draft draft{op, any, machine, std::move(ring.plan), std::move(ring.program), {}};
    place_signals(draft);

    fmt::print("\n{} ranks\n", ranks);
    expect(examine(derived, "by the data") == examine(draft.plan, "by the order given"),
           "both ways compute the same");
    expect(print(parse_plan(print(derived))) == print(derived), "it is a text like any other");
    fmt::print("predicted: {:.1f} us\n", simulate(derived, machine).total_us);
  }
}

}  // namespace

int main() { return run_example(example); }
