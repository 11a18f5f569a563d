#include "gpu/cublas.h"

#include <fmt/format.h>

#include "gpu/cublas_status.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

constexpr int kPlain = 0, kDefaultAlgorithm = -1;

}  // namespace

struct Cublas::Api {
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*set_stream)(void*, StreamHandle) = nullptr;
  int (*set_workspace)(void*, void*, size_t) = nullptr;
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int,
              int, const void*, void*, int, int, int, int) = nullptr;
};

Cublas::Cublas(const Stream& stream)
    : api_(std::make_unique<Api>()), workspace_(kCublasWorkspaceBytes), handle_(nullptr, nullptr) {
  const DynamicLibrary library = open_cublas();
  const Import imports[] = {
      {"cublasCreate_v2", reinterpret_cast<void**>(&api_->create)},
      {"cublasDestroy_v2", reinterpret_cast<void**>(&api_->destroy)},
      {"cublasSetStream_v2", reinterpret_cast<void**>(&api_->set_stream)},
      {"cublasSetWorkspace_v2", reinterpret_cast<void**>(&api_->set_workspace)},
      {"cublasGemmEx", reinterpret_cast<void**>(&api_->gemm)}};
  if (const char* missing = import_all(library, imports)) {
    throw SystemError(fmt::format("cuBLAS lacks {}", missing));
  }
  void* made = nullptr;
  check_cublas(api_->create(&made), "start");
  handle_ = CublasOwned(made, api_->destroy);
  check_cublas(api_->set_stream(made, stream.handle()), "take a stream");
  check_cublas(api_->set_workspace(made, workspace_.as<void>(), workspace_.num_bytes()),
               "take a workspace");
}

Cublas::~Cublas() = default;

void Cublas::multiply(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate) const {
  // cuBLAS counts columns first, so it computes the transpose: C^T = B * A^T.
  const float one = 1, keep = accumulate ? 1.0f : 0.0f;
  check_cublas(api_->gemm(handle_.get(), kCublasTranspose, kPlain, static_cast<int>(b.rows),
                          static_cast<int>(a.rows), static_cast<int>(a.columns), &one,
                          reinterpret_cast<const void*>(b.address), cublas_type(b.dtype),
                          static_cast<int>(b.stride), reinterpret_cast<const void*>(a.address),
                          cublas_type(a.dtype), static_cast<int>(a.stride), &keep,
                          reinterpret_cast<void*>(c.address), cublas_type(c.dtype),
                          static_cast<int>(c.stride), kCublasFp32Sums, kDefaultAlgorithm),
               "multiply");
}

}  // namespace stretto::cuda
