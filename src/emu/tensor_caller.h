// A caller who has tensors of its own: one run on them.
#pragma once

#include <span>
#include <vector>

#include "emu/caller.h"
#include "emu/faults.h"

namespace stretto::emu {

class TensorCaller : public Caller {
 public:
  // `tensors`: by rank, as resolve_call() leaves them, with their strides. They must outlive the
  // caller.
  TensorCaller(const Plan& plan, const std::vector<std::vector<CallTensor>>& tensors,
               Memory& memory, Faults& faults);

  void write_inputs(int rank, int run) override;
  void read_output(int rank, int run) override;

 private:
  const std::vector<std::vector<CallTensor>>& tensors_;
  Faults& faults_;
};

}  // namespace stretto::emu
