// Tests of several GPUs: they skip, saying why, where there are fewer.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>

#include "cuda/device.h"

namespace stretto::fabric {

#define STRETTO_SKIP(reason)                    \
  do {                                          \
    std::cout << "[SKIP] " << (reason) << "\n"; \
    GTEST_SKIP() << (reason);                   \
  } while (false)

#define STRETTO_NEED_GPUS(count)                                                             \
  do {                                                                                       \
    if (!cuda::why_no_driver().empty()) STRETTO_SKIP(cuda::why_no_driver());                 \
    if (cuda::num_devices() < (count)) {                                                     \
      STRETTO_SKIP(fmt::format("{} GPUs are needed, {} found", count, cuda::num_devices())); \
    }                                                                                        \
  } while (false)

}  // namespace stretto::fabric
