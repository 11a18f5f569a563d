// Tasks of the mover kernel that norm, against a reference in double precision, on a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpu/device_types.h"
#include "gpu/gpu_fixture.h"
#include "gpu/sync_kernels.h"
#include "tables/mover_table.h"

namespace stretto::cuda {
namespace {

using device::MoverTask;
using device::MoverType;

constexpr uint8_t kPoison = 0xff;
constexpr float kEpsilon = 1e-5f;

struct Case {
  int64_t rows, columns;
  int sources;
  int margin = 8;            // columns between rows
  int64_t tile_columns = 0;  // the first source lies in tiles of so many; 0: in rows
};

double value_of(const std::string& bytes, int64_t at, DType dtype) {
  const auto i = static_cast<size_t>(at);
  if (dtype == DType::fp32) return reinterpret_cast<const float*>(bytes.data())[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(bytes.data())[i];
  return dtype == DType::bf16 ? device::Bf16::widen(bits) : device::Fp16::widen(bits);
}

class NormMoverGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    kernel_ = std::make_unique<Kernel>(compiler_.compile(mover_source(true), device_->arch()).cubin,
                                       "stretto_mover", device::kMoverSharedBytes);
    pass_ = std::make_unique<Kernel>(compiler_.compile(pass_source(), device_->arch()).cubin,
                                     "stretto_pass", 0);
  }

  static std::string bytes_of(const DeviceMemory& memory) {
    std::string bytes(memory.num_bytes(), '\0');
    memory.download(bytes.data(), bytes.size());
    return bytes;
  }

  // Sums of whole numbers, stored once, and their norms, stored twice, with tasks between that add
  // and copy, in blocks that share the rows.
  void expect_right(const Case& shape, DType from, DType to, DType weights, bool stores_sums,
                    int blocks, int64_t rows_of_task) {
    const auto [rows, columns, sources, margin, wide] = shape;
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " of " +
                 std::to_string(sources) + ", margin " + std::to_string(margin) + ", tiles of " +
                 std::to_string(wide) + ", " + std::string(to_string(from)) + " to " +
                 std::string(to_string(to)));
    const int64_t stride = columns + margin;
    const int64_t tiles = wide == 0 ? 0 : (columns + wide - 1) / wide;
    const auto from_size = static_cast<uint64_t>(num_bytes(from));
    const auto to_size = static_cast<uint64_t>(num_bytes(to));
    DeviceMemory source(static_cast<size_t>(sources * rows * stride) * from_size);
    // Tile below tile, each of all rows.
    DeviceMemory packed(static_cast<size_t>(std::max<int64_t>(1, tiles * rows * wide)) * from_size);
    DeviceMemory weight(static_cast<size_t>(columns) * static_cast<size_t>(num_bytes(weights)));
    DeviceMemory results(4 * static_cast<size_t>(rows * stride) * to_size);
    data_->fill(*stream_, source.address(), sources * rows * stride, from, device::Fill::integers,
                7);
    data_->fill(*stream_, packed.address(), tiles * rows * wide, from, device::Fill::integers, 9);
    data_->fill(*stream_, weight.address(), columns, weights, device::Fill::normal, 8);
    check(driver().fill_bytes(results.address(), kPoison, results.num_bytes(), stream_->handle()),
          "poison");

