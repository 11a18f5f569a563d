#include "gpu/cublas_library.h"

#include <array>
#include <optional>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

std::optional<DynamicLibrary> find_library(const char* name) {
  const std::string file = name;
  const std::array<std::string, 2> names = {file + ".so.13", file + ".so.12"};
  return DynamicLibrary::open(names, toolkit_folders());
}

constexpr const char* kCublas = "libcublas";
constexpr const char* kCublasLt = "libcublasLt";

DynamicLibrary open_library(const char* name) {
  const auto library = find_library(name);
  if (!library) throw SystemError(why_no_cublas());
  return *library;
}

}  // namespace

std::string why_no_cublas() {
  if (find_library(kCublas) && find_library(kCublasLt)) return {};
  return "no cuBLAS (libcublas.so.13 or .12, with libcublasLt beside it), which strategy library "
         "multiplies with and bench compares with: install it, or take another strategy";
}

DynamicLibrary open_cublas() { return open_library(kCublas); }
DynamicLibrary open_cublas_lt() { return open_library(kCublasLt); }

int cublas_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 14;
    case DType::fp16:
      return 2;
    case DType::fp32:
    case DType::i32:
    case DType::i64:
      break;
  }
  return 0;
}

}  // namespace stretto::cuda
