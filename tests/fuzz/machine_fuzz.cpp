// Any bytes are a machine or a UsageError.
#include <cstdint>
#include <string_view>

#include "stretto/error.h"
#include "stretto/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  try {
    load_machine_text({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  } catch (const UsageError&) {
  }
  return 0;
}
