// The grouped kernel against a reference, on a GPU: partitions of every sort, rows sorted, gathered
// and scattered, and what follows products.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gpu/grouped_kernel.h"
#include "gpu/grouped_operands.h"
#include "gpu_fixture.h"
#include "stretto/device/elements.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using device::GroupedConfig;

constexpr uint8_t kPoison = 0xff;

struct Case {
  std::vector<int32_t> rows_of_expert;
  int64_t n, k;
  int64_t entry_rows = 1;
};

// Experts without rows, with one, with a tile and a little more; all rows at one expert; none at
// all.
const Case kCases[] = {{{0, 1, 300, 17, 0, 129, 16}, 264, 200},
                       {{5, 40, 0, 128, 64, 3}, 520, 328, 16},
                       {{0, 0, 700, 0}, 128, 704},
                       {{0, 0, 0}, 136, 128},
                       {{0, 2000, 3, 200, 0, 1}, 776, 96},
                       {{31, 65, 2, 513}, 72, 1000, 64}};

class GroupedGpuTest : public GpuTest {
 protected:
  static float widened(bool bf16, uint16_t bits) {
    return bf16 ? device::Bf16::widen(bits) : device::Fp16::widen(bits);
  }
  static uint16_t rounded(bool bf16, double value) {
    const auto single = static_cast<float>(value);
    return static_cast<uint16_t>(bf16 ? device::Bf16::round(single) : device::Fp16::round(single));
  }
  static double followed(Follower follower, double x) {
    const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    if (follower == Follower::gelu) return 0.5 * x * (1 + std::tanh(inner));
    return follower == Follower::none ? x : x / (1 + std::exp(-x));
  }
  template <typename T>
  static std::vector<T> contents(const DeviceMemory& memory, size_t count) {
    std::vector<T> values(count);
    memory.download(values.data(), count * sizeof(T));
    return values;
  }

  // Of those that are not too high to gather.
  void expect_right(std::vector<GroupedConfig> configs) {
    const auto is_illegal = [](const GroupedConfig& config) {
      return !why_illegal(config).empty();
    };
    configs.erase(std::remove_if(configs.begin(), configs.end(), is_illegal), configs.end());
    std::vector<std::string> sources;
    for (const GroupedConfig& config : configs) sources.push_back(grouped_source(config));
    compile_ahead(sources);
    for (const GroupedConfig& config : configs) {
      std::cout << "  " << describe(config) << std::endl;  // so that the log names one that hangs
      expect_right(config);
    }
  }

  void expect_right(const GroupedConfig& config) {
    const GroupedKernel kernel(*device_, compiler_, config);
    for (const Case& shape : kCases) {
      if (shape.k <= (2 * config.ranges - 1) * device::kTileK) continue;  // refused
      for (const auto fill : {device::Fill::integers, device::Fill::normal}) {
        SCOPED_TRACE(fmt::format("{}, {} columns, K {}, {}", describe(config), shape.n, shape.k,
                                 fill == device::Fill::integers ? "integers" : "normal"));
        expect_right(kernel, shape, fill, false);
        if (config.follower == Follower::swiglu) expect_right(kernel, shape, fill, true);
      }
    }
  }

  // `up_first`: weights of the gate lie behind those of what it gates.
  void expect_right(const GroupedKernel& kernel, const Case& shape, device::Fill fill,
                    bool up_first) {
    const GroupedConfig& config = kernel.config();
    const auto [counts, n, k, entry_rows] = shape;
    const auto experts = static_cast<int64_t>(counts.size());
    const int64_t halves = config.follower == Follower::swiglu ? 2 : 1;
    std::vector<int64_t> first_row(counts.size());
    int64_t rows = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      first_row[e] = rows;
      rows += (counts[e] + entry_rows - 1) / entry_rows * entry_rows;
    }
    const DType type = config.bf16 ? DType::bf16 : DType::fp16;
    const int64_t num_tokens = std::max<int64_t>(rows, 1);
    const auto bytes = [](int64_t elements, size_t size = 2) {
      return static_cast<size_t>(elements) * size;
    };

