#include "gpu/library_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/cublas_status.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

constexpr uint32_t kMostAlignment = 256;  // that cuBLAS asks about

// cublasLt.h and library_types.h.
constexpr int kDescriptorTransA = 3, kDescriptorSms = 15, kLayoutColumns = 3;
constexpr int kNotSupported = 15;
constexpr int kPreferenceWorkspace = 1, kPreferenceReductions = 3, kPreferenceAlignments = 5;
// Ranges of K are added up in fp32: all ways but the one in the result's type.
constexpr uint32_t kReductionsInFp32 = 1 | 2;

}  // namespace

uint32_t alignment_of(DevicePtr address) {
  uint32_t alignment = kMostAlignment;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

struct MatmulLibrary::Api {
  struct Proposal {  // cublasLtMatmulHeuristicResult_t
    LibraryMatmul::Algorithm algorithm;
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
  };
  int (*create)(void**) = nullptr;
  int (*destroy)(void*) = nullptr;
  int (*describe)(void**, int compute, int scale) = nullptr;
  int (*describe_set)(void*, int, const void*, size_t) = nullptr;
  int (*describe_destroy)(void*) = nullptr;
  int (*layout)(void**, int type, uint64_t rows, uint64_t columns, int64_t stride) = nullptr;
  int (*layout_set)(void*, int, const void*, size_t) = nullptr;
  int (*layout_destroy)(void*) = nullptr;
  int (*preference)(void**) = nullptr;
  int (*preference_set)(void*, int, const void*, size_t) = nullptr;
  int (*preference_destroy)(void*) = nullptr;
  int (*propose)(void*, void*, void*, void*, void*, void*, void*, int, Proposal*, int*) = nullptr;
  int (*multiply)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                  const void*, void*, void*, void*, const void*, void*, size_t,
                  StreamHandle) = nullptr;
};

MatmulLibrary::MatmulLibrary(int most_proposals)
    : most_proposals_(most_proposals), api_(std::make_unique<Api>()), handle_(nullptr, nullptr) {
  const DynamicLibrary library = open_cublas_lt();
  const auto import = [](const char* symbol, auto& function) {
    return Import{symbol, reinterpret_cast<void**>(&function)};
  };
  const Import imports[] = {import("cublasLtCreate", api_->create),
                            import("cublasLtDestroy", api_->destroy),
                            import("cublasLtMatmulDescCreate", api_->describe),
                            import("cublasLtMatmulDescSetAttribute", api_->describe_set),
                            import("cublasLtMatmulDescDestroy", api_->describe_destroy),
                            import("cublasLtMatrixLayoutCreate", api_->layout),
                            import("cublasLtMatrixLayoutSetAttribute", api_->layout_set),
                            import("cublasLtMatrixLayoutDestroy", api_->layout_destroy),
                            import("cublasLtMatmulPreferenceCreate", api_->preference),
                            import("cublasLtMatmulPreferenceSetAttribute", api_->preference_set),
                            import("cublasLtMatmulPreferenceDestroy", api_->preference_destroy),
                            import("cublasLtMatmulAlgoGetHeuristic", api_->propose),
                            import("cublasLtMatmul", api_->multiply)};
  if (const char* missing = import_all(library, imports)) {
    throw SystemError(fmt::format("cuBLAS lacks {}", missing));
  }
  void* made = nullptr;
  check_cublas(api_->create(&made), "start");
  handle_ = CublasOwned(made, api_->destroy);
}

MatmulLibrary::~MatmulLibrary() = default;

CublasOwned MatmulLibrary::operation(int sms) const {
  void* made = nullptr;
  check_cublas(api_->describe(&made, kCublasFp32Sums, cublas_type(DType::fp32)),
               "describe a product");
  CublasOwned operation(made, api_->describe_destroy);
  check_cublas(
      api_->describe_set(made, kDescriptorTransA, &kCublasTranspose, sizeof(kCublasTranspose)),
      "transpose");
  const int32_t target = sms;
  check_cublas(api_->describe_set(made, kDescriptorSms, &target, sizeof(target)), "limit SMs");
  return operation;
}

CublasOwned MatmulLibrary::layout(const Matrix& matrix) const {
  void* made = nullptr;
  check_cublas(api_->layout(&made, cublas_type(matrix.dtype), static_cast<uint64_t>(matrix.columns),
                            static_cast<uint64_t>(matrix.rows), matrix.stride),
               "describe a matrix");
  return {made, api_->layout_destroy};
}

