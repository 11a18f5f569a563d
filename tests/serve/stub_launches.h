// Tests that run in the stub of the driver (tests/stub), and see what is launched there.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "inside.h"

namespace stretto {

// What makes a process find the stub, with two GPUs of 132 SMs, and what it launches there.
inline std::string in_the_stub(const std::string& more = "") {
  return fmt::format(
      "LD_LIBRARY_PATH={0}/driver:{0}/nvrtc:{0}/cublas:{0}/matmuls:{0}/nccl:$LD_LIBRARY_PATH "
      "STRETTO_CACHE_PATH=/nowhere STRETTO_MEASURE_MS=0 STUB_RESIDENT=1 STUB_LAUNCHES=$(mktemp) "
      "{1} "
      "STUB_GPUS='NVIDIA H200:132:9.0;NVIDIA H200:132:9.0'",
      STRETTO_STUBS, more);
}

struct StubLaunch {
  std::string kernel;
  int blocks = 0;
  uint64_t stream = 0;
};

// Those since the last call.
inline std::vector<StubLaunch> stub_launches() {
  const std::string path = std::getenv("STUB_LAUNCHES");
  std::vector<StubLaunch> all;
  std::ifstream file(path);
  for (StubLaunch one; file >> one.kernel >> one.blocks >> one.stream;) all.push_back(one);
  std::ofstream(path, std::ios::trunc);
  return all;
}

#define STRETTO_INSIDE_THE_STUB() \
  if (is_outside()) GTEST_SKIP() << "a part of another test"

}  // namespace stretto
