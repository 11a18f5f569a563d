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
#include "fabric/fabric.h"
#include "gpu/compiler.h"
#include "gpu/device.h"
#include "gpu/test_data.h"
#include "measure/spread.h"
#include "mover_work.h"
#include "report_file.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using cuda::DeviceMemory;

constexpr const char* kSource = R"(#include "stretto/device/mover.h"
using namespace stretto::device;
extern "C" __global__ void __launch_bounds__(kMoverThreads, 1)
stretto_mover(const __grid_constant__ MoverParams params) {
  run_mover<true>(params, blockIdx.x);
}
)";
constexpr int kRunsPerGraph = 5;

class MoverBench {
 public:
  explicit MoverBench(int ranks) : group_(fabric::in_process(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      group_->device(rank).make_current();
      Rank& mine = *ranks_.emplace_back(std::make_unique<Rank>());
      mine.from = DeviceMemory(MoverWork::kFromBytes);
      mine.to = DeviceMemory(MoverWork::kToBytes);
      const device::RunControl control{1'000'000'000, 0, 0, {}, nullptr};
      mine.control = DeviceMemory(sizeof(control));
      mine.control.upload(&control, sizeof(control));
      const std::string cubin = compiler_.compile(kSource, group_->device(rank).arch()).cubin;
      mine.kernel =
          std::make_unique<cuda::Kernel>(cubin, "stretto_mover", device::kMoverSharedBytes);
      // Whole numbers from 1 to 7, so that sums are exact.
      std::vector<uint16_t> values(MoverWork::kFromBytes / 2);
      for (size_t i = 0; i < values.size(); ++i) {
        const float value = static_cast<float>((i * 2654435761u >> 13) % 7 + 1);
        uint32_t bits;
        std::memcpy(&bits, &value, 4);
        values[i] = static_cast<uint16_t>(bits >> 16);
      }
      mine.from.upload(values.data(), MoverWork::kFromBytes);
      if (rank == 0) values_ = std::move(values);
    }
  }

  nlohmann::json run(const MoverWork& work, int blocks) {
    double bytes = 0;  // of each rank
    for (int rank = 0; rank < group_->ranks(); ++rank) {
      group_->device(rank).make_current();
      bytes = upload_tables(work, blocks, rank);
    }
    launch();
    const std::string wrong = work.first_wrong(values_, stored_by_rank_0());
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) times.push_back(time_us());
    const double us = runtime::median_of(times);
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
  struct Rank {
    DeviceMemory from, to, control, first_task, tasks, regions;
    device::MoverParams params{};
    std::unique_ptr<cuda::Kernel> kernel;
    cuda::Stream stream;
    cuda::Event start, stop;
    int blocks = 0;
  };

  // The bytes that the rank then loads and stores in a run.
  double upload_tables(const MoverWork& work, int blocks, int rank) {
    Rank& mine = *ranks_[static_cast<size_t>(rank)];
    std::vector<uint64_t> to;
    for (const int after : work.destinations) {
      to.push_back(ranks_[static_cast<size_t>((rank + after) % group_->ranks())]->to.address());
    }
    const MoverWorkTables tables(work, blocks, mine.from.address(), to);
    mine.first_task = cuda::upload(tables.first_task);
    mine.tasks = cuda::upload(tables.tasks);
    mine.regions = cuda::upload(tables.regions);
    mine.params = {};
    mine.params.first_task = mine.first_task.as<uint32_t>();
    mine.params.tasks = mine.tasks.as<device::MoverTask>();
    mine.params.regions = mine.regions.as<device::MoverRegion>();
    mine.params.signals.control = mine.control.as<device::RunControl>();
    mine.params.num_regions = static_cast<uint32_t>(tables.regions.size());
    mine.params.region_sets = 1;
    mine.blocks = blocks;
    return tables.num_bytes;
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

  std::vector<uint16_t> stored_by_rank_0() {
    std::vector<uint16_t> stored(MoverWork::kToBytes / 2);
    group_->device(0).make_current();
    ranks_[0]->to.download(stored.data(), MoverWork::kToBytes);
    return stored;
  }

  std::unique_ptr<fabric::Fabric> group_;
  cuda::Compiler compiler_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<uint16_t> values_;
};

int main_checked(int argc, char** argv) {
  Arguments arguments("The mover kernel alone");
  const ReportFile report("mover", arguments);
  int ranks = 2;
  std::vector<int> blocks = {1, 4, 8, 16};
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--blocks", blocks, "numbers of blocks");
  if (const auto code = arguments.parse(argc, argv)) return *code;

  if (ranks < 1) throw UsageError("--ranks is 1 or more");
  report.check_writable();

  std::vector<int> everyone, peers;
  for (int after = 0; after < ranks; ++after) {
    if (after > 0) peers.push_back(after);
    everyone.push_back((after + 1) % ranks);
  }
  const MoverWork works[] = {{"copy here", 1, {0}, false, false},
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
  for (const MoverWork& work : works) {
    if (work.destinations.empty()) continue;
    for (const int count : blocks) rows.push_back(bench.run(work, count));
  }
  report.write(nlohmann::json{{"ranks", ranks}, {"rows", rows}});
  return 0;
}

}  // namespace
}  // namespace stretto::bench

int main(int argc, char** argv) {
  return stretto::bench::run_program("mover_bench",
                                     [&] { return stretto::bench::main_checked(argc, argv); });
}
