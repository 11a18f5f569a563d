// An operator on the first line, a schedule on the second: both are read or refused, what was read
// prints and reads the same, and whether it is legal can be told.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "stretto/error.h"
#include "stretto/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  Machine machine;
  machine.nodes = 8;
  machine.nccl_sms = 16;
  Segment op{kGemmRs, 2048, 1024, 4096, 8, DType::bf16};
  try {
    op = parse_segment(text.substr(0, end));
  } catch (const UsageError&) {
  }
  if (parse_segment(to_string(op)) != op) std::abort();
  if (end == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(end + 1);
  try {
    const Schedule schedule = parse_schedule(rest.substr(0, rest.find('\n')), op, machine);
    if (parse_schedule(to_string(schedule), op, machine) != schedule) std::abort();
    legal(op, schedule, machine);
  } catch (const UsageError&) {
  }
  return 0;
}
