// Any bytes are a tuning or a UsageError.
#include <cstdint>
#include <string_view>

#include "stretto/error.h"
#include "stretto/tune.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  Tuning tuning;
  try {
    tuning = parse_tuning({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const UsageError&) {
    return 0;
  }
  parse_tuning(print_tuning(tuning));  // what was understood can be written and read again
  return 0;
}
