// Tests that run on a GPU: they skip, saying why, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "gpu/compiler.h"
#include "gpu/device.h"
#include "gpu/nvrtc_api.h"
#include "gpu/test_data.h"
#include "skip.h"

namespace stretto::cuda {

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_driver().empty()) STRETTO_SKIP(why_no_driver());
    if (!why_no_compiler().empty()) STRETTO_SKIP(why_no_compiler());
    device_ = std::make_unique<Device>(0);
    if (device_->arch() != "sm_90a") STRETTO_SKIP("the GEMM kernel needs a Hopper GPU");
    stream_ = std::make_unique<Stream>();
    data_ = std::make_unique<TestData>(*device_, compiler_);
  }

  // Kernels that the test takes one behind the other, on all cores: each takes one for seconds.
  void compile_ahead(const std::vector<std::string>& sources) const {
    for_each_in_parallel(sources.size(), sources.size(),
                         [&](size_t i) { compiler_.compile(sources[i], device_->arch()); });
  }

  Compiler compiler_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<TestData> data_;
};

}  // namespace stretto::cuda
