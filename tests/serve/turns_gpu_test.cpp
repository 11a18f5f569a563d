// Operations that take turns on one workspace, in any order, eager and in graphs, with ranks that
// come late: whose fences are spared must be right all the same.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gpu/graph.h"
#include "operation_on_gpus.h"

namespace stretto {
namespace {

using runtime::OperationOnGpus;

constexpr int64_t kRows = 384, kSize = 512;
constexpr uint16_t kGap = 0x7fc1;  // no number, and no result
constexpr size_t kResults = 24;    // of an operation in a round

// An operation, whose every call in a round has inputs and results of its own.
class Turner {
 public:
  Turner(Context& context, ProductKind kind, const char* schedule)
      : context_(context),
        operation_(context, {kind, kSize, kSize, DType::bf16}, kRows,
                   {.schedule = schedule, .rows = RowCount::fixed}),
        op_(operation_.product(kRows)) {
    for (int rank = 0; rank < context.ranks(); ++rank) {
      for (std::vector<std::vector<GpuAddress>>* all : {&a_, &b_, &out_}) all->emplace_back();
      for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        a_.back().push_back(input(rank, seed, Input::a));
        b_.back().push_back(input(rank, seed, Input::b));
      }
      for (size_t i = 0; i < kResults; ++i) {
        out_.back().push_back(context.allocate(rank, runtime::output_elements(op_, rank) * 2));
      }
    }
  }

  void run(int rank, GpuStream stream, size_t call) {
    const auto r = static_cast<size_t>(rank);
    const CallTensor tensors[] = {
        {"a", a_[r][call % kSeeds]}, {"b", b_[r][call % kSeeds]}, {"out", out_[r][call]}};
    operation_.Operation::run(rank, stream, kRows, tensors);
  }
  void finish() { operation_.finish(); }
  // Of a round's first calls; they hold no numbers then.
  int64_t take_wrong(size_t calls) {
    int64_t wrong = 0;
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      for (size_t call = 0; call < calls; ++call) {
        std::vector<uint16_t> found(runtime::output_elements(op_, rank));
        const GpuAddress at = out_[static_cast<size_t>(rank)][call];
        context_.copy_from_gpu(rank, found.data(), at, found.size() * 2);
        wrong += runtime::wrong_elements(op_, call % kSeeds + 1, rank, found);
        std::fill(found.begin(), found.end(), kGap);
        context_.copy_to_gpu(rank, at, found.data(), found.size() * 2);
      }
    }
    return wrong;
  }

 private:
  static constexpr size_t kSeeds = 3;

  GpuAddress input(int rank, uint64_t seed, Input which) {
    const auto bits = runtime::input_bits(op_, seed, which, rank);
    const GpuAddress at = context_.allocate(rank, bits.size() * 2);
    context_.copy_to_gpu(rank, at, bits.data(), bits.size() * 2);
    return at;
  }

  Context& context_;
  OperationOnMemory operation_;
  const Segment op_;
  std::vector<std::vector<GpuAddress>> a_, b_, out_;  // by rank
};

class TurnsOnGpus : public OperationOnGpus {
 protected:
  void SetUp() override {
    OperationOnGpus::SetUp();
    if (IsSkipped()) return;
    context_ =
        std::make_unique<Context>(ranks_, ContextOptions{.timeout_s = 5, .workspace_grows = true});
    std::vector<std::pair<ProductKind, const char*>> all = {
        {kAgGemm, "tiles"}, {kGemmRs, "tiles"}, {kGemmAr, "tiles"}, {kAgGemm, "slices"}};
    // A run of these is more than one kernel. Streams of ranks that share a GPU may share a queue
    // of the hardware, where the second, which waits for the first, would be ahead of other ranks'.
    if (cuda::ranks_a_gpu() == 1) {
      all.emplace_back(kGemmRs, "tiles,mover=comm-blocks,comm-sms=8,reuse=ack");
      all.emplace_back(kAgGemm, "low-latency");  // which has nothing in the workspace
    }
    for (const auto& [kind, schedule] : all) {
      turners_.push_back(std::make_unique<Turner>(*context_, kind, schedule));
    }
    calls_.assign(turners_.size(), 0);
  }

  // One more call of each of `order`, on all ranks, of which some come late.
  void run(const std::vector<size_t>& order) {
    for (const size_t which : order) {
      for (int rank = 0; rank < ranks_; ++rank) {
        turners_[which]->run(rank, context_->stream(rank), calls_[which]);
        if (random_() % 4 == 0) {
          std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
        }
      }
      ++calls_[which];
    }
  }
  std::vector<size_t> random_order(size_t length) {
    std::vector<size_t> order;
    for (size_t i = 0; i < length; ++i) order.push_back(random_() % turners_.size());
    return order;
  }
  int64_t finish_round() {
    for (const auto& turner : turners_) turner->finish();
    int64_t wrong = 0;
    for (size_t i = 0; i < turners_.size(); ++i) {
      wrong += turners_[i]->take_wrong(calls_[i]);
      calls_[i] = 0;
    }
    return wrong;
  }

  std::vector<std::unique_ptr<Turner>> turners_;
  std::vector<size_t> calls_;  // of each in this round
  std::mt19937_64 random_{7};
};

TEST_P(TurnsOnGpus, InAnyOrderAreRight) {
  for (int round = 0; round < 30; ++round) {
    run(random_order(24));
    ASSERT_EQ(finish_round(), 0) << "round " << round;
  }
}

TEST_P(TurnsOnGpus, WithGraphsBetweenAreRight) {
  for (size_t i = 0; i < turners_.size(); ++i) run({i});  // known before they are captured
  ASSERT_EQ(finish_round(), 0);
  for (int round = 0; round < 12; ++round) {
    const std::vector<size_t> inside = random_order(6);
    std::vector<std::unique_ptr<cuda::Graph>> graphs;
    std::vector<size_t> calls = calls_;
    for (int rank = 0; rank < ranks_; ++rank) {
      context_->make_current(rank);
      calls = calls_;
      const cuda::Stream stream(static_cast<cuda::StreamHandle>(context_->stream(rank)));
      graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
        for (const size_t which : inside) {
          turners_[which]->run(rank, context_->stream(rank), calls[which]++);
        }
      }));
    }
    calls_ = calls;
    for (int part = 0; part < 3; ++part) {
      run(random_order(4));
      for (int rank = 0; rank < ranks_; ++rank) {
        context_->make_current(rank);
        const cuda::Stream stream(static_cast<cuda::StreamHandle>(context_->stream(rank)));
        for (int i = 0; i <= part; ++i) graphs[static_cast<size_t>(rank)]->launch(stream);
      }
    }
    run(random_order(4));
    ASSERT_EQ(finish_round(), 0) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, TurnsOnGpus, testing::Values(2, 4, 8),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace stretto
