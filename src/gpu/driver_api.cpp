#include "gpu/driver_api.h"

#include <fmt/format.h>

#include <array>

#include "core/environment.h"
#include "gpu/dynamic_library.h"
#include "gpu/shared_gpus.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

struct Loaded {
  DriverApi api;
  std::string problem;
};

Loaded load() {
  Loaded loaded;
  const std::array<std::string, 2> names = {"libcuda.so.1", "libcuda.so"};
  const auto library = DynamicLibrary::open(names, {});
  if (!library) {
    loaded.problem = "no CUDA driver on this machine (libcuda.so.1 not found)";
    return loaded;
  }
  DriverApi& api = loaded.api;
  const Import imports[] = {
#define STRETTO_IMPORT(member, symbol, parameters) {#symbol, reinterpret_cast<void**>(&api.member)},
      STRETTO_DRIVER_FUNCTIONS(STRETTO_IMPORT)
#undef STRETTO_IMPORT
  };
  if (const char* missing = import_all(*library, imports)) {
    loaded.problem =
        fmt::format("the CUDA driver is too old: {} is missing; 12.4 or newer is needed", missing);
    return loaded;
  }
  const std::string& shared = environment().ranks_a_gpu;
  if (!shared.empty() && shared != "1") prepare_driver_to_share();
  const Result result = api.init(0);
  int count = 0;
  if (result == kSuccess && api.device_count(&count) == kSuccess && count > 0) return loaded;
  const char* reason = "no device";
  if (result != kSuccess) api.get_error_string(result, &reason);
  loaded.problem = fmt::format("the CUDA driver sees no GPU ({})", reason);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const std::string& why_no_driver() { return loaded().problem; }

const DriverApi& driver() {
  if (!loaded().problem.empty()) throw SystemError(loaded().problem);
  return loaded().api;
}

std::string reason_of(Result result) {
  const char* name = "unknown";
  const char* reason = "unknown error";
  driver().get_error_name(result, &name);
  driver().get_error_string(result, &reason);
  return fmt::format("{} ({})", reason, name);
}

void check(Result result, const char* what) {
  if (result != kSuccess) throw SystemError(fmt::format("{}: {}", what, reason_of(result)));
}

}  // namespace stretto::cuda
