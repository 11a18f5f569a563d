// What can be read can be used: the checker answers about every plan; simulation and emulation
// run it or refuse it with a UsageError. None crashes, hangs or takes memory by the gigabyte.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "stretto/check.h"
#include "stretto/emulate.h"
#include "stretto/error.h"
#include "stretto/simulate.h"

namespace {

using namespace stretto;

// Work that is honest but slow is no finding: emulation is tried on what is small, or on what must
// be refused because it cannot be held.
bool worth_emulating(const Plan& plan) {
  double elements = 0, products = 0;
  for (const Buffer& buffer : plan.buffers) {
    elements += double(buffer.rows) * buffer.cols * buffer.copies * plan.ranks();
  }
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm) continue;
      const Region& b = plan.reads(instr).back();
      for (const Region& a : plan.reads(instr)) products += double(a.elements()) * b.rows();
    }
  }
  const double reference = stretto::flops_per_rank(plan.op) / 2 * plan.op.ranks;
  return elements > 1e15 || (elements < 1e5 && products < 1e6 && reference < 1e6);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Plan plan;
  try {
    plan = parse_plan({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const UsageError&) {
    return 0;
  }
  for (const Diagnostic& found : check(plan).diagnostics) {
    if (found.where && found.where->lane >= plan.lanes.size()) std::abort();
  }
  static const Machine machine = load_machine("h200x8");
  try {
    const Simulation simulation = simulate(plan, machine);
    draw_timeline(plan, simulation);
  } catch (const UsageError&) {
  }
  if (!worth_emulating(plan)) return 0;
  try {
    EmulateOptions options;
    options.fill = Fill::integers;
    emulate(plan, options);
  } catch (const UsageError&) {
  }
  return 0;
}