    MoverTable table;
    table.regions.resize(1);
    table.blocks.resize(static_cast<size_t>(blocks));
    // Sums, norms, norms again, and what a task between makes.
    const auto place = [&](int64_t result, int64_t row) {
      return device::MoverRegion{
          results.address() + static_cast<uint64_t>((result * rows + row) * stride) * to_size,
          static_cast<uint64_t>(stride) * to_size};
    };
    for (int64_t row = 0, t = 0; row < rows; row += rows_of_task, ++t) {
      const int64_t count = std::min(rows_of_task, rows - row);
      const auto add = [&](bool norms, const std::vector<int64_t>& to_results) {
        MoverTask task{};
        task.rows = static_cast<uint32_t>(count);
        task.columns = static_cast<uint32_t>(columns);
        task.first_region = static_cast<uint32_t>(table.regions[0].size());
        task.num_sources = static_cast<uint16_t>(sources);
        task.num_destinations = static_cast<uint16_t>(to_results.size());
        task.num_normed = norms ? 2 : 0;
        task.from = device_type<MoverType>(from);
        task.to = device_type<MoverType>(to);
        task.weights = device_type<MoverType>(weights);
        task.epsilon = kEpsilon;
        task.vectors = 1;
        if (tiles > 0) {
          task.num_sources = static_cast<uint16_t>(sources + tiles - 1);
          task.more_tiles = static_cast<uint16_t>(tiles - 1);
          task.tile_columns = static_cast<uint16_t>(wide);
        }
        for (int64_t tile = 0; tile < tiles; ++tile) {
          table.regions[0].push_back(
              {packed.address() + static_cast<uint64_t>((tile * rows + row) * wide) * from_size,
               static_cast<uint64_t>(wide) * from_size});
        }
        for (int s = tiles > 0 ? 1 : 0; s < sources; ++s) {
          table.regions[0].push_back(
              {source.address() + static_cast<uint64_t>((s * rows + row) * stride) * from_size,
               static_cast<uint64_t>(stride) * from_size});
        }
        for (const int64_t result : to_results) table.regions[0].push_back(place(result, row));
        if (norms) table.regions[0].push_back({weight.address(), 0});
        table.blocks[static_cast<size_t>(t % blocks)].push_back(task);
      };
      add(true, stores_sums ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{1, 2});
      add(false, {3});
    }
    const DeviceMoverTable on_device(table, {});
    kernel_->launch(*stream_, on_device.num_blocks(), device::kMoverThreads, 1,
                    &on_device.params());
    stream_->synchronize();
    const std::string of_tiles = bytes_of(packed);
    check_results(bytes_of(source), of_tiles, bytes_of(weight), bytes_of(results), shape, from, to,
                  weights, stores_sums);
    if (columns > device::kPassColumns || tiles > 0) return;
    check(driver().fill_bytes(results.address(), kPoison, results.num_bytes(), stream_->handle()),
          "poison");
    const device::PassParams pass = on_device.pass_params(on_device.params());
    pass_->launch(*stream_, on_device.num_pass_blocks(), device::kPassThreads, 1, &pass);
    stream_->synchronize();
    SCOPED_TRACE("a pass");
    check_results(bytes_of(source), of_tiles, bytes_of(weight), bytes_of(results), shape, from, to,
                  weights, stores_sums);
  }

