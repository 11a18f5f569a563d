// A driver that runs nothing and whose clock says what it is told, to learn by: tests outside start
// tests inside (inside.h) of the suites InsideTheStub, and RankInTheStub of one rank of two.
#pragma once

#include <fmt/format.h>

#include <string>

#include "inside.h"
#include "stretto/segment.h"

#define STRETTO_INSIDE() \
  if (is_outside()) GTEST_SKIP() << "a part of Learning"

namespace stretto {

// `auto` takes tiles for it, by what is near; and no library is needed to run these.
inline const Segment kProduct{kGemmRs, 1024, 5376, 6144, 2, DType::bf16};

inline std::string stub(const std::string& more) {
  return fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:$LD_LIBRARY_PATH STRETTO_CACHE_PATH=/nowhere "
      "STUB_GPUS='NVIDIA H200:132:9.0;NVIDIA H200:132:9.0' {1}",
      STRETTO_STUBS, more);
}

// With libraries that do nothing.
inline std::string stub_with_libraries(const std::string& more) {
  return fmt::format("LD_LIBRARY_PATH={0}/cublas:{0}/matmuls:{0}/nccl:$LD_LIBRARY_PATH ",
                     STRETTO_STUBS) +
         stub("STUB_RESIDENT=1 " + more);
}

}  // namespace stretto
