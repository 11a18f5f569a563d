// Tests of several ranks on GPUs: they skip, saying why, where there are too few.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpu/device.h"
#include "gpu/shared_gpus.h"
#include "skip.h"

namespace stretto::fabric {

// The ranks of one process that find a GPU here, some of them one that they share.
inline int num_places() { return cuda::num_devices() * cuda::ranks_a_gpu(); }

#define STRETTO_NEED_PLACES(count)                                                         \
  do {                                                                                     \
    if (!cuda::why_no_driver().empty()) STRETTO_SKIP(cuda::why_no_driver());               \
    if (num_places() < (count)) {                                                          \
      STRETTO_SKIP(                                                                        \
          fmt::format("GPUs for {} ranks are needed, for {} found", count, num_places())); \
    }                                                                                      \
  } while (false)

// For what cannot be shared.
#define STRETTO_NEED_GPUS(count)                                                       \
  do {                                                                                 \
    STRETTO_NEED_PLACES(count);                                                        \
    if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share GPUs cannot do this"); \
  } while (false)

}  // namespace stretto::fabric
