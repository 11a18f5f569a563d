#include "cli/gpus.h"

#include "fabric/job.h"
#include "stretto/error.h"
#include "tables/plan_limits.h"

namespace stretto::cli {

std::unique_ptr<fabric::Fabric> open_gpus(int ranks) {
  std::unique_ptr<fabric::Fabric> gpus = fabric::open_fabric(ranks);
  const cuda::Device& device = gpus->device(gpus->first_rank());
  if (const auto why = cuda::why_not_on_arch(device.arch()); !why.empty()) throw SystemError(why);
  return gpus;
}

int sms_of(const fabric::Fabric& gpus) { return gpus.device(gpus.first_rank()).num_sms(); }

}  // namespace stretto::cli
