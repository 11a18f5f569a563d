// Kernels of the device language on up to four GPUs, or of up to eight ranks that share some, with
// memory that can be looked at.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fabric/lang_group.h"
#include "gpu/nvrtc_api.h"
#include "gpu_group.h"
#include "lang/lang_kernel.h"
#include "stretto/error.h"

namespace stretto::fabric {

using namespace device;

inline constexpr int kBlocks = 6, kThreads = 64;

// A declaration that tests and their kernels both see.
#define STRETTO_ON_BOTH(name, ...) \
  __VA_ARGS__                      \
  constexpr const char* name = #__VA_ARGS__;

// The source of a test's own kernel: a function of a GpuBlock and `Args`, and what it needs.
inline std::string own_source(const char* args, const char* code, const char* kernel,
                              const char* args_type) {
  const std::string text = fmt::format(
      "#include \"stretto/device/lang/tile.h\"\nusing namespace stretto::device;\n{}\n{}\n", args,
      code);
  return cuda::lang_source({"", kernel, args_type, text}, kThreads);
}

// That it compiles needs no GPU.
inline void expect_compiles(const std::string& source) {
  if (!cuda::why_no_compiler().empty()) STRETTO_SKIP(cuda::why_no_compiler());
  EXPECT_FALSE(cuda::Compiler().compile(source, "sm_90a").cubin.empty());
}

class LangGpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STRETTO_NEED_PLACES(2);
    if (!cuda::why_no_compiler().empty()) STRETTO_SKIP(cuda::why_no_compiler());
    start(std::min(num_places(), cuda::ranks_a_gpu() > 1 ? int(kMaxRanks) : 4));
  }
  // A group of as many ranks, instead of the one before.
  void start(int ranks) {
    streams_.clear();
    group_.reset();
    fabric_.reset();
    ranks_ = ranks;
    fabric_ = in_process(ranks_);
    group_ = std::make_unique<LangGroup>(*fabric_, size_t{64} << 20, 256, 200'000'000);
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      streams_.push_back(std::make_unique<cuda::Stream>());
    }
  }
  using Kernels = std::vector<std::unique_ptr<cuda::LangKernel>>;
  Kernels compile(const cuda::LangKernelName& name, int shared_bytes = 0,
                  int max_threads = kThreads) {
    Kernels kernels;
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      kernels.push_back(std::make_unique<cuda::LangKernel>(fabric_->device(r), compiler_, name,
                                                           max_threads, shared_bytes));
    }
    return kernels;
  }
  using OwnKernels = std::vector<std::unique_ptr<cuda::Kernel>>;
  OwnKernels compile_own(const std::string& source, int shared_bytes = 0) {
    OwnKernels kernels;
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      const auto cubin = compiler_.compile(source, fabric_->device(r).arch()).cubin;
      kernels.push_back(std::make_unique<cuda::Kernel>(cubin, "stretto_lang", shared_bytes));
    }
    return kernels;
  }
  template <class Args>
  void launch(const OwnKernels& kernels, int rank, const Args& args) {
    fabric_->device(rank).make_current();
    const LaunchParameters<Args> parameters{group_->world(rank), args};
    kernels[size_t(rank)]->launch(*streams_[size_t(rank)], kBlocks, kThreads, 1, &parameters);
  }
  template <class Args>
  void launch(const Kernels& kernels, int rank, const Args& args, int blocks = kBlocks,
              int threads = kThreads) {
    fabric_->device(rank).make_current();
    kernels[size_t(rank)]->launch(*streams_[size_t(rank)], blocks, threads, group_->world(rank),
                                  args);
  }
  void synchronize() {
    for (int r = 0; r < ranks_; ++r) {
      fabric_->device(r).make_current();
      streams_[size_t(r)]->synchronize();
    }
  }
  template <class T>
  void upload(int rank, size_t offset, const std::vector<T>& values) {
    fabric_->device(rank).make_current();
    if (values.empty()) return;
    cuda::copy_to_gpu(reinterpret_cast<cuda::DevicePtr>(group_->at<T>(rank, offset)), values.data(),
                      values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> download(int rank, size_t offset, size_t count) {
    std::vector<T> values(count);
    fabric_->device(rank).make_current();
    if (count == 0) return values;
    cuda::copy_from_gpu(values.data(),
                        reinterpret_cast<cuda::DevicePtr>(group_->at<T>(rank, offset)),
                        count * sizeof(T));
    return values;
  }
  // Of a word that every block of every rank has.
  uint64 sum_of_blocks(size_t offset) {
    uint64 sum = 0;
    for (int r = 0; r < ranks_; ++r) {
      for (uint64 of_block : download<uint64>(r, offset, kBlocks)) sum += of_block;
    }
    return sum;
  }
  std::string error_of_run() {
    synchronize();
    try {
      group_->check();
    } catch (const SystemError& error) {
      return error.what();
    }
    return "";
  }

  int ranks_ = 0;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<LangGroup> group_;
  std::vector<std::unique_ptr<cuda::Stream>> streams_;
  cuda::Compiler compiler_;
};

}  // namespace stretto::fabric