  static void check_results(const std::string& source, const std::string& packed,
                            const std::string& weight, const std::string& got, const Case& shape,
                            DType from, DType to, DType weights, bool stores_sums) {
    const auto [rows, columns, sources, margin, wide] = shape;
    const int64_t stride = columns + margin;
    const auto size = static_cast<size_t>(num_bytes(to));
    const double unit = to == DType::bf16 ? 1.0 / 256 : to == DType::fp16 ? 1.0 / 2048 : 0;
    std::vector<double> sums(static_cast<size_t>(columns));
    int64_t wrong = 0, changed = 0;
    const auto note = [&](int64_t result, int64_t row, int64_t column, double seen, double right) {
      if (++wrong == 1) {
        ADD_FAILURE() << "result " << result << " row " << row << " column " << column << ": "
                      << seen << ", not " << right;
      }
    };
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (int64_t column = 0; column < columns; ++column) {
        double& sum = sums[static_cast<size_t>(column)] = 0;
        if (wide > 0) {
          sum += value_of(packed, (column / wide * rows + row) * wide + column % wide, from);
        }
        for (int s = wide > 0 ? 1 : 0; s < sources; ++s) {
          sum += value_of(source, (s * rows + row) * stride + column, from);
        }
        squares += sum * sum;
      }
      const double factor = 1 / std::sqrt(squares / static_cast<double>(columns) + kEpsilon);
      for (int64_t result = 0; result < 4; ++result) {
        for (int64_t column = 0; column < stride; ++column) {
          const int64_t at = (result * rows + row) * stride + column;
          if (column >= columns || (result == 0 && !stores_sums)) {
            for (size_t i = 0; i < size; ++i) {
              changed += static_cast<uint8_t>(got[static_cast<size_t>(at) * size + i]) != kPoison;
            }
            continue;
          }
          const double sum = sums[static_cast<size_t>(column)];
          const double seen = value_of(got, at, to);
          const bool is_sum = result == 0 || result == 3;
          const double right = is_sum ? sum : sum * factor * value_of(weight, column, weights);
          const double most = is_sum ? 0 : std::abs(right) * (unit * 1.001 + 0x1p-18) + 0x1p-25;
          if (!(std::abs(seen - right) <= most)) note(result, row, column, seen, right);
        }
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(changed, 0) << "bytes written beside the results";
  }

  std::unique_ptr<Kernel> kernel_, pass_;
};

TEST_F(NormMoverGpuTest, RowsOfEveryLength) {
  for (const int64_t columns :
       {8, 64, 328, 1000, 1024, 1032, 2048, 4096, 4104, 5120, 8192, 8200, 16384, 20000}) {
    for (const int64_t rows : {1, 7, 33}) {
      for (const int margin : {0, 8}) {
        expect_right({rows, columns, 1, margin}, DType::bf16, DType::bf16, DType::bf16, false, 2,
                     5);
        expect_right({rows, columns, 3, margin}, DType::bf16, DType::bf16, DType::bf16, true, 3,
                     17);
      }
    }
  }
}

TEST_F(NormMoverGpuTest, EveryTypeOfRowsAndWeights) {
  for (const int64_t columns : {520, 4096, 7168, 12288}) {
    for (const DType weights : {DType::bf16, DType::fp16, DType::fp32}) {
      for (const DType from : {DType::bf16, DType::fp16, DType::fp32}) {
        for (const DType to : {DType::bf16, DType::fp16, DType::fp32}) {
          if (from != DType::fp32 && to != from) continue;
          expect_right({21, columns, 2}, from, to, weights, true, 2, 4);
        }
      }
    }
  }
}

TEST_F(NormMoverGpuTest, ManySourcesAndRows) {
  expect_right({700, 4096, 9}, DType::bf16, DType::bf16, DType::bf16, true, 132, 2);
  expect_right({300, 8192, 9, 0}, DType::bf16, DType::bf16, DType::bf16, true, 40, 8);
  expect_right({64, 16384, 9}, DType::bf16, DType::bf16, DType::bf16, true, 16, 4);
  expect_right({4096, 128, 1, 0}, DType::bf16, DType::bf16, DType::bf16, false, 8, 512);
}

// The first source tile by tile, with a narrower last one, and others in rows or none.
TEST_F(NormMoverGpuTest, RestoresRowsOfTiles) {
  for (const int64_t wide : {8, 64, 192, 256}) {
    for (const int64_t columns : {8, 328, 1000, 4096, 8192, 8200, 20000}) {
      for (const int64_t rows : {1, 7, 33}) {
        expect_right({rows, columns, 1, 8, wide}, DType::bf16, DType::bf16, DType::bf16, true, 2,
                     5);
        expect_right({rows, columns, 2, 0, wide}, DType::bf16, DType::bf16, DType::bf16, true, 3,
                     17);
      }
    }
  }
  expect_right({21, 4096, 2, 8, 128}, DType::fp16, DType::fp16, DType::fp16, true, 2, 4);
  expect_right({21, 4096, 2, 8, 128}, DType::fp32, DType::fp32, DType::fp32, true, 2, 4);
  expect_right({700, 8192, 2, 0, 256}, DType::bf16, DType::bf16, DType::bf16, true, 132, 6);
}

}  // namespace
}  // namespace stretto::cuda
