// The tensors of a plan's calls: which of them kernels take where they lie, and where that is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "calls/shared_results.h"
#include "launch/call_places.h"
#include "stretto/call.h"
#include "stretto/plan.h"

namespace stretto::runtime {

class CallTensors {
 public:
  struct Tensor {
    std::string name;
    uint16_t buffer = 0;
    Held held = Held::whole;
    bool is_output = false;
    DType dtype = DType::bf16;
    int64_t rows = 0, cols = 0;  // of the first rank, which has the most
    bool scales = false;         // a run of fewer rows has fewer of its
    bool without_gaps = false;
    // Other ranks reach the buffer, or collectives move its rows at the distance that all ranks
    // have, so it is the plan's own, and the tensor is copied.
    bool is_copied = false;
    // Or others write it, which lies in the caller's shared memory.
    bool is_shared = false;

    // Memory says how many rows of it a run makes, and they are copied as one piece.
    bool wants_solid_rows(bool rows_in_memory) const {
      return is_copied && is_output && scales && rows_in_memory;
    }
  };

  // `shared`, by buffer: other ranks reach it. `serves`: runs may have fewer rows. With `results`,
  // which must outlive this, those that others write are places there.
  CallTensors(const Plan& plan, const std::vector<bool>& shared, bool serves,
              const SharedResults* results = nullptr);

  const std::vector<Tensor>& all() const { return tensors_; }
  // By index, for a run of so many rows, or at most so many where memory says how many; then of
  // each shared one where it lies on each rank. Throws UsageError saying what is wrong and would be
  // right.
  std::vector<cuda::CallPlace> places(int rank, int64_t rows, std::span<const CallTensor> given,
                                      bool rows_in_memory = false) const;

  // Of a row of a tensor, on a rank.
  uint64_t row_bytes(size_t tensor, int rank) const;

  // Tells what places of shared tensors a rank's calls gave, alike on all ranks: the sum of those
  // before, and this call.
  uint64_t sum_of_shared(int rank, cuda::CallPlaces places, uint64_t before) const;

 private:
  int64_t rows_of(const Tensor& tensor, int rank, int64_t rows) const;
  void require_aligned(const Tensor& tensor, const CallTensor& at, const cuda::CallPlace& place,
                       bool is_solid) const;
  void add_shared(const Tensor& tensor, int rank, int64_t rows, std::vector<cuda::CallPlace>& to,
                  size_t own) const;

  const Plan& plan_;
  const SharedResults* results_;
  std::vector<Tensor> tensors_;  // as caller_tensors() has them
};

}  // namespace stretto::runtime
