#include "fabric/nccl_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <span>

#include "core/environment.h"
#include "gpu/dynamic_library.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

struct Loaded {
  NcclApi api;
  std::string problem;
};

// The user's choice, or else what the system and the toolkit have.
std::optional<cuda::DynamicLibrary> open_library() {
  const std::string& chosen = environment().nccl_path;
  const std::array<std::string, 1> names = {chosen.empty() ? "libnccl.so.2"
                                                           : chosen + "/libnccl.so.2"};
  return cuda::DynamicLibrary::open(
      names, chosen.empty() ? cuda::toolkit_folders() : std::span<const std::string>());
}

// Before 2.9 a major version counted 1000.
std::string dotted(int version_code) {
  const int major = version_code < 10000 ? 1000 : 10000;
  return fmt::format("NCCL {}.{}.{}", version_code / major, version_code % major / 100,
                     version_code % 100);
}

std::string too_old(int version_code, const char* missing) {
  return fmt::format("{} is too old: 2.18 or newer is needed{}",
                     version_code == 0 ? "NCCL" : dotted(version_code),
                     missing == nullptr ? "" : fmt::format(" ({} is missing)", missing));
}

// What NCCL said of its last failure, in one line.
std::string last_error() {
  std::string detail = nccl().last_error(nullptr);
  std::replace(detail.begin(), detail.end(), '\n', ' ');
  return detail;
}

Loaded load() {
  Loaded loaded;
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  const auto library = open_library();
  if (!library) {
    loaded.problem =
        "no NCCL on this machine (libnccl.so.2 not found; STRETTO_NCCL_PATH says where)";
    return loaded;
  }
  NcclApi& api = loaded.api;
  const cuda::Import needed[] = {
#define STRETTO_IMPORT(member, symbol, parameters) {#symbol, reinterpret_cast<void**>(&api.member)},
      STRETTO_NCCL_FUNCTIONS(STRETTO_IMPORT)
#undef STRETTO_IMPORT
          {"ncclGetErrorString", reinterpret_cast<void**>(&api.error_string)},
      {"ncclGetLastError", reinterpret_cast<void**>(&api.last_error)}};
  const char* const missing = cuda::import_all(*library, needed);
  if (api.version != nullptr) api.version(&api.version_code);
  if (missing != nullptr || api.version_code < kNcclSince) {
    loaded.problem = too_old(api.version_code, missing);
    return loaded;
  }
#define STRETTO_FIND(member, symbol, parameters) \
  api.member = reinterpret_cast<decltype(api.member)>(library->find(#symbol));
  STRETTO_NCCL_WINDOW_FUNCTIONS(STRETTO_FIND)
#undef STRETTO_FIND
  return loaded;
}

const Loaded& loaded() {
  static const Loaded instance = load();
  return instance;
}

}  // namespace

const std::string& why_no_nccl() { return loaded().problem; }

std::string why_no_windows() {
  if (!why_no_nccl().empty()) return why_no_nccl();
  const NcclApi& api = nccl();
  if (api.version_code < kNcclWindowsSince || api.window_register == nullptr ||
      api.window_deregister == nullptr || api.mem_alloc == nullptr || api.mem_free == nullptr) {
    return fmt::format("{} is too old: windows need 2.28 or newer", dotted(api.version_code));
  }
  return {};
}

const NcclApi& nccl() {
  if (!loaded().problem.empty()) throw SystemError(loaded().problem);
  return loaded().api;
}

std::string nccl_version() { return dotted(nccl().version_code); }

void check_nccl(int status, const char* what) {
  if (status == 0) return;
  const std::string detail = last_error();
  throw SystemError(fmt::format("NCCL: {}: {}{}{}", what, nccl().error_string(status),
                                detail.empty() ? "" : "; ", detail));
}

void check_nccl_alloc(int status, size_t num_bytes) {
  if (status == 0) return;
  // It has one status for all that the driver refuses.
  if (last_error().find("out of memory") != std::string::npos) {
    throw SystemError(fmt::format("out of GPU memory: {} bytes do not fit", num_bytes));
  }
  check_nccl(status, fmt::format("allocate {} bytes of GPU memory", num_bytes).c_str());
}

}  // namespace stretto::fabric
