// 03: many seeds and a machine. Is every strategy right under every interleaving, and what does it
// hide?
//
// The emulator runs all ranks on real data. A seed decides which lane moves next, which rank lags
// and how late a write to a peer becomes visible: a schedule that is right only when everybody
// keeps step does not survive many seeds. The simulator then predicts the time on a machine, for a
// shape that would be too large to compute here.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "expect.h"
#include "stretto/emulate.h"
#include "stretto/lower.h"
#include "stretto/simulate.h"

using namespace stretto;

namespace {

constexpr uint64_t kSeeds = 8;

// Runs the plan under every seed; returns the bits that all of them agree on.
uint64_t emulate_many(const Plan& plan, std::string_view name) {
  uint64_t hash = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EmulateOptions options;
    options.seed = seed;
    options.runs = 3;  // buffers and signals are used again: the next run must not disturb this one
    const EmulateResult result = emulate(plan, options);
    expect(result.finished && result.verified && result.faults.empty(),
           fmt::format("{} is right under seed {}", name, seed));
    if (seed == 1) hash = result.output_hash;
    expect(result.output_hash == hash,
           fmt::format("{} gives the same bits under every seed", name));
  }
  return hash;
}

void example() {
  const Segment small = parse_segment("gemm-rs m=100 n=96 k=128 ranks=4 dtype=bf16");
  const Segment large = parse_segment("gemm-rs m=8192 n=8192 k=28672 ranks=8 dtype=bf16");
  const Machine machine = default_machine(large.ranks);
  fmt::print("right: {} under {} seeds\n", to_string(small), kSeeds);
  fmt::print("time:  {} on {}\n\n", to_string(large), machine.name);
  fmt::print("{:<12} {:>16} {:>10} {:>12} {:>10} {:>8}\n", "strategy", "output bits", "total us",
             "GEMM alone", "exposed", "hidden");

  std::map<std::string_view, double> exposed_us;
  for (const Preset& preset : presets()) {
    const uint64_t hash =
        emulate_many(lower(small, preset.make(small, machine), machine), preset.name);

    const Plan plan = lower(large, preset.make(large, machine), machine);
    const Simulation simulation = simulate(plan, machine);
    const double hidden =
        std::clamp(1 - simulation.exposed_us / simulation.communication_us, 0.0, 1.0);
    exposed_us[preset.name] = simulation.exposed_us;
    fmt::print("{:<12} {:016x} {:>10.1f} {:>12.1f} {:>10.1f} {:>7.0f}%\n", preset.name, hash,
               simulation.total_us, simulation.compute_us, simulation.exposed_us, 100 * hidden);
    expect(simulation.total_us >= simulation.floor_us, "nothing is faster than its floor");
  }
  expect(exposed_us["tiles"] < exposed_us["sequential"],
         "tiles hides communication that sequential leaves exposed");
}

}  // namespace

int main() { return run_example(example); }