    // Tokens in another order, and the output in a third.
    std::vector<int32_t> sources(static_cast<size_t>(num_tokens), -1), targets = sources;
    std::vector<float> weights_of_rows(sources.size());
    for (size_t e = 0; e < counts.size(); ++e) {
      for (int64_t r = first_row[e]; r < first_row[e] + counts[e]; ++r) {
        const auto at = static_cast<size_t>(r);
        sources[at] = static_cast<int32_t>((r * 7 + 3) % num_tokens);
        targets[at] = static_cast<int32_t>(rows - 1 - r);
        weights_of_rows[at] = static_cast<float>(1 + r % 3) * 0.5f;
      }
    }
    DeviceMemory tokens(bytes(num_tokens * k)), sorted(bytes(num_tokens * k));
    DeviceMemory weights(bytes(experts * n * halves * k));
    data_->fill(*stream_, tokens.address(), num_tokens * k, type, fill, 1);
    data_->fill(*stream_, weights.address(), experts * n * halves * k, type, fill, 2);
    stream_->synchronize();
    const auto values = contents<uint16_t>(tokens, static_cast<size_t>(num_tokens * k));
    std::vector<uint16_t> moved = values;
    for (int64_t r = 0; config.gathers && r < rows; ++r) {
      const int64_t from = std::max(0, sources[static_cast<size_t>(r)]);
      std::copy_n(values.begin() + from * k, k, moved.begin() + r * k);
    }
    sorted.upload(moved.data(), moved.size() * 2);

    DeviceMemory products(bytes(num_tokens * n * halves, 4));
    for (size_t e = 0; e < counts.size(); ++e) {
      if (counts[e] == 0) continue;
      data_->multiply(*stream_, sorted.address() + bytes(first_row[e] * k),
                      weights.address() + bytes(static_cast<int64_t>(e) * n * halves * k),
                      products.address() + bytes(first_row[e] * n * halves, 4), counts[e],
                      n * halves, k, type);
    }
    stream_->synchronize();
    const auto reference = contents<float>(products, static_cast<size_t>(num_tokens * n * halves));

    const int64_t stride = n + 24;
    DeviceMemory output(bytes((num_tokens + 3) * stride));
    const DeviceMemory count_words = upload(counts), source_words = upload(sources),
                       target_words = upload(targets), row_weights = upload(weights_of_rows),
                       tickets = upload(std::vector<uint32_t>(2));
    GroupedOperands operands;
    operands.experts = experts;
    operands.most_rows = rows;
    operands.entry_rows = entry_rows;
    operands.tokens = {tokens.address(), num_tokens, k, k, type};
    operands.expert_rows = n * halves;
    operands.weights = {weights.address(), (experts - 1) * n * halves + n, k, k, type};
    operands.up = operands.weights;
    operands.up.address += bytes(n * k);
    if (up_first) std::swap(operands.weights, operands.up);
    operands.output = {output.address(), num_tokens, n, stride, type};
    operands.rows_of_expert = count_words.address();
    operands.sources = source_words.address();
    operands.targets = target_words.address();
    operands.row_weights = row_weights.address();
    operands.tickets = tickets.address();
    const device::GroupedParams params = grouped_params(config, operands);
    // Behind another of experts that writes elsewhere, and started while that is far from its end.
    const DeviceMemory other_tickets = upload(std::vector<uint32_t>(2));
    const DeviceMemory elsewhere(output.num_bytes());
    GroupedOperands others = operands;
    others.output.address = elsewhere.address();
    others.tickets = other_tickets.address();
    const device::GroupedParams ahead = grouped_params(config, others);
    operands.is_partition_early = true;
    const device::GroupedParams early = grouped_params(config, operands);

    std::vector<uint16_t> first;
    const auto expect_the_same = [&](const std::string& how, auto&& launch) {
      check(driver().fill_bytes(output.address(), kPoison, output.num_bytes(), stream_->handle()),
            "poison");
      launch();
      stream_->synchronize();
      const auto got = contents<uint16_t>(output, output.num_bytes() / 2);
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << "other bits " << how;
    };
    for (const int blocks : {device_->num_sms(), 7, 1}) {
      expect_the_same(fmt::format("with {} blocks", blocks),
                      [&] { kernel.launch(*stream_, blocks, params); });
    }
    expect_the_same("behind another", [&] {
      kernel.launch(*stream_, 1, ahead);
      kernel.launch(*stream_, device_->num_sms(), early, device_->can_overlap());
    });

