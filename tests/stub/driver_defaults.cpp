// Every function of the driver that Stretto looks for: it does nothing, and does it well.
// STUB_FAIL="cuModuleLoadData=209" makes one fail.
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpu/driver_api.h"

namespace stretto::cuda {

Result stub_answer(std::string_view symbol) {
  const char* text = std::getenv("STUB_FAIL");
  const std::string_view failing = text == nullptr ? "" : text;
  const size_t at = failing.find('=');
  if (at == std::string_view::npos || failing.substr(0, at) != symbol) return kSuccess;
  return std::atoi(failing.substr(at + 1).data());
}

// Weak: driver.cpp has better answers of some.
#define STRETTO_STUB(member, symbol, parameters) \
  extern "C" __attribute__((weak)) Result symbol parameters { return stub_answer(#symbol); }
STRETTO_DRIVER_FUNCTIONS(STRETTO_STUB)
#undef STRETTO_STUB

}  // namespace stretto::cuda
