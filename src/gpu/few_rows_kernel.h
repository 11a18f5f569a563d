// The kernel of few rows (stretto/device/few_rows_sm90.h), compiled for one configuration.
#pragma once

#include <array>
#include <string>

#include "gpu/compiler.h"
#include "gpu/device.h"
#include "gpu/tensor_map.h"
#include "stretto/device/few_rows_task.h"

namespace stretto::cuda {

// "64x48x64 stages 6 splits 2 bf16"
std::string describe(const device::FewRowsConfig& config);

// Why no kernel can be made of this configuration; empty when it can.
std::string why_illegal(const device::FewRowsConfig& config);

// A product of few rows: c = a * b^T, of rows x k and columns x k. Of a gate there are two of them,
// and c has as many columns as either.
struct FewRowsShape {
  int64_t rows = 0, columns = 0, k = 0;
  DType dtype = DType::bf16;
  device::Follower follower = device::Follower::none;
  bool has_bias = false;
  double sent = 0;  // how often it goes to other ranks, whose collective takes it
};

// What it multiplies; of a gate also `beside`, the weights of the factor. Rows of bias, where there
// are any.
struct FewRowsOperands {
  Matrix tokens, weights, beside = {};
  std::array<Matrix, 2> bias = {};
  bool operator==(const FewRowsOperands&) const = default;
};

// Why this kernel does not multiply it; empty when it does.
std::string why_no_few_rows(const FewRowsShape& shape);

// What is fast for this shape.
device::FewRowsConfig fitted(const FewRowsShape& shape, int num_sms);

// The source that the compiler gets. Throws UsageError(why_illegal()).
std::string few_rows_source(const device::FewRowsConfig& config);

// Rows of c itself; one rank's.
device::RowTargets row_targets(const Matrix& c);

class FewRowsKernel {
 public:
  // For the current GPU, which must be `device`.
  FewRowsKernel(const Device& device, const Compiler& compiler,
                const device::FewRowsConfig& config);

  const device::FewRowsConfig& config() const { return config_; }
  const Kernel& kernel() const { return kernel_; }
  // c = tokens * weights^T, whose vectors go to targets; `rank` of `ranks` is this one among them.
  // `overlap` as for Kernel::launch(); `weights_early` where the kernel ahead on the stream is such
  // a one as FewRowsParams asks for, never behind what a caller has on it.
  void launch(const Stream& stream, const FewRowsOperands& of, const device::RowTargets& targets,
              int rank, int ranks, bool overlap = false, bool weights_early = false) const;

 private:
  device::FewRowsConfig config_;
  int num_sms_;
  Kernel kernel_;
};

}  // namespace stretto::cuda