    std::vector<bool> written(first.size());
    double error = 0, size = 0;
    size_t differing = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      for (int64_t r = first_row[e]; r < first_row[e] + counts[e]; ++r) {
        const auto row = static_cast<size_t>(r);
        for (int64_t c = 0; c < n; ++c) {
          const float* const product = reference.data() + r * n * halves;
          double expected = followed(config.follower, product[up_first ? n + c : c]);
          if (halves == 2) expected *= product[up_first ? c : n + c];
          if (config.weighs) expected *= weights_of_rows[row];
          const auto at = static_cast<size_t>((config.scatters ? targets[row] : r) * stride + c);
          written[at] = true;
          differing += first[at] != rounded(config.bf16, expected);
          const double off = widened(config.bf16, first[at]) - expected;
          error += std::isfinite(off) ? off * off : 1e30;
          size += expected * expected;
        }
      }
    }
    if (fill == device::Fill::integers && config.follower == Follower::none) {
      EXPECT_EQ(differing, 0u) << "integers must be exact";
    }
    if (size > 0) {
      EXPECT_LT(std::sqrt(error / size), config.bf16 ? 4e-3 : 6e-4);
    }
    size_t strays = 0;
    for (size_t i = 0; i < first.size(); ++i) strays += !written[i] && first[i] != 0xffff;
    EXPECT_EQ(strays, 0u) << "elements written that are of no expert";
  }
};

// Two kernels, of which the second awaits the first one's tiles.
class GroupedPairTest : public GroupedGpuTest {
 protected:
  static constexpr int64_t kLastColumns = 264;

  // What is between them is poisoned each time, so that a row that is read too early shows.
  void expect_the_same_bits(const GroupedConfig& first_config, const GroupedConfig& second_config,
                            const Case& shape, int64_t low_experts) {
    const GroupedKernel first(*device_, compiler_, first_config);
    const GroupedKernel second(*device_, compiler_, second_config);
    const auto experts = static_cast<int64_t>(shape.rows_of_expert.size());
    const int64_t halves = first_config.follower == Follower::swiglu ? 2 : 1;
    int64_t rows = 0;
    for (const int32_t count : shape.rows_of_expert) {
      rows += (count + shape.entry_rows - 1) / shape.entry_rows * shape.entry_rows;
    }
    const int64_t n = shape.n, k = shape.k, held = std::max<int64_t>(rows, 1);
    const auto of = [&](int64_t elements) {
      return DeviceMemory(static_cast<size_t>(elements) * sizeof(uint16_t));
    };
    const DeviceMemory tokens = of(held * k), inner = of(held * n),
                       output = of(held * kLastColumns);
    const DeviceMemory up = of(experts * n * halves * k), down = of(experts * kLastColumns * n);
    for (const auto& [memory, number] : {std::pair(&tokens, 1), {&up, 2}, {&down, 3}}) {
      data_->fill(*stream_, memory->address(), static_cast<int64_t>(memory->num_bytes() / 2),
                  DType::bf16, device::Fill::normal, number);
    }
    std::vector<int32_t> choices(static_cast<size_t>(held));
    std::iota(choices.rbegin(), choices.rend(), 0);
    const uint32_t words =
        device::stored_words(static_cast<uint32_t>(experts), static_cast<uint32_t>(rows));
    const DeviceMemory counts = upload(shape.rows_of_expert), targets = upload(choices),
                       tickets = upload(std::vector<uint32_t>(2)),
                       others = upload(std::vector<uint32_t>(2)),
                       stored = upload(std::vector<uint32_t>(words));

    GroupedOperands a;
    a.experts = experts;
    a.most_rows = rows;
    a.entry_rows = shape.entry_rows;
    a.low_experts = low_experts;
    a.rows_of_expert = counts.address();
    GroupedOperands b = a;
    a.tokens = {tokens.address(), held, k, k, DType::bf16};
    a.output = {inner.address(), held, n, n, DType::bf16};
    a.expert_rows = n * halves;
    a.weights = {up.address(), (experts - 1) * n * halves + n, k, k, DType::bf16};
    a.up = a.weights;
    a.up.address += static_cast<uint64_t>(n * k) * 2;
    a.tickets = tickets.address();
    a.sources = targets.address();
    b.tokens = a.output;
    b.output = {output.address(), held, kLastColumns, kLastColumns, DType::bf16};
    b.expert_rows = kLastColumns;
    b.weights = {down.address(), experts * kLastColumns, n, n, DType::bf16};
    b.targets = targets.address();
    b.tickets = others.address();
    const auto run = [&](int first_blocks, int second_blocks, bool overlap) {
      for (const DeviceMemory* const memory : {&inner, &output}) {
        check(
            driver().fill_bytes(memory->address(), kPoison, memory->num_bytes(), stream_->handle()),
            "poison");
      }
      first.launch(*stream_, first_blocks, grouped_params(first_config, a));
      second.launch(*stream_, second_blocks, grouped_params(second_config, b), overlap);
      stream_->synchronize();
      return contents<uint16_t>(output, output.num_bytes() / 2);
    };
    const std::vector<uint16_t> expected = run(device_->num_sms(), device_->num_sms(), false);
    a.stored = stored.address();
    b.ahead = counted_tiles(first_config, a);
    b.is_partition_early = true;
    // On few SMs, so that blocks of the second wait while it runs; and the second on few, so that
    // each has several tiles, most of them behind all of the first.
    for (const auto& [first_blocks, second_blocks] :
         {std::pair(device_->num_sms(), device_->num_sms()),
          {40, device_->num_sms()},
          {3, device_->num_sms()},
          {device_->num_sms(), 2},
          {7, 5}}) {
      for (int time = 0; time < 3; ++time) {
        EXPECT_EQ(run(first_blocks, second_blocks, device_->can_overlap()), expected)
            << "other bits behind " << first_blocks << " blocks, by " << second_blocks;
      }
    }
    EXPECT_EQ(contents<uint32_t>(stored, words), std::vector<uint32_t>(words)) << "of the next run";
  }
};

