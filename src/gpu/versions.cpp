#include "gpu/versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>

#include "gpu/cublas_library.h"
#include "gpu/driver_api.h"

namespace stretto::cuda {
namespace {

bool is_version(const std::string& word) {
  const auto is_part = [](char c) {
    return c == '.' || std::isdigit(static_cast<unsigned char>(c));
  };
  return word.find('.') != std::string::npos && std::all_of(word.begin(), word.end(), is_part);
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..."
std::string kernel_module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    if (is_version(word)) return word;
  }
  return "";
}

}  // namespace

std::string driver_version() {
  int version = 0;
  check(driver().driver_version(&version), "ask for the driver's version");
  const std::string module = kernel_module_version();
  return fmt::format("CUDA {}.{}{}", version / 1000, version % 1000 / 10,
                     module.empty() ? "" : ", kernel module " + module);
}

std::string cublas_version() {
  if (!why_no_cublas().empty()) return "no cuBLAS";
  using GetVersion = size_t (*)();
  const auto get = reinterpret_cast<GetVersion>(open_cublas_lt().find("cublasLtGetVersion"));
  return fmt::format("cuBLAS {}", get == nullptr ? 0 : get());
}

}  // namespace stretto::cuda
