// The mover kernel alone: bytes a second and SM, by number of blocks, for pushes and reductions.
//
//   mover_bench --ranks 2 --out FILE
//
// Every rank runs the same work at once. A figure is what a block loads and stores, in GB/s.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "core/file.h"
#include "cuda/compiler.h"
#include "cuda/device.h"
#include "cuda/test_data.h"
#include "fabric/fabric.h"
#include "stretto/device/mover_task.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;
using cuda::DevicePtr;
using device::MoverRegion;
using device::MoverTask;
using device::MoverType;

constexpr const char* kSource = R"(#include "stretto/device/mover.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kMoverThreads, 1)
stretto_mover(const __grid_constant__ MoverParams params) {
  run_mover<true>(params, blockIdx.x);
}
)";
constexpr int kRunsPerGraph = 5;
constexpr int kTileRows = 128, kTileColumns = 256, kColumns = 8192;

// A task's size and where its sources and destinations lie.
struct Work {
  std::string name;
  int sources;
  std::vector<int> destinations;  // ranks after one's own
  bool tiles;                     // 128 x 256 out of 8192 columns; else 128 KB in a row
  bool packed;                    // sources lie tile by tile
};

class MoverBench {
 public:
  explicit MoverBench(int ranks) : group_(fabric::in_process(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      group_->device(rank).make_current();
      Rank& mine = *ranks_.emplace_back(std::make_unique<Rank>());
      mine.from = DeviceMemory(kFromBytes);
      mine.to = DeviceMemory(kToBytes);
      const device::RunControl control{1'000'000'000, 0, 0, {}};
      mine.control = DeviceMemory(sizeof(control));
      mine.control.upload(&control, sizeof(control));
      const std::string cubin = compiler_.compile(kSource, group_->device(rank).arch()).cubin;
      mine.kernel =
          std::make_unique<cuda::Kernel>(cubin, "stretto_mover", device::kMoverSharedBytes);
      // Whole numbers from 1 to 7, so that sums are exact.
      std::vector<uint16_t> values(kFromBytes / 2);
      for (size_t i = 0; i < values.size(); ++i) {
        const float value = static_cast<float>((i * 2654435761u >> 13) % 7 + 1);
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        values[i] = static_cast<uint16_t>(bits >> 16);
      }
      mine.from.upload(values.data(), kFromBytes);
      if (rank == 0) values_ = std::move(values);
    }
  }

  nlohmann::json run(const Work& work, int blocks) {
    const int64_t tasks =
        work.tiles ? kToBytes / (kTileRows * kTileColumns * 2) : kToBytes / kPiece;
    double bytes = 0;
    for (int rank = 0; rank < group_->ranks(); ++rank) {
      group_->device(rank).make_current();
      bytes = make_tables(work, blocks, rank, tasks);
    }
    launch();
    const std::string wrong = check(work, tasks);
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.push_back(time_us());
    std::sort(times.begin(), times.end());
    const double us = times[times.size() / 2];
    const double per_block = bytes / us / 1e3 / blocks;
    fmt::print("{:28} {:3} blocks  {:8.1f} us  {:6.1f} GB/s a block  {:7.1f} GB/s  {}\n", work.name,
               blocks, us, per_block, per_block * blocks, wrong.empty() ? "right" : wrong);
    std::fflush(stdout);
    return {{"work", work.name},
            {"blocks", blocks},
            {"time_us", us},
            {"gb_per_s_a_block", per_block},
            {"right", wrong.empty()}};
  }

 private:
  static constexpr size_t kToBytes = size_t{32} << 20, kFromBytes = 8 * kToBytes;
  static constexpr int64_t kPiece = 131072;

  struct Rank {
    DeviceMemory from, to, control, first_task, tasks, regions;
    device::MoverParams params{};
    std::unique_ptr<cuda::Kernel> kernel;
    cuda::Stream stream;
    cuda::Event start, stop;
    int blocks = 0;
  };

  // Offsets in elements of task t's rectangle in the destination, and of source s of it.
  static int64_t to_offset(const Work& work, int64_t t) {
    if (!work.tiles) return t * kPiece / 2;
    constexpr int64_t kAcross = kColumns / kTileColumns;
    return t / kAcross * kTileRows * kColumns + t % kAcross * kTileColumns;
  }
  static int64_t from_offset(const Work& work, int64_t t, int s) {
    const int64_t slot = s * static_cast<int64_t>(kToBytes / 2);
    return slot + (work.packed ? t * kTileRows * kTileColumns : to_offset(work, t));
  }

  double make_tables(const Work& work, int blocks, int rank, int64_t num_tasks) {
    Rank& mine = *ranks_[static_cast<size_t>(rank)];
    std::vector<MoverTask> tasks;
    std::vector<MoverRegion> regions;
    std::vector<uint32_t> first;
    double bytes = 0;
    for (int block = 0; block < blocks; ++block) {
      first.push_back(static_cast<uint32_t>(tasks.size()));
      for (int64_t t = block; t < num_tasks; t += blocks) {
        MoverTask task{};
        task.rows = work.tiles ? kTileRows : 1;
        task.columns = work.tiles ? kTileColumns : kPiece / 2;
        task.num_sources = static_cast<uint16_t>(work.sources);
        task.num_destinations = static_cast<uint16_t>(work.destinations.size());
        task.from = task.to = MoverType::bf16;
        task.vectors = 1;
        task.first_region = static_cast<uint32_t>(regions.size());
        for (int s = 0; s < work.sources; ++s) {
          regions.push_back(
              {mine.from.address() + static_cast<uint64_t>(from_offset(work, t, s)) * 2,
               uint64_t{work.packed ? kTileColumns * 2u : kColumns * 2u}});
        }
        for (const int after : work.destinations) {
          const Rank& to = *ranks_[static_cast<size_t>((rank + after) % group_->ranks())];
          regions.push_back(
              {to.to.address() + static_cast<uint64_t>(to_offset(work, t)) * 2, kColumns * 2});
        }
        bytes += static_cast<double>(task.rows * task.columns * 2) *
                 static_cast<double>(task.num_sources + task.num_destinations);
        tasks.push_back(task);
      }
    }
    first.push_back(static_cast<uint32_t>(tasks.size()));
    mine.first_task = cuda::upload(first);
    mine.tasks = cuda::upload(tasks);
    mine.regions = cuda::upload(regions);
    mine.params = {};
    mine.params.first_task = mine.first_task.as<uint32_t>();
    mine.params.tasks = mine.tasks.as<MoverTask>();
    mine.params.regions = mine.regions.as<MoverRegion>();
    mine.params.signals.control = mine.control.as<device::RunControl>();
    mine.params.num_regions = static_cast<uint32_t>(regions.size());
    mine.params.region_sets = 1;
    mine.blocks = blocks;
    return bytes;
  }

  void launch() {
    for (int rank = 0; rank < group_->ranks(); ++rank) {
      group_->device(rank).make_current();
      Rank& mine = *ranks_[static_cast<size_t>(rank)];
      mine.start.record(mine.stream);
      for (int i = 0; i < kRunsPerGraph; ++i) {
        mine.kernel->launch(mine.stream, mine.blocks, device::kMoverThreads, 1, &mine.params);
      }
      mine.stop.record(mine.stream);
    }
    for (int rank = 0; rank < group_->ranks(); ++rank) {
      group_->device(rank).make_current();
      ranks_[static_cast<size_t>(rank)]->stream.synchronize();
    }
  }
  double time_us() {
    launch();
    double us = 0;
    for (const auto& rank : ranks_) {
      us = std::max(us, rank->stop.elapsed_us_since(rank->start) / kRunsPerGraph);
    }
    return us;
  }

  // The first wrong element of rank 0's destination; empty when there is none.
  std::string check(const Work& work, int64_t num_tasks) {
    if (work.destinations.empty()) return "";
    std::vector<uint16_t> found(kToBytes / 2);
    group_->device(0).make_current();
    ranks_[0]->to.download(found.data(), kToBytes);
    const int rows = work.tiles ? kTileRows : 1;
    const int columns = work.tiles ? kTileColumns : static_cast<int>(kPiece / 2);
    for (int64_t t = 0; t < num_tasks; ++t) {
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column) {
          float sum = 0;
          for (int s = 0; s < work.sources; ++s) {
            const int64_t at = from_offset(work, t, s) +
                               int64_t{row} * (work.packed ? kTileColumns : kColumns) + column;
            const uint32_t bits = uint32_t{values_[static_cast<size_t>(at)]} << 16;
            float value;
            std::memcpy(&value, &bits, 4);
            sum += value;
          }
          uint32_t bits;
          std::memcpy(&bits, &sum, 4);
          const int64_t at = to_offset(work, t) + int64_t{row} * kColumns + column;
          if (found[static_cast<size_t>(at)] != bits >> 16) {
            return fmt::format("wrong: task {} row {} column {}", t, row, column);
          }
        }
      }
    }
    return "";
  }

  std::unique_ptr<fabric::Fabric> group_;
  cuda::Compiler compiler_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<uint16_t> values_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("The mover kernel alone");
  std::string out, commit, date;
  int ranks = 2;
  std::vector<int> blocks = {1, 4, 8, 16};
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--blocks", blocks, "numbers of blocks");
  arguments.add("--out", out, "JSON file for the results");
  arguments.add("--commit", commit, "recorded with the results");
  arguments.add("--date", date, "recorded with the results");
  if (const auto code = arguments.parse(argc, argv)) return *code;

  if (ranks < 1) throw UsageError("--ranks is 1 or more");
  if (!out.empty()) check_writable(out);  // before the work whose result it is

  std::vector<int> everyone, peers;
  for (int after = 0; after < ranks; ++after) {
    if (after > 0) peers.push_back(after);
    everyone.push_back((after + 1) % ranks);
  }
  const Work works[] = {{"copy here", 1, {0}, false, false},
                        {"push to the next rank", 1, {1 % ranks}, false, false},
                        {"push to all peers", 1, peers, false, false},
                        {"push tiles to the next rank", 1, {1 % ranks}, true, false},
                        {"reduce 2", 2, {0}, true, false},
                        {"reduce 2 packed", 2, {0}, true, true},
                        {"reduce 4", 4, {0}, true, false},
                        {"reduce 8", 8, {0}, true, false},
                        {"reduce 8 packed", 8, {0}, true, true},
                        {"reduce 8 to all", 8, everyone, true, false}};
  MoverBench bench(ranks);
  nlohmann::json rows = nlohmann::json::array();
  for (const Work& work : works) {
    if (work.destinations.empty()) continue;
    for (const int count : blocks) rows.push_back(bench.run(work, count));
  }
  if (!out.empty()) {
    write_file(out, nlohmann::json{{"benchmark", "mover"},
                                   {"ranks", ranks},
                                   {"commit", commit},
                                   {"date", date},
                                   {"rows", rows}}
                            .dump(1) +
                        "\n");
  }
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("mover_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}
