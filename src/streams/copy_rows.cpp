#include "streams/copy_rows.h"

#include "stretto/error.h"
#include "tables/low_latency_shape.h"

namespace stretto::runtime {

using device::GpuBlock;
using device::Vec16;

CopyRows::CopyRows(const cuda::Device& device, KernelStore& kernels)
    : kernel_(&kernels.lang(device, cuda::copy_rows_kernel(), cuda::kLowLatencyThreads)),
      blocks_(device.num_sms()) {}

void CopyRows::copy(const cuda::Stream& stream, cuda::DevicePtr from, cuda::DevicePtr to,
                    size_t row_bytes, cuda::DevicePtr rows_at, int32_t most) const {
  STRETTO_ASSERT(row_bytes % sizeof(Vec16) == 0, "rows are whole vectors");
  device::GpuWorld alone{};  // the kernel asks for no other rank
  alone.num_ranks = 1;
  const device::CopyRowsArgs<GpuBlock> args{reinterpret_cast<const Vec16*>(from),
                                            reinterpret_cast<Vec16*>(to),
                                            {reinterpret_cast<const device::int32*>(rows_at), most,
                                             static_cast<uint32_t>(row_bytes / sizeof(Vec16))}};
  kernel_->launch(stream, blocks_, cuda::kLowLatencyThreads, alone, args);
}

}  // namespace stretto::runtime
