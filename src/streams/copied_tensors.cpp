#include "streams/copied_tensors.h"

#include <algorithm>

#include "tables/transfers.h"

namespace stretto::runtime {

CopiedTensors::CopiedTensors(const Plan& plan, int rank, const cuda::BufferPlaces& places,
                             const CallTensors& calls, const cuda::Device& device,
                             KernelStore& kernels, bool rows_in_memory)
    : plan_(plan), rank_(rank), places_(places), calls_(calls) {
  const bool copies =
      std::any_of(calls.all().begin(), calls.all().end(), [](const CallTensors::Tensor& tensor) {
        return tensor.is_copied && tensor.is_output && tensor.scales;
      });
  if (copies && rows_in_memory) copy_rows_.emplace(device, kernels);
}

bool CopiedTensors::empty() const {
  return std::none_of(calls_.all().begin(), calls_.all().end(),
                      [](const CallTensors::Tensor& tensor) { return tensor.is_copied; });
}

uint64_t CopiedTensors::bytes(cuda::CallPlaces at) const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < calls_.all().size(); ++i) {
    if (!calls_.all()[i].is_copied) continue;
    bytes += at[i].solid_bytes * static_cast<uint64_t>(at[i].rows);
  }
  return bytes;
}

void CopiedTensors::copy(const cuda::Stream& stream, cuda::CallPlaces at, const RowsOfCall& rows,
                         bool outputs) const {
  for (size_t i = 0; i < calls_.all().size(); ++i) {
    const CallTensors::Tensor& tensor = calls_.all()[i];
    const cuda::CallPlace& place = at[i];
    if (!tensor.is_copied || tensor.is_output != outputs || place.rows == 0) continue;
    const cuda::DevicePtr own = cuda::address_of(places_, rank_, tensor.buffer, 0);
    if (tensor.wants_solid_rows(rows.at != 0)) {
      copy_rows_->copy(stream, own, place.address, place.solid_bytes, rows.at,
                       static_cast<int32_t>(place.rows));
      continue;
    }
    const auto num_rows = static_cast<uint64_t>(place.rows);
    const auto width = static_cast<uint64_t>(plan_.buffers[tensor.buffer].cols_on(rank_)) *
                       static_cast<uint64_t>(num_bytes(tensor.dtype));
    const uint64_t pitch = place.solid_bytes;
    cuda::enqueue_transfer(
        stream, outputs
                    ? cuda::Transfer{own, place.address, pitch, place.row_bytes, width, num_rows}
                    : cuda::Transfer{place.address, own, place.row_bytes, pitch, width, num_rows});
  }
}

}  // namespace stretto::runtime
