#include "plan/on_kernel.h"

namespace stretto {

OnKernel::OnKernel(const Plan& plan, const Instr& instr) : of_(plan.operands_of(instr)) {
  for (const auto& regions : {of_.reads, of_.writes}) {
    for (const Region& region : regions) {
      const Buffer& buffer = plan.buffers[region.buffer];
      facts_.push_back({buffer.dtype, region.cols() == buffer.cols});
    }
  }
}

}  // namespace stretto
