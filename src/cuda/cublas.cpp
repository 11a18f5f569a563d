#include "cuda/cublas.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "cuda/cublas_status.h"
#include "cuda/dynamic_library.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // as PyTorch gives it on Hopper
constexpr int kCompute32F = 68, kTranspose = 1, kPlain = 0, kDefaultAlgorithm = -1;

int type_of(DType dtype) { return dtype == DType::bf16 ? 14 : dtype == DType::fp16 ? 2 : 0; }

auto open_library() {
  const std::array<std::string, 2> names = {"libcublas.so.13", "libcublas.so.12"};
  return DynamicLibrary::open(names, toolkit_folders());
}

}  // namespace

struct Cublas::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, StreamHandle) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
};

std::string why_no_cublas() {
  if (open_library()) return {};
  return "no cuBLAS (libcublas.so.13 or .12), which strategy library multiplies with and bench "
         "compares with: install it, or take another strategy";
}

Cublas::Cublas(const Stream& stream) : api_(std::make_unique<Api>()), workspace_(kWorkspaceBytes) {
  const auto library = open_library();
  if (!library) throw SystemError(why_no_cublas());
  const Import imports[] = {
      {"cublasCreate_v2", reinterpret_cast<void**>(&api_->create)},
      {"cublasDestroy_v2", reinterpret_cast<void**>(&api_->destroy)},
      {"cublasSetStream_v2", reinterpret_cast<void**>(&api_->set_stream)},
      {"cublasSetWorkspace_v2", reinterpret_cast<void**>(&api_->set_workspace)},
      {"cublasGemmEx", reinterpret_cast<void**>(&api_->gemm)}};
  if (const char* missing = import_all(*library, imports)) {
    throw SystemError(fmt::format("cuBLAS lacks {}", missing));
  }
  check_cublas(api_->create(&handle_), "start");
  check_cublas(api_->set_stream(handle_, stream.handle()), "take a stream");
  check_cublas(api_->set_workspace(handle_, workspace_.as<void>(), kWorkspaceBytes),
               "take a workspace");
}

Cublas::~Cublas() { api_->destroy(handle_); }

void Cublas::multiply(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate) const {
  // cuBLAS counts columns first, so it computes the transpose: C^T = B * A^T.
  const float one = 1, keep = accumulate ? 1.0f : 0.0f;
  check_cublas(
      api_->gemm(handle_, kTranspose, kPlain, static_cast<int>(b.rows), static_cast<int>(a.rows),
                 static_cast<int>(a.columns), &one, reinterpret_cast<const void*>(b.address),
                 type_of(b.dtype), static_cast<int>(b.stride),
                 reinterpret_cast<const void*>(a.address), type_of(a.dtype),
                 static_cast<int>(a.stride), &keep, reinterpret_cast<void*>(c.address),
                 type_of(c.dtype), static_cast<int>(c.stride), kCompute32F, kDefaultAlgorithm),
      "multiply");
}

}  // namespace stretto::cuda
