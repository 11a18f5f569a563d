#include "gpu/nvrtc_api.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "gpu/dynamic_library.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

struct Loaded {
  NvrtcApi api;
  std::string problem, version, build;
  bool has_cache = false;
};

Loaded load() {
  Loaded loaded;
  const std::array<std::string, 3> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  const auto library = DynamicLibrary::open(names, toolkit_folders());
  if (!library) {
    loaded.problem =
        "no CUDA run-time compiler (libnvrtc.so.13 or .12): install the CUDA toolkit, or set "
        "CUDA_HOME to its folder";
    return loaded;
  }
  const Import imports[] = {
#define STRETTO_IMPORT(member, symbol, parameters) \
  {#symbol, reinterpret_cast<void**>(&loaded.api.member)},
      STRETTO_NVRTC_FUNCTIONS(STRETTO_IMPORT)
#undef STRETTO_IMPORT
  };
  if (const char* missing = import_all(*library, imports)) {
    loaded.problem =
        fmt::format("{} lacks {}: CUDA 12 or newer is needed", library->path(), missing);
    return loaded;
  }
  int major = 0, minor = 0;
  loaded.api.version(&major, &minor);
  loaded.version = fmt::format("nvrtc {}.{}", major, minor);
  loaded.has_cache = std::pair(major, minor) >= std::pair(12, 9);
  loaded.build = library->build_id("nvrtcVersion");
  // It loads a library of its own by name, which the system need not know of either.
  if (const size_t end = library->path().rfind('/'); end != std::string::npos) {
    const std::string folder = library->path().substr(0, end);
    DynamicLibrary::open(
        std::array{fmt::format("{}/libnvrtc-builtins.so.{}.{}", folder, major, minor)}, {});
  }
  return loaded;
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const std::string& why_no_compiler() { return loaded().problem; }

const NvrtcApi& nvrtc() {
  if (!loaded().problem.empty()) throw SystemError(loaded().problem);
  return loaded().api;
}

const std::string& compiler_version() {
  nvrtc();
  return loaded().version;
}

bool compiler_has_cache() {
  nvrtc();
  return loaded().has_cache;
}

const std::string& compiler_build() {
  nvrtc();
  return loaded().build;
}

}  // namespace stretto::cuda
