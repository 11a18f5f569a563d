// An NCCL that does nothing, and does it well; but with STUB_NCCL_SAYS it gives no memory, and says
// that of it. STUB_NCCL_VERSION=22706 is its version.
#include <cstdlib>

#include "fabric/nccl_api.h"

namespace stretto::fabric {

extern "C" {

int ncclGetVersion(int* version) {
  const char* code = std::getenv("STUB_NCCL_VERSION");
  *version = code == nullptr ? 22809 : std::atoi(code);
  return 0;
}

int ncclMemAlloc(void**, size_t) { return std::getenv("STUB_NCCL_SAYS") == nullptr ? 0 : 1; }

const char* ncclGetErrorString(int) { return "unhandled error of the stub"; }

const char* ncclGetLastError(NcclComm) {
  const char* said = std::getenv("STUB_NCCL_SAYS");
  return said == nullptr ? "" : said;
}

}  // extern "C"

}  // namespace stretto::fabric
