// The tensors of a rank's calls that are copied to and from memory of the plan's own, since other
// ranks reach it in their place (CallTensors).
#pragma once

#include <optional>

#include "calls/call_tensors.h"
#include "calls/rows_of_call.h"
#include "launch/buffer_places.h"
#include "launch/call_places.h"
#include "streams/copy_rows.h"
#include "streams/kernel_store.h"

namespace stretto::runtime {

class CopiedTensors {
 public:
  // `places` as the rank sees them; all must outlive this. `rows_in_memory`: memory may say how
  // many rows a run has.
  CopiedTensors(const Plan& plan, int rank, const cuda::BufferPlaces& places,
                const CallTensors& calls, const cuda::Device& device, KernelStore& kernels,
                bool rows_in_memory);

  bool empty() const;
  uint64_t bytes(cuda::CallPlaces at) const;
  void copy_inputs(const cuda::Stream& stream, cuda::CallPlaces at, const RowsOfCall& rows) const {
    copy(stream, at, rows, false);
  }
  void copy_outputs(const cuda::Stream& stream, cuda::CallPlaces at, const RowsOfCall& rows) const {
    copy(stream, at, rows, true);
  }

 private:
  void copy(const cuda::Stream& stream, cuda::CallPlaces at, const RowsOfCall& rows,
            bool outputs) const;

  const Plan& plan_;
  int rank_;
  const cuda::BufferPlaces& places_;
  const CallTensors& calls_;
  std::optional<CopyRows> copy_rows_;  // where memory may say the rows of a result
};

}  // namespace stretto::runtime
