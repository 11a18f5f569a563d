// What follows a product in the GEMM kernel, against a reference in double precision, on a GPU.
//
// Products of whole numbers are exact, so what is left is the error of the follower itself: half a
// unit in the last place of the type that is stored, and a little for its approximations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gpu/gemm_kernel.h"
#include "gpu/gpu_fixture.h"
#include "tables/gemm_table.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using device::GemmConfig;
using device::OutputType;
using device::Shared;

constexpr uint8_t kPoison = 0xff;

struct Case {
  int64_t m, n, k;
  int blocks;
};
constexpr Case kCases[] = {{1, 8, 8, 2},       {100, 72, 40, 132},   {129, 264, 72, 4},
                           {300, 520, 200, 6}, {384, 768, 264, 132}, {1000, 1000, 136, 10}};

double value_of(const std::string& bytes, int64_t at, DType dtype) {
  const auto i = static_cast<size_t>(at);
  if (dtype == DType::fp32) return reinterpret_cast<const float*>(bytes.data())[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(bytes.data())[i];
  return dtype == DType::bf16 ? device::Bf16::widen(bits) : device::Fp16::widen(bits);
}

double followed(Follower follower, double x) {
  switch (follower) {
    case Follower::none:
      return x;
    case Follower::gelu:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Follower::swiglu:
    case Follower::silu:
      return x / (1 + std::exp(-x));
  }
  return 0;
}

// What may lie between a right value and the exact one, which has `factor` as a factor.
double bound_of(double exact, double factor, DType dtype) {
  const double relative = dtype == DType::bf16 ? 1.0 / 256 : dtype == DType::fp16 ? 1.0 / 2048 : 0;
  const double smallest =
      dtype == DType::fp16 ? 0x1p-25 : 0x1p-119 * std::max(1.0, std::abs(factor));
  return std::abs(exact) * (relative * 1.001 + 0x1p-15) + smallest;
}

class GemmFollowersGpuTest : public GpuTest {
 protected:
  using Change = std::function<void(GemmTable&)>;

  std::string bytes_of(const DeviceMemory& memory) {
    std::string bytes(memory.num_bytes(), '\0');
    memory.download(bytes.data(), bytes.size());
    return bytes;
  }

  // Runs the configuration into a matrix with a margin on the right and below, and looks at every
  // byte of it. `change` gets the table first; `added` is then part of what is followed.
  void expect_right(const GemmConfig& config, const Case& shape, const Change& change = {},
                    const DeviceMemory* added = nullptr) {
    const auto [m, n, k, blocks] = shape;
    if (blocks < device::layout_of(config).cluster) return;
    SCOPED_TRACE(describe(config) + " at " + std::to_string(m) + " x " + std::to_string(n) + " x " +
                 std::to_string(k));
    const DType in = config.bf16 ? DType::bf16 : DType::fp16;
    const DType out = config.output == OutputType::fp32   ? DType::fp32
                      : config.output == OutputType::bf16 ? DType::bf16
                                                          : DType::fp16;
    const auto size = static_cast<size_t>(num_bytes(out));
    const int64_t stride = n + 24, rows = m + 3;
    DeviceMemory a(static_cast<size_t>(m * k * 2)), product(static_cast<size_t>(m * n) * 4);
    DeviceMemory wide(static_cast<size_t>(rows * stride) * size);
    data_->fill(*stream_, a.address(), m * k, in, device::Fill::integers, 1);
    const bool two = config.follower == Follower::swiglu;
    std::vector<DeviceMemory> b, bias;
    std::vector<std::string> exact, biases;
    for (uint64_t half = 0; half < 2; ++half) {
      b.emplace_back(static_cast<size_t>(n * k * 2));
      bias.emplace_back(static_cast<size_t>(n * 2));
      data_->fill(*stream_, b.back().address(), n * k, in, device::Fill::integers, 2 + half);
      data_->fill(*stream_, bias.back().address(), n, in, device::Fill::integers, 4 + half);
      data_->multiply(*stream_, a.address(), b.back().address(), product.address(), m, n, k, in);
      stream_->synchronize();
      exact.push_back(bytes_of(product));
      biases.push_back(bytes_of(bias.back()));
    }
    check(driver().fill_bytes(wide.address(), kPoison, wide.num_bytes(), stream_->handle()),
          "poison");
    FollowerTensors follower;
    if (two) follower.other_b = {b[1].address(), n, k, k, in};
    if (config.bias) {
      follower.bias[0] = bias[0].address();
      follower.bias[1] = bias[1].address();
    }
    GemmTable table = dense_table({a.address(), m, k, k, in}, {b[0].address(), n, k, k, in},
                                  {wide.address(), m, n, stride, out}, config, blocks, 2, follower);
    if (change) change(table);
    const DeviceGemmTable on_device(table);
    GemmKernel(*device_, compiler_, config)
        .launch(*stream_, on_device.num_blocks(), on_device.params());
    stream_->synchronize();

    const std::string got = bytes_of(wide);
    const std::string others = added != nullptr ? bytes_of(*added) : "";
    int64_t wrong = 0, changed = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < stride; ++column) {
        const int64_t at = row * stride + column;
        if (row >= m || column >= n) {
          for (size_t i = 0; i < size; ++i) {
            changed += static_cast<uint8_t>(got[static_cast<size_t>(at) * size + i]) != kPoison;
          }
          continue;
        }
        const auto input = [&](size_t half) {
          double x = value_of(exact[half], row * n + column, DType::fp32);
          if (config.bias) x += value_of(biases[half], column, in);
          if (added != nullptr) x += value_of(others, row * n + column, out);
          return x;
        };
        const double factor = two ? input(1) : 1;
        const double right = followed(config.follower, input(0)) * factor;
        const double seen = value_of(got, at, out);
        if (!(std::abs(seen - right) <= bound_of(right, factor, out)) && ++wrong == 1) {
          ADD_FAILURE() << "row " << row << " column " << column << ": " << seen << ", not "
                        << right;
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(changed, 0) << "bytes written outside of C";
  }

  void expect_right(const std::vector<GemmConfig>& configs) {
    std::vector<std::string> sources;
    for (const GemmConfig& config : configs) sources.push_back(gemm_source(config));
    compile_ahead(sources);
    for (const GemmConfig& config : configs) {
      for (const Case& shape : kCases) expect_right(config, shape);
    }
  }

  static GemmConfig config_of_tile(int rows, int columns, Follower follower, bool bias,
                                   Shared shared = Shared::none) {
    GemmConfig config;
    config.tile_m = rows;
    config.tile_n = columns;
    config.consumers = rows >= 128 ? 2 : 1;
    config.shared = shared;
    config.follower = follower;
    config.bias = bias;
    config.stages = 4;
    return config;
  }
};

TEST_F(GemmFollowersGpuTest, SwigluOfEveryTileAndCluster) {
  const std::pair<int, int> tiles[] = {{64, 256},  {128, 256}, {128, 224}, {128, 192}, {128, 160},
                                       {128, 128}, {128, 96},  {128, 64},  {256, 128}, {64, 224}};
  std::vector<GemmConfig> configs;
  for (const auto& [rows, columns] : tiles) {
    for (const Shared shared : {Shared::none, Shared::a, Shared::b}) {
      for (const bool bias : {false, true}) {
        configs.push_back(config_of_tile(rows, columns, Follower::swiglu, bias, shared));
      }
    }
  }
  expect_right(configs);
}

TEST_F(GemmFollowersGpuTest, EveryFollowerAndType) {
  std::vector<GemmConfig> configs;
  for (const Follower follower :
       {Follower::none, Follower::swiglu, Follower::gelu, Follower::silu}) {
    for (const bool bf16 : {true, false}) {
      for (const OutputType output :
           {bf16 ? OutputType::bf16 : OutputType::fp16, OutputType::fp32}) {
        for (const bool overlap : {true, false}) {
          GemmConfig config = config_of_tile(128, 256, follower, true);
          config.bf16 = bf16;
          config.output = output;
          config.overlap_store = overlap;
          configs.push_back(config);
          if (follower == Follower::none) continue;
          config.bias = false;
          configs.push_back(config);
        }
      }
    }
  }
  expect_right(configs);
}

TEST_F(GemmFollowersGpuTest, TilesOfFewColumnsAndRows) {
  std::vector<GemmConfig> configs = {config_of_tile(64, 256, Follower::silu, true)};
  for (const int columns : {64, 96, 160, 224}) {
    configs.push_back(config_of_tile(128, columns, Follower::gelu, true));
  }
  expect_right(configs);
}

// The second range of a tile's K first, by a task that leaves its sums; then the first, which adds.
TEST_F(GemmFollowersGpuTest, FollowTheSumOfRangesOfK) {
  for (const Follower follower : {Follower::swiglu, Follower::gelu}) {
    for (const auto& [rows, columns] :
         {std::pair{128, 256}, {64, 256}, {128, 224}, {128, 128}, {128, 192}}) {
      GemmConfig config = config_of_tile(rows, columns, follower, true);
      config.splits = true;
      const device::GemmLayout layout = device::layout_of(config);
      const auto tile_bytes = static_cast<size_t>(rows * layout.stored_columns * 4);
      for (const Case& shape : {Case{129, 264, 136, 4}, Case{300, 520, 200, 6}}) {
        size_t tiles = 0;
        DeviceMemory left(size_t{64} << 20);
        expect_right(config, shape, [&](GemmTable& table) {
          table.splits.resize(table.blocks.size());
          for (size_t block = 0; block < table.blocks.size(); ++block) {
            std::vector<device::GemmTask> tasks;
            std::vector<device::GemmFollow> follows;
            for (size_t t = 0; t < table.blocks[block].size(); ++t, ++tiles) {
              device::GemmTask first = table.blocks[block][t], second = first;
              first.num_k = 1;
              second.first_k = 1;
              --second.num_k;
              second.num_destinations = 0;
              for (const bool is_first : {false, true}) {
                tasks.push_back(is_first ? first : second);
                follows.push_back(table.follows[block][t]);
                for (int half = 0; half < layout.halves; ++half) {
                  const size_t of_tile =
                      tiles * static_cast<size_t>(layout.halves) + static_cast<size_t>(half);
                  device::GemmSplit split{};
                  split.sums = left.address() + (of_tile * 2 + (is_first ? 0 : 1)) * tile_bytes;
                  split.row_bytes = static_cast<uint32_t>(layout.stored_columns * 4);
                  split.step = static_cast<uint32_t>(tile_bytes / 16);
                  split.rows = static_cast<uint16_t>(rows);
                  split.columns = static_cast<uint16_t>(layout.stored_columns);
                  split.ranges = is_first ? 2 : 1;
                  table.splits[block].push_back(split);
                }
              }
            }
            table.blocks[block] = tasks;
            table.follows[block] = follows;
          }
          ASSERT_LE((tiles + 1) * 4 * tile_bytes, left.num_bytes());
        });
      }
    }
  }
}

// The tile is number 0 of those that are added; sums of so few products are exact in bf16.
TEST_F(GemmFollowersGpuTest, FollowTheSumOverRanks) {
  for (const Follower follower : {Follower::none, Follower::gelu, Follower::silu}) {
    for (const bool bias : {false, true}) {
      if (follower == Follower::none && !bias) continue;
      for (const auto& [rows, columns] : {std::pair{128, 192}, {64, 256}, {128, 128}, {128, 96}}) {
        GemmConfig config = config_of_tile(rows, columns, follower, bias);
        config.adds = 1;
        for (const Case& shape : {Case{129, 264, 40, 4}, Case{300, 520, 40, 6}}) {
          DeviceMemory sent(static_cast<size_t>(shape.m * shape.n * 2));
          data_->fill(*stream_, sent.address(), shape.m * shape.n, DType::bf16,
                      device::Fill::integers, 9);
          const Matrix matrix{sent.address(), shape.m, shape.n, shape.n, DType::bf16};
          const auto add = [&](GemmTable& table) {
            const auto map = static_cast<uint16_t>(table.maps.size());
            table.maps.push_back(map_for_sums(matrix, config, config.tile_m));
            for (auto& block : table.blocks) {
              for (device::GemmTask& task : block) {
                task.sum_map = map;
                task.sum_column = task.b_row;
                task.sum_step = 1024;  // from the tile's own place to the only one in the map
                task.sum_row = task.a_row - task.sum_step;
                task.sum_own = 0;
                task.sum_end = 1;
                task.sum_box = static_cast<uint8_t>(config.tile_m / device::kChunkRows);
              }
            }
          };
          expect_right(config, shape, add, &sent);
        }
      }
    }
  }
}

// The same sum, as a residual that lies elsewhere: behind each task's destinations stands where.
TEST_F(GemmFollowersGpuTest, StandBesideAResidualThatLiesElsewhere) {
  for (const auto& [rows, columns] : {std::pair{128, 256}, {64, 256}, {128, 192}, {256, 128}}) {
    GemmConfig config = config_of_tile(rows, columns, Follower::none, false);
    config.adds = 1;
    for (const Case& shape : {Case{129, 264, 40, 4}, Case{300, 520, 40, 6}}) {
      DeviceMemory residual(static_cast<size_t>(shape.m * shape.n * 2));
      data_->fill(*stream_, residual.address(), shape.m * shape.n, DType::bf16,
                  device::Fill::integers, 9);
      const Matrix matrix{residual.address(), shape.m, shape.n, shape.n, DType::bf16};
      const auto add = [&](GemmTable& table) {
        const auto map = static_cast<uint16_t>(table.maps.size());
        table.maps.push_back(map_for_sums(matrix, config, config.tile_m));
        std::vector<device::GemmDestination> entries;
        for (auto& block : table.blocks) {
          for (device::GemmTask& task : block) {
            const auto first = table.destinations.begin() + task.first_destination;
            task.first_destination = static_cast<uint32_t>(entries.size());
            entries.insert(entries.end(), first, first + task.num_destinations);
            device::GemmDestination& entry = entries.emplace_back();
            entry.row = task.a_row;
            entry.column = task.b_row;
            entry.map = map;
            task.sum_elsewhere = 1;
            task.sum_step = 1;
            task.sum_end = 1;
            task.sum_box = static_cast<uint8_t>(config.tile_m / device::kChunkRows);
          }
        }
        table.destinations = std::move(entries);
      };
      expect_right(config, shape, add, &residual);
    }
  }
}

}  // namespace
}  // namespace stretto::cuda
