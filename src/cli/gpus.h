// The GPUs that a verb runs plans on.
#pragma once

#include <memory>

#include "fabric/fabric.h"

namespace stretto::cli {

// Collective. Throws SystemError: as fabric::open_fabric(), and where the GPUs run no plans.
std::unique_ptr<fabric::Fabric> open_gpus(int ranks);

// That a rank has.
int sms_of(const fabric::Fabric& gpus);

}  // namespace stretto::cli