constexpr GroupedConfig kTiles[] = {{.columns = 256, .rows = 128, .stages = 4},
                                    {.columns = 256, .rows = 128, .stages = 3, .together = 4},
                                    {.columns = 192, .rows = 128, .stages = 4, .together = 2},
                                    {.columns = 128, .rows = 192, .stages = 4, .together = 3},
                                    {.columns = 128, .rows = 192, .stages = 5},
                                    {.columns = 128, .rows = 256, .stages = 4},
                                    {.columns = 256, .rows = 32, .stages = 5},
                                    {.columns = 192, .rows = 96, .stages = 5},
                                    {.columns = 192, .rows = 128, .stages = 4},
                                    {.columns = 192, .rows = 160, .stages = 4},
                                    {.columns = 256, .rows = 144, .stages = 4},
                                    {.columns = 128, .rows = 128, .stages = 6, .ranges = 2},
                                    {.columns = 128, .rows = 64, .stages = 8, .ranges = 2}};

// Those of every tile, of which `choose` sets some choices each.
template <typename... Choose>
std::vector<GroupedConfig> of_every_tile(Choose... choose) {
  std::vector<GroupedConfig> configs;
  for (const GroupedConfig& tile : kTiles) {
    (choose(configs.emplace_back(tile)), ...);
  }
  return configs;
}

TEST_F(GroupedGpuTest, SortedRowsOfEveryTile) {
  expect_right({std::begin(kTiles), std::end(kTiles)});
}

TEST_F(GroupedGpuTest, GateAndUpOfGatheredRows) {
  expect_right(of_every_tile([](GroupedConfig& config) { config.gathers = true; },
                             [](GroupedConfig& config) {
                               config.gathers = true;
                               config.follower = Follower::swiglu;
                             },
                             [](GroupedConfig& config) {
                               config.gathers = config.scatters = true;
                               config.follower = Follower::swiglu;
                             }));
}

TEST_F(GroupedGpuTest, DownToScatteredAndWeighedRows) {
  expect_right(
      of_every_tile([](GroupedConfig& config) { config.scatters = true; },
                    [](GroupedConfig& config) { config.scatters = config.weighs = true; }));
}