// cuBLAS counts columns first, so it computes the transpose: C^T = B * A^T.
LibraryMatmul::LibraryMatmul(const MatmulLibrary& library, const Matrix& a, const Matrix& b,
                             const Matrix& c, std::span<const int64_t> steps, int algorithm,
                             int sms)
    : library_(&library),
      operation_(library.operation(sms)),
      a_(library.layout(a)),
      b_(library.layout(b)),
      c_(library.layout(c)),
      rows_(a.rows) {
  STRETTO_ASSERT(!steps.empty() && steps.back() == a.rows && a.rows == c.rows, "steps of all rows");
  const uint32_t alignments[] = {alignment_of(b.address), alignment_of(a.address),
                                 alignment_of(c.address), alignment_of(c.address)};
  for (const int64_t rows : steps) add_step(rows, rows == a.rows ? algorithm : 0, alignments);
}

void LibraryMatmul::set_rows(int64_t rows) {
  if (rows == rows_) return;
  const auto columns = static_cast<uint64_t>(rows);
  for (void* const layout : {a_.get(), c_.get()}) {
    check_cublas(library_->api_->layout_set(layout, kLayoutColumns, &columns, sizeof(columns)),
                 "set a matrix's rows");
  }
  rows_ = rows;
}

void LibraryMatmul::add_step(int64_t rows, int algorithm, std::span<const uint32_t> alignments) {
  const MatmulLibrary::Api& api = *library_->api_;
  void* made = nullptr;
  check_cublas(api.preference(&made), "state what is wanted");
  const CublasOwned preference(made, api.preference_destroy);
  const auto prefer = [&](int what, const auto& value) {
    check_cublas(api.preference_set(made, what, &value, sizeof(value)), "state what is wanted");
  };
  prefer(kPreferenceWorkspace, kCublasWorkspaceBytes);
  prefer(kPreferenceReductions, kReductionsInFp32);
  for (size_t i = 0; i < alignments.size(); ++i) {
    prefer(kPreferenceAlignments + static_cast<int>(i), alignments[i]);
  }
  set_rows(rows);
  std::array<MatmulLibrary::Api::Proposal, kMostAlgorithms> proposals;
  int found = 0;
  // The first is found sooner alone.
  const int asked = algorithm == 0 ? 1 : library_->most_proposals_;
  const int status = api.propose(library_->handle_.get(), operation_.get(), b_.get(), a_.get(),
                                 c_.get(), c_.get(), made, asked, proposals.data(), &found);
  if (status == kNotSupported || (status == 0 && found == 0)) {
    throw UsageError(
        fmt::format("cuBLAS has nothing for a product of {} rows as these lie: take a "
                    "schedule with gemm=tiles",
                    rows));
  }
  check_cublas(status, "choose an algorithm");
  if (algorithm != 0) num_proposed_ = found;
  const int taken = algorithm < found ? algorithm : 0;
  const MatmulLibrary::Api::Proposal& chosen = proposals[static_cast<size_t>(taken)];
  steps_.push_back({rows, chosen.algorithm});
  workspace_bytes_ = std::max(workspace_bytes_, chosen.workspace_bytes);
}

void LibraryMatmul::enqueue(const Stream& stream, const Places& places, int64_t rows,
                            const DeviceMemory& workspace) {
  STRETTO_ASSERT(0 < rows && rows <= this->rows(), "a call has one row to all of them");
  size_t step = 0;
  while (steps_[step].rows < rows) ++step;
  enqueue_step(stream, places, rows, step, workspace);
}

void LibraryMatmul::enqueue_step(const Stream& stream, const Places& places, int64_t rows,
                                 size_t step, const DeviceMemory& workspace) {
  set_rows(rows);
  const float one = 1, zero = 0;
  const auto at = [](DevicePtr address) { return reinterpret_cast<void*>(address); };
  check_cublas(
      library_->api_->multiply(library_->handle_.get(), operation_.get(), &one, at(places.b),
                               b_.get(), at(places.a), a_.get(), &zero, at(places.c), c_.get(),
                               at(places.c), c_.get(), &steps_[step].algorithm,
                               workspace.as<void>(), workspace.num_bytes(), stream.handle()),
      "multiply");
}

}  // namespace stretto::cuda
