// Barriers of the device language: of all ranks, of a team of two, of one.
#include "lang_bench.h"

namespace stretto::bench {
namespace {

constexpr int kThreads = 256;
constexpr device::uint32 kMany = 21;

// Arguments in a vector: how many times, and which barrier.
constexpr const char* kKernel = R"([](GpuBlock& block, const Vec16& args) {
  Shmem shmem(block);
  Team pair, alone;
  const int me = shmem.my_pe();
  shmem.team_split_strided(team_world(), me / 2 * 2, 1, 2, &pair);
  shmem.team_split_strided(team_world(), me, 0, 1, &alone);
  for (uint32 i = 0; i < args.word[0]; ++i) {
    bool good = true;
    if (args.word[1] == 0) good = shmem.sync_all_block();
    if (args.word[1] == 1) good = shmem.barrier_all_block();
    if (args.word[1] == 2) good = shmem.team_sync_block(pair);
    if (args.word[1] == 3) good = shmem.team_sync_block(alone);
    if (!good) return;
  }
})";

}  // namespace

Json bench_sync(LangBench& bench) {
  const TeamKernel kernel(bench, {"shmem.h", kKernel, "Vec16"}, kThreads);
  fmt::print("barriers: {} registers\n", kernel.registers());
  fmt::print("{:>14} {:>7} {:>8} {:>8} {:>8}\n", "barrier", "blocks", "call us", "isolated",
             "each");
  const char* const names[] = {"sync_all", "barrier_all", "team of 2", "team of 1"};
  Json rows = Json::array();
  for (device::uint32 which = 0; which < std::size(names); ++which) {
    if (which == 2 && bench.team.ranks() % 2 != 0) continue;
    for (int blocks : bench.team.blocks({1, 32})) {
      const auto time = [&](device::uint32 times) {
        const Timing timing = bench.team.time([&](int rank) {
          kernel.launch(rank, blocks, kThreads, Vec16{{times, which, 0, 0}});
        });
        bench.group.check();
        return timing;
      };
      const Timing one = time(1);
      const double each_us = (time(kMany).median_us - one.median_us) / (kMany - 1);
      Json row = {{"barrier", names[which]}, {"blocks", blocks}, {"each_us", each_us}};
      row.update(to_json(one));
      fmt::print("{:>14} {:>7} {:>8.1f} {:>8.1f} {:>8.2f}\n", names[which], blocks, one.median_us,
                 one.isolated_us, each_us);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace stretto::bench
