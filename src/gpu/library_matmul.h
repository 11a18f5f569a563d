// Matrix products of plans by cuBLAS (its interface cublasLt, found at run time): what multiplies
// is chosen when the plan is made, so that a run neither searches nor loads anything.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/cublas_library.h"
#include "gpu/device.h"
#include "gpu/tensor_map.h"
#include "stretto/schedule.h"

namespace stretto::cuda {

// cuBLAS on the current GPU. One thread may use it at a time.
class MatmulLibrary {
 public:
  // Asks for at most so many proposals. Throws SystemError when there is no cuBLAS.
  explicit MatmulLibrary(int most_proposals = kMostAlgorithms);
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

 private:
  friend class LibraryMatmul;
  struct Api;
  CublasOwned layout(const Matrix& matrix) const;
  CublasOwned operation(int sms) const;  // A * B^T on so many SMs

  int most_proposals_;
  std::unique_ptr<Api> api_;
  CublasOwned handle_;
};

// What cuBLAS may take an address to be a multiple of.
uint32_t alignment_of(DevicePtr address);

// C = A * B^T with fp32 accumulation, of as many rows of A and C as a call says.
class LibraryMatmul {
 public:
  // Matrices as the largest call has them; those of other calls lie as they do, at addresses that
  // are as even. Calls of up to `steps[i]` rows have an algorithm of their own; the steps rise and
  // end with all rows. Of those that cuBLAS proposes for all rows it is number `algorithm`, for
  // fewer its first, and where num_proposed() says that there is no such number, its first too. It
  // has `sms` SMs, 0 for all. Throws UsageError when there is none at all. The library must outlive
  // this.
  LibraryMatmul(const MatmulLibrary& library, const Matrix& a, const Matrix& b, const Matrix& c,
                std::span<const int64_t> steps, int algorithm, int sms = 0);

  // Of how many the algorithm was to be taken; unless that is its first, which is asked for alone.
  int num_proposed() const { return num_proposed_; }
  // Memory that every call needs to itself.
  size_t workspace_bytes() const { return workspace_bytes_; }
  size_t num_steps() const { return steps_.size(); }
  int64_t rows() const { return steps_.back().rows; }

  struct Algorithm {
    uint64_t words[8];  // cuBLAS's own
  };
  // Of calls with all rows.
  const Algorithm& algorithm() const { return steps_.back().algorithm; }
  struct Places {
    DevicePtr a = 0, b = 0, c = 0;
    bool operator==(const Places&) const = default;
  };
  // One to rows() rows. Calls that share a workspace follow each other on one stream.
  void enqueue(const Stream& stream, const Places& places, int64_t rows,
               const DeviceMemory& workspace);
  // Enqueues the product with the algorithm of step `step`.
  void enqueue_step(const Stream& stream, const Places& places, int64_t rows, size_t step,
                    const DeviceMemory& workspace);

 private:
  struct Step {
    int64_t rows;
    Algorithm algorithm;
  };
  void set_rows(int64_t rows);
  void add_step(int64_t rows, int algorithm, std::span<const uint32_t> alignments);

  const MatmulLibrary* library_;
  CublasOwned operation_, a_, b_, c_;  // the last three are layouts
  int64_t rows_ = 0;                   // that A's and C's have
  std::vector<Step> steps_;
  int num_proposed_ = kMostAlgorithms;
  size_t workspace_bytes_ = 0;
};

}  // namespace stretto::cuda