TEST_F(GroupedPairTest, AwaitsTilesOfTheOneAhead) {
  GroupedConfig up{.columns = 256, .rows = 128, .stages = 4};
  GroupedConfig ranges{.columns = 128, .rows = 64, .stages = 8, .ranges = 2};
  GroupedConfig gathers = {.columns = 192, .rows = 96, .stages = 5, .gathers = true};
  up.follower = gathers.follower = Follower::swiglu;
  GroupedConfig down{.columns = 128, .rows = 192, .stages = 5};
  GroupedConfig scatters{.columns = 256, .rows = 64, .stages = 5, .scatters = true};
  for (const Case& shape : kCases) {
    for (const GroupedConfig& first : {up, ranges, gathers}) {
      if (first.ranges > 1 && shape.k <= 3 * device::kTileK) continue;  // refused
      for (const GroupedConfig& second : {down, scatters}) {
        SCOPED_TRACE(
            fmt::format("{} then {}, {} columns", describe(first), describe(second), shape.n));
        const auto experts = static_cast<int64_t>(shape.rows_of_expert.size());
        expect_the_same_bits(first, second, shape, first.ranges == 1 ? experts / 2 : 0);
      }
    }
  }
}

// Tables of which nothing is right: the kernel ends, and writes rows of the output alone.
TEST_F(GroupedGpuTest, WildTablesWriteNothingElse) {
  constexpr int64_t kRows = 200, kColumns = 72, kK = 136, kExperts = 5;
  GroupedConfig config = kTiles[0];
  config.gathers = config.scatters = config.weighs = true;
  const GroupedKernel kernel(*device_, compiler_, config);
  const std::vector<int32_t> counts = {70, -3, INT32_MAX, 1 << 30, INT32_MIN};
  std::vector<int32_t> sources, targets;
  for (int32_t r = 0; r < kRows; ++r) {
    sources.push_back(r % 3 == 0 ? INT32_MAX - r : r % 3 == 1 ? -r : r);
    targets.push_back(r % 4 == 0   ? INT32_MAX - r
                      : r % 4 == 1 ? INT32_MIN + r
                      : r % 4 == 2 ? static_cast<int32_t>(kRows) + r
                                   : r);
  }
  DeviceMemory tokens(kRows * kK * 2), weights(kExperts * kColumns * kK * 2);
  DeviceMemory output(3 * kRows * kColumns * 2);
  data_->fill(*stream_, tokens.address(), kRows * kK, DType::bf16, device::Fill::integers, 1);
  data_->fill(*stream_, weights.address(), kExperts * kColumns * kK, DType::bf16,
              device::Fill::integers, 2);
  check(driver().fill_bytes(output.address(), kPoison, output.num_bytes(), stream_->handle()),
        "poison");
  const DeviceMemory count_words = upload(counts), source_words = upload(sources),
                     target_words = upload(targets),
                     row_weights = upload(std::vector<float>(kRows, 1.0f)),
                     tickets = upload(std::vector<uint32_t>(2));
  GroupedOperands operands;
  operands.experts = kExperts;
  operands.most_rows = kRows;
  operands.tokens = {tokens.address(), kRows, kK, kK, DType::bf16};
  operands.expert_rows = kColumns;
  operands.weights = {weights.address(), kExperts * kColumns, kK, kK, DType::bf16};
  operands.output = {output.address() + kRows * kColumns * 2, kRows, kColumns, kColumns,
                     DType::bf16};
  operands.rows_of_expert = count_words.address();
  operands.sources = source_words.address();
  operands.targets = target_words.address();
  operands.row_weights = row_weights.address();
  operands.tickets = tickets.address();
  kernel.launch(*stream_, 3, grouped_params(config, operands));
  stream_->synchronize();
  const auto got = contents<uint16_t>(output, output.num_bytes() / 2);
  for (int64_t row = 0; row < 3 * kRows; ++row) {
    const int64_t own = row - kRows;
    const bool is_written = own >= 0 && own < kRows && own % 4 == 3;
    for (int64_t c = 0; c < kColumns; ++c) {
      const uint16_t bits = got[static_cast<size_t>(row * kColumns + c)];
      ASSERT_EQ(bits != 0xffff, is_written) << "row " << own << ", column " << c;
    }
  }
}

TEST_F(GroupedGpuTest, OtherTypeAndFollowers) {
  expect_right(of_every_tile(
      [](GroupedConfig& config) {
        config.bf16 = false;
        config.follower = Follower::gelu;
      },
      [](GroupedConfig& config) {
        config.bf16 = false;
        config.follower = Follower::silu;
        config.gathers = config.scatters = config.weighs = true;
      }));
}

}  // namespace
}  // namespace stretto::cuda
