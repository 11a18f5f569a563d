#include "run/whole_product.h"

#include "stretto/error.h"
#include "tables/low_latency.h"

namespace stretto::runtime {

using device::GpuBlock;
using device::Vec16;

WholeProduct::WholeProduct(const cuda::Device& device, KernelStore& kernels, int64_t rows,
                           int64_t row_bytes)
    : kernel_(&kernels.lang(device, cuda::copy_rows_kernel(), cuda::kLowLatencyThreads)),
      blocks_(device.num_sms()),
      row_vectors_(static_cast<uint32_t>(row_bytes / static_cast<int64_t>(sizeof(Vec16)))),
      memory_(static_cast<size_t>(rows * row_bytes)) {
  STRETTO_ASSERT(row_bytes % static_cast<int64_t>(sizeof(Vec16)) == 0, "rows are whole vectors");
}

void WholeProduct::copy(const cuda::Stream& stream, cuda::DevicePtr result, cuda::DevicePtr rows_at,
                        int32_t most) const {
  device::GpuWorld alone{};  // the kernel asks for no other rank
  alone.num_ranks = 1;
  const device::CopyRowsArgs<GpuBlock> args{
      memory_.as<const Vec16>(),
      reinterpret_cast<Vec16*>(result),
      {reinterpret_cast<const device::int32*>(rows_at), most, row_vectors_}};
  kernel_->launch(stream, blocks_, cuda::kLowLatencyThreads, alone, args);
}

}  // namespace stretto::runtime
