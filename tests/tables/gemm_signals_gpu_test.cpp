// Waits and notifies of the GEMM kernel on one GPU: a product whose input another product makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/gemm_kernel.h"
#include "gpu/gpu_fixture.h"
#include "tables/gemm_table.h"

namespace stretto::cuda {
namespace {

using device::GemmConfig;
using device::OutputType;
using device::RunControl;
using device::Shared;

constexpr int64_t kRows = 512, kMiddle = 512, kColumns = 512, kDepth = 32;
constexpr size_t kMostBlocks = 16;

// C = A * B^T, then E = C * D^T in the same launch: a tile of E waits for its rows of C.
class GemmSignalsGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    a_ = DeviceMemory(kRows * kDepth * 2);
    b_ = DeviceMemory(kMiddle * kDepth * 2);
    c_ = DeviceMemory(kRows * kMiddle * 2);
    d_ = DeviceMemory(kColumns * kMiddle * 2);
    e_ = DeviceMemory(kRows * kColumns * 2);
    counters_ = DeviceMemory(kRows / 128 * device::kSignalStride * 8);
    control_ = DeviceMemory(sizeof(RunControl));
    all_counters_ = upload(std::vector<uint64_t>{counters_.address()});
    all_controls_ = upload(std::vector<uint64_t>{control_.address()});
    reset();
  }

  // So many runs have been, each of which added so much to every counter.
  void reset(uint64_t runs = 0, uint64_t per_run = 0) {
    const std::vector<uint64_t> counts(counters_.num_bytes() / 8, runs * per_run);
    counters_.upload(counts.data(), counters_.num_bytes());
    runs_ = upload(std::vector<uint64_t>(kMostBlocks, runs));
    const RunControl control{50'000'000, 0, 0, {}, nullptr};
    control_.upload(&control, sizeof(control));
  }
  std::vector<uint64_t> runs(const DeviceGemmTable& table) const {
    std::vector<uint64_t> runs(static_cast<size_t>(table.num_blocks()));
    runs_.download(runs.data(), runs.size() * sizeof(uint64_t));
    return runs;
  }
  RunControl control() const {
    RunControl control{};
    control_.download(&control, sizeof(control));
    return control;
  }

  GemmTable table(const GemmConfig& config, bool forget_a_notify) {
    const Matrix a{a_.address(), kRows, kDepth, kDepth}, b{b_.address(), kMiddle, kDepth, kDepth};
    const Matrix c{c_.address(), kRows, kMiddle, kMiddle};
    const Matrix d{d_.address(), kColumns, kMiddle, kMiddle};
    const Matrix e{e_.address(), kRows, kColumns, kColumns};
    GemmTable first = dense_table(a, b, c, config, 16, 1);
    const GemmTable second = dense_table(c, d, e, config, 16, 1);
    const uint64_t tiles_a_row = kMiddle / static_cast<uint64_t>(config.tile_n);
    for (uint32_t row = 0; row < kRows / 128; ++row) {
      first.notifies.push_back({1, row, 0, 1, 0, 0});
      first.waits.push_back({tiles_a_row, tiles_a_row, row, 0, 1, 0, 0});
    }
    for (auto& block : first.blocks) {
      for (auto& task : block) {
        task.first_notify = static_cast<uint32_t>(task.a_row / 128);
        task.num_notifies = forget_a_notify && task.tile == 5 ? 0 : 1;
      }
    }
    const auto maps = static_cast<uint16_t>(first.maps.size());
    const auto destinations = static_cast<uint32_t>(first.destinations.size());
    first.maps.insert(first.maps.end(), second.maps.begin(), second.maps.end());
    for (auto to : second.destinations) {
      to.map += maps;
      first.destinations.push_back(to);
    }
    for (size_t block = 0; block < second.blocks.size(); ++block) {
      for (auto task : second.blocks[block]) {
        task.a_map = static_cast<uint16_t>(task.a_map + maps);
        task.b_map = static_cast<uint16_t>(task.b_map + maps);
        task.first_destination += destinations;
        task.first_wait = static_cast<uint32_t>(task.a_row / 128);
        task.num_waits = 1;
        task.tile += 1000;
        first.blocks[block].push_back(task);
      }
    }
    return first;
  }

