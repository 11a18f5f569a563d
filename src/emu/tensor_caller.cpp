#include "emu/tensor_caller.h"

#include <algorithm>
#include <cstring>

namespace stretto::emu {

TensorCaller::TensorCaller(const Plan& plan, const std::vector<std::vector<CallTensor>>& tensors,
                           Memory& memory, Faults& faults)
    : Caller(plan, memory), tensors_(tensors), faults_(faults) {}

void TensorCaller::write_inputs(int rank, int run) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const CallTensor& tensor = tensors_[static_cast<size_t>(rank)][i];
    memory_.write(memory_.whole(inputs_[i].buffer, rank), run,
                  reinterpret_cast<const void*>(tensor.address), tensor.row_stride);
  }
}

void TensorCaller::read_output(int rank, int run) {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const CallTensor& tensor = tensors_[static_cast<size_t>(rank)][inputs_.size() + i];
    const Region whole = memory_.whole(outputs_[i].buffer, rank);
    if (const Unfit unfit = memory_.examine(whole, run); unfit.count() > 0) {
      faults_.unfit_output(rank, run, whole, unfit);
    }
    const int64_t element = num_bytes(memory_.buffer(whole).dtype);
    const auto row_bytes = static_cast<size_t>(whole.cols() * element);
    const std::vector<std::byte> rows = rows_of(whole, run);
    auto* to = reinterpret_cast<std::byte*>(tensor.address);
    const auto count = static_cast<int64_t>(rows.size() / std::max<size_t>(1, row_bytes));
    for (int64_t row = 0; row < count; ++row) {
      std::memcpy(to + row * tensor.row_stride * element,
                  rows.data() + static_cast<size_t>(row) * row_bytes, row_bytes);
    }
  }
}

}  // namespace stretto::emu
