// Any bytes are a plan or a UsageError; a plan that was read prints and reads the same again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "stretto/error.h"
#include "stretto/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  Plan plan;
  try {
    plan = parse_plan({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const UsageError&) {
    return 0;
  }
  validate(plan);
  const std::string text = print(plan);
  if (print(parse_plan(text)) != text) std::abort();
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.is_task()) placed_writes(plan, instr);
    }
  }
  return 0;
}
