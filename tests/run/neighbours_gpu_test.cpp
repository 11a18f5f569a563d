// What stands before and behind runs on a stream: a run may start while the kernel before it ends,
// but not before a copy, a memset or another stream's work that it must see has been done.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "gpu_plans.h"
#include "measure/run_graphs.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

constexpr int kRanks = 2;
constexpr int kInputs = 2;

// One rank's memory beside a runner's: inputs that are copied to it, outputs that are copied away.
struct Beside {
  std::vector<cuda::DeviceMemory> inputs, outputs;  // by input
  std::unique_ptr<cuda::Stream> other;
  std::vector<std::unique_ptr<cuda::Event>> events;
};

class NeighboursOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(kRanks); !why.empty()) STRETTO_SKIP(why);
    plan_ = std::make_unique<Plan>(
        plan_here("ag-gemm m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=8"));
    runner_ = std::make_unique<PlanRunner>(*plan_, fabric_(), shared_compiler());
    for (int rank = 0; rank < kRanks; ++rank) add_rank(rank);
    for (int input = 0; input < kInputs; ++input) {
      for (int rank = 0; rank < kRanks; ++rank) {
        make_current(rank);
        check(driver().copy_async(runner_->buffer("a", rank), at(beside_[rank].inputs[input]),
                                  a_bytes(), runner_->stream(rank).handle()),
              "copy");
        runner_->stream(rank).synchronize();
        runner_->enqueue(rank);
      }
      runner_->finish();
      for (int rank = 0; rank < kRanks; ++rank) {
        expected_[input].push_back(read(runner_->buffer("out", rank)));
      }
    }
    ASSERT_NE(expected_[0][0], expected_[1][0]);
  }

  static fabric::Fabric& fabric_() { return shared_fabric(kRanks); }
  static void make_current(int rank) { fabric_().device(rank).make_current(); }
  static cuda::DevicePtr at(const cuda::DeviceMemory& memory) { return memory.address(); }
  static size_t a_bytes() { return size_t{512} * 512 * 2; }
  static size_t out_bytes() { return size_t{1024} * 512 * 2; }

  // 1 and -2 in bf16: every sum is exact.
  static std::vector<uint16_t> whole_numbers(std::mt19937& random, size_t num_bytes) {
    std::vector<uint16_t> bits(num_bytes / 2);
    for (uint16_t& value : bits) value = random() % 2 == 0 ? 0x3f80 : 0xc000;
    return bits;
  }

  void add_rank(int rank) {
    make_current(rank);
    std::mt19937 random(static_cast<unsigned>(rank) + 1);
    Beside& mine = beside_.emplace_back();
    for (int input = 0; input < kInputs; ++input) {
      mine.inputs.emplace_back(a_bytes());
      mine.outputs.emplace_back(out_bytes());
      // The last input is what a memset makes.
      std::vector<uint16_t> bits = whole_numbers(random, a_bytes());
      if (input == kInputs - 1) std::fill(bits.begin(), bits.end(), uint16_t{0});
      cuda::copy_to_gpu(at(mine.inputs.back()), bits.data(), a_bytes());
    }
    const std::vector<uint16_t> b = whole_numbers(random, size_t{512} * 512 * 2);
    cuda::copy_to_gpu(runner_->buffer("b", rank), b.data(), b.size() * 2);
    mine.other = std::make_unique<cuda::Stream>();
    for (int i = 0; i < 2 * kInputs; ++i) mine.events.push_back(std::make_unique<cuda::Event>());
  }

  std::vector<uint16_t> read(cuda::DevicePtr from) const {
    std::vector<uint16_t> bits(out_bytes() / 2);
    cuda::copy_from_gpu(bits.data(), from, out_bytes());
    return bits;
  }

  // Puts input 0 or 1 into place on `stream`, or on another stream that it awaits; a run; keeps
  // its output.
  enum class By { copy, memset, other_stream };
  void run(int rank, const cuda::Stream& stream, int input, By by) {
    Beside& mine = beside_[static_cast<size_t>(rank)];
    const cuda::DevicePtr a = runner_->buffer("a", rank);
    const cuda::DevicePtr from = at(mine.inputs[static_cast<size_t>(input)]);
    if (by == By::memset && input == kInputs - 1) {
      check(driver().fill_bytes(a, 0, a_bytes(), stream.handle()), "fill");
    } else if (by == By::other_stream) {
      cuda::Event& before = *mine.events[static_cast<size_t>(2 * input)];
      cuda::Event& behind = *mine.events[static_cast<size_t>(2 * input + 1)];
      before.record(stream);
      mine.other->wait(before);
      check(driver().copy_async(a, from, a_bytes(), mine.other->handle()), "copy");
      behind.record(*mine.other);
      stream.wait(behind);
    } else {
      check(driver().copy_async(a, from, a_bytes(), stream.handle()), "copy");
    }
    runner_->enqueue(rank, stream.handle());
    check(driver().copy_async(at(mine.outputs[static_cast<size_t>(input)]),
                              runner_->buffer("out", rank), out_bytes(), stream.handle()),
          "copy");
  }

  void expect_all_right(const char* how) {
    for (int rank = 0; rank < kRanks; ++rank) {
      make_current(rank);
      for (size_t input = 0; input < kInputs; ++input) {
        const cuda::DevicePtr output = at(beside_[static_cast<size_t>(rank)].outputs[input]);
        EXPECT_TRUE(read(output) == expected_[input][static_cast<size_t>(rank)])
            << how << ", rank " << rank << ", input " << input;
        const std::vector<uint16_t> poison(out_bytes() / 2, 0x7fff);
        cuda::copy_to_gpu(output, poison.data(), out_bytes());
      }
    }
  }

  // 20 rounds of both inputs, eagerly and as one graph, ranks apart by up to 100 us.
  void alternate(By by, bool null_stream = false) {
    std::mt19937 random(7);
    cuda::Stream null(nullptr);
    const auto both = [&](int rank, const cuda::Stream& stream) {
      for (int input = 0; input < kInputs; ++input) run(rank, stream, input, by);
    };
    for (int round = 0; round < 20; ++round) {
      for (int rank = 0; rank < kRanks; ++rank) {
        make_current(rank);
        runner_->delay(rank, random() % 100'000);
        both(rank, null_stream ? null : runner_->stream(rank));
      }
      runner_->finish();
      for (int rank = 0; rank < kRanks; ++rank) synchronize(rank);
      expect_all_right("eager");
    }
    if (null_stream) return;  // which nothing can be captured on
    const RunGraphs graphs(fabric_(), {&runner_->stream(0), &runner_->stream(1)}, 1, both);
    for (int round = 0; round < 20; ++round) {
      for (int rank = 0; rank < kRanks; ++rank) {
        make_current(rank);
        runner_->delay(rank, random() % 100'000);
        for (int launches = 0; launches < 5; ++launches) graphs.launch(rank);
      }
      runner_->finish();
      for (int rank = 0; rank < kRanks; ++rank) synchronize(rank);
      expect_all_right("graph");
    }
  }

  void synchronize(int rank) {
    make_current(rank);
    check(driver().stream_synchronize(nullptr), "synchronize");
    runner_->stream(rank).synchronize();
  }

  std::unique_ptr<Plan> plan_;
  std::unique_ptr<PlanRunner> runner_;
  std::vector<Beside> beside_;
  std::vector<std::vector<uint16_t>> expected_[kInputs];  // by rank
};

TEST_F(NeighboursOnGpus, ARunSeesTheCopyBeforeIt) { alternate(By::copy); }
TEST_F(NeighboursOnGpus, ARunSeesTheMemsetBeforeIt) { alternate(By::memset); }
TEST_F(NeighboursOnGpus, ARunSeesWhatItsStreamAwaited) { alternate(By::other_stream); }
TEST_F(NeighboursOnGpus, ARunOnTheNullStreamSeesTheCopyBeforeIt) {
  if (cuda::ranks_a_gpu() > 1) STRETTO_SKIP("ranks that share a GPU have one null stream");
  alternate(By::copy, true);
}

// A run that is one kernel and one of three, in turn on one stream.
TEST_F(NeighboursOnGpus, RunsOfTwoPlansFollowEachOther) {
  const Plan three =
      plan_here("gemm-rs m=1024 n=1024 k=512 ranks=2 dtype=bf16", "tiles,comm-sms=8,reuse=ack");
  PlanRunner other(three, fabric_(), shared_compiler());
  std::mt19937 random(3);
  for (int rank = 0; rank < kRanks; ++rank) {
    make_current(rank);
    for (const char* input : {"a", "b"}) {
      const std::vector<uint16_t> bits = whole_numbers(random, size_t{1024} * 256 * 2);
      cuda::copy_to_gpu(other.buffer(input, rank), bits.data(), bits.size() * 2);
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    make_current(rank);
    other.enqueue(rank);
  }
  other.finish();
  std::vector<std::vector<uint16_t>> alone;
  for (int rank = 0; rank < kRanks; ++rank) {
    make_current(rank);
    alone.push_back(read(other.buffer("out", rank)));
  }
  const auto in_turn = [&](int rank, const cuda::Stream& stream) {
    for (int input = 0; input < kInputs; ++input) {
      run(rank, stream, input, By::copy);
      other.enqueue(rank, stream.handle());
    }
  };
  const RunGraphs graphs(fabric_(), {&runner_->stream(0), &runner_->stream(1)}, 1, in_turn);
  for (const bool captured : {false, true}) {
    for (int round = 0; round < 10; ++round) {
      // No more than a GPU's queue takes: this thread enqueues one rank after the other.
      for (int rank = 0; rank < kRanks; ++rank) {
        make_current(rank);
        for (int i = 0; i < 20; ++i) {
          captured ? graphs.launch(rank) : in_turn(rank, runner_->stream(rank));
        }
      }
      runner_->finish();
      other.finish();
      expect_all_right(captured ? "graph" : "eager");
      for (int rank = 0; rank < kRanks; ++rank) {
        make_current(rank);
        EXPECT_TRUE(read(other.buffer("out", rank)) == alone[static_cast<size_t>(rank)]);
      }
    }
  }
}

}  // namespace
}  // namespace stretto::runtime
