// What all that launches kernels of a rank's runs has to know.
#pragma once

#include "launch/buffer_places.h"
#include "streams/kernel_store.h"
#include "stretto/plan.h"

namespace stretto::runtime {

// All must outlive the launches.
struct LaunchSetup {
  const Plan& plan;
  int rank = 0;
  const cuda::BufferPlaces& places;  // as the rank sees them
  const cuda::Device& device;
  KernelStore& kernels;
  int sets = 1;
};

}  // namespace stretto::runtime