  device::SignalSpace signals() const {
    return {control_.as<RunControl>(),
            counters_.as<device::uint64>(),
            all_counters_.as<device::uint64*>(),
            all_controls_.as<RunControl*>(),
            runs_.as<device::uint64>(),
            1,
            0};
  }

  uint64_t run(const GemmConfig& config, const DeviceGemmTable& table, uint64_t seed) {
    data_->fill(*stream_, a_.address(), kRows * kDepth, DType::bf16, device::Fill::integers, seed);
    data_->fill(*stream_, b_.address(), kMiddle * kDepth, DType::bf16, device::Fill::integers, 2);
    data_->fill(*stream_, d_.address(), kColumns * kMiddle, DType::bf16, device::Fill::integers, 3);
    for (const DeviceMemory* memory : {&c_, &e_}) {
      check(driver().fill_bytes(memory->address(), 0xff, memory->num_bytes(), stream_->handle()),
            "poison");
    }
    GemmKernel(*device_, compiler_, config).launch(*stream_, table.num_blocks(), table.params());
    DeviceMemory reference_c(kRows * kMiddle * 4), reference_e(kRows * kColumns * 4);
    data_->multiply(*stream_, a_.address(), b_.address(), reference_c.address(), kRows, kMiddle,
                    kDepth, DType::bf16);
    const auto c =
        data_->compare(*stream_, c_.address(), DType::bf16, reference_c.address(), kRows * kMiddle);
    data_->multiply(*stream_, c_.address(), d_.address(), reference_e.address(), kRows, kColumns,
                    kMiddle, DType::bf16);
    const auto e = data_->compare(*stream_, e_.address(), DType::bf16, reference_e.address(),
                                  kRows * kColumns);
    return c.differing + e.differing;
  }

  DeviceMemory a_, b_, c_, d_, e_, counters_, control_, runs_, all_counters_, all_controls_;
};

constexpr GemmConfig kPaired{128, 256, 4, 2, Shared::b, true, OutputType::bf16, true};
constexpr GemmConfig kSingle{128, 128, 4, 2, Shared::none, true, OutputType::bf16, true};

TEST_F(GemmSignalsGpuTest, ConsumersFollowProducersOverManyEpochs) {
  for (const GemmConfig& config : {kPaired, kSingle}) {
    reset();
    const DeviceGemmTable on_device(table(config, false), signals());
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      EXPECT_EQ(run(config, on_device, epoch), 0u) << describe(config) << " epoch " << epoch;
      EXPECT_EQ(control().abort, 0u);
      EXPECT_THAT(runs(on_device), testing::Each(epoch + 1));
    }
  }
}

// Neither a run's number nor a counter, be it one that wraps in 64 bits.
TEST_F(GemmSignalsGpuTest, NoCountIsTooLarge) {
  const uint64_t tiles_a_row = kMiddle / static_cast<uint64_t>(kSingle.tile_n);
  for (const uint64_t before :
       {(uint64_t{1} << 31) - 2, (uint64_t{1} << 32) - 2, (uint64_t{1} << 32) / tiles_a_row - 2,
        uint64_t{0} - (uint64_t{1} << 32) / tiles_a_row}) {
    reset(before, tiles_a_row);
    const DeviceGemmTable on_device(table(kSingle, false), signals());
    for (uint64_t epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(run(kSingle, on_device, epoch), 0u) << before << " and " << epoch;
      EXPECT_EQ(control().abort, 0u);
      EXPECT_THAT(runs(on_device), testing::Each(before + epoch + 1));
    }
  }
}

TEST_F(GemmSignalsGpuTest, MissingNotifyEndsInAnErrorAndTheNextRunWorks) {
  for (const GemmConfig& config : {kPaired, kSingle}) {
    reset();
    const DeviceGemmTable broken(table(config, true), signals());
    run(config, broken, 1);
    EXPECT_THAT(runs(broken), testing::Each(1u)) << "waits that expire end no block";
    const RunControl after = control();
    EXPECT_EQ(after.abort, 1u);
    EXPECT_EQ(after.expired_here, 1u);
    EXPECT_GE(after.error.tile, 1000u);
    EXPECT_EQ(after.error.seen + 1, after.error.expected);
    reset();
    const DeviceGemmTable whole(table(config, false), signals());
    EXPECT_EQ(run(config, whole, 2), 0u);
    EXPECT_EQ(control().abort, 0u);
  }
}

}  // namespace
}  // namespace stretto::cuda
