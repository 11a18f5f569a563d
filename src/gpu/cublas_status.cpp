#include "gpu/cublas_status.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

const char* meaning_of(int status) {
  switch (status) {
    case 1:
      return "the library did not come up, as where GPU memory is used up";
    case 7:
      return "a value is not one that it takes";
    case 8:
      return "it does not serve this GPU";
    case 11:
      return "GPU memory could not be reached";
    case 13:
      return "its kernel failed";
    case 14:
      return "it failed inside";
    case 15:
      return "it does not support that";
    default:
      return "unknown";
  }
}

}  // namespace

void check_cublas(int status, const char* what) {
  constexpr int kAllocFailed = 3;
  if (status == 0) return;
  if (status == kAllocFailed) {
    throw SystemError(fmt::format("out of GPU memory: cuBLAS had none left to {}", what));
  }
  throw SystemError(
      fmt::format("cuBLAS could not {}: {} (status {})", what, meaning_of(status), status));
}

}  // namespace stretto::cuda
