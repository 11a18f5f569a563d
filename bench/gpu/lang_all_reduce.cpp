// All-reduce of bf16, one-shot and two-shot, against NCCL.
#include "lang_bench.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using device::AllReduceArgs;

constexpr int kThreads = 512;
constexpr size_t kMaxOneShotBytes = size_t{1} << 20;

class AllReduceBench {
 public:
  AllReduceBench(LangBench& bench, size_t max_bytes)
      : bench_(bench),
        max_bytes_(max_bytes),
        input_(bench.team, max_bytes),
        output_(bench.team, max_bytes),
        state_(bench.team, 2 * 256 * sizeof(uint64)) {
    upload_whole_numbers(input_, max_bytes / 2);
    const size_t ranks = static_cast<size_t>(bench.team.ranks());
    slots_ = bench.group.allocate(
        "slots", std::max(4 * (max_bytes + ranks * 16), 2 * ranks * kMaxOneShotBytes), 0x80008000u);
    greetings_ = bench.group.allocate("greetings", 3 * ranks * 16, device::kNoGreeting);
  }

  Json time(const TeamKernel& kernel, int blocks, size_t bytes, bool one_shot) {
    bench_.group.refill(slots_);
    bench_.group.refill(greetings_);
    state_.clear();
    output_.clear();
    auto enqueue = [&](int rank) {
      kernel.launch(rank, blocks, kThreads, args(rank, bytes, one_shot));
    };
    for (int call = 0; call < 4; ++call) bench_.team.run(enqueue);
    bench_.group.check();
    verify(bytes);
    const Timing timing = bench_.team.time(enqueue);
    bench_.group.check();
    verify(bytes);
    Json row = {{"blocks", blocks}};
    row.update(to_json(timing));
    return row;
  }

  Json time_nccl(size_t bytes) {
    return to_json(bench_.team.time_nccl([&](int rank) {
      bench_.team.nccl().all_reduce(rank, bench_.team.stream(rank),
                                    reinterpret_cast<uint64_t>(input_.at<char>(rank)),
                                    reinterpret_cast<uint64_t>(output_.at<char>(rank)),
                                    static_cast<int64_t>(bytes / 2), DType::bf16);
    }));
  }

 private:
  AllReduceArgs<GpuBlock> args(int rank, size_t bytes, bool one_shot) const {
    const size_t most = one_shot ? kMaxOneShotBytes : max_bytes_;
    return {input_.at<const Vec16>(rank),
            output_.at<Vec16>(rank),
            bytes / 16,
            most / 16,
            bench_.group.at<Vec16>(rank, slots_),
            bench_.group.at<Vec16>(rank, greetings_),
            state_.at<uint64>(rank)};
  }

  void verify(size_t bytes) {
    bench_.team.each_rank([&](int rank) {
      const auto got = output_.download<uint16_t>(rank, 0, bytes / 2);
      for (size_t i = 0; i < got.size(); ++i) {
        float want = 0;
        for (int r = 0; r < bench_.team.ranks(); ++r) {
          want += whole_number_at(static_cast<uint64_t>(r) + 1, i);
        }
        if (got[i] != bf16_bits(want)) {
          throw SystemError(
              fmt::format("all-reduce of {} bytes: element {} on rank {} is {}, not "
                          "{}",
                          bytes, i, rank, bf16_value(got[i]), want));
        }
      }
    });
  }

  LangBench& bench_;
  size_t max_bytes_;
  PerRank input_, output_, state_;
  size_t slots_, greetings_;
};

}  // namespace

Json bench_all_reduce(LangBench& bench, const std::vector<int>& one_shot_blocks,
                      const std::vector<int>& two_shot_blocks, size_t max_bytes) {
  bench.group.release_all();
  const auto compile = [&](const char* shots) {
    const int in_flight = bench.team.ranks() <= 4 ? 4 : 8;
    return TeamKernel(bench,
                      {"kernels/all_reduce.h",
                       fmt::format("all_reduce_{}<Bf16x8, GpuBlock, {}>", shots, in_flight),
                       "AllReduceArgs<GpuBlock>"},
                      kThreads);
  };
  const TeamKernel one = compile("one_shot");
  const TeamKernel two = compile("two_shot");
  fmt::print("all-reduce: one-shot {} registers, two-shot {}\n", one.registers(), two.registers());
  fmt::print("{:>9} {:>8} {:>8} {:>14} {:>8} {:>8}\n", "bytes", "nccl", "isolated", "best", "us",
             "isolated");
  AllReduceBench work(bench, max_bytes);
  Json rows = Json::array();
  for (size_t bytes = 2048; bytes <= max_bytes; bytes *= 2) {
    Json row = {{"bytes", bytes}, {"nccl", work.time_nccl(bytes)}};
    row["one_shot"] = row["two_shot"] = Json::array();
    std::string best = "-", line;
    double best_us = 1e9, best_isolated = 0;
    auto add = [&](const TeamKernel& kernel, int blocks, const char* name, bool one_shot) {
      Json result = work.time(kernel, blocks, bytes, one_shot);
      line += fmt::format(" {}{}:{:.1f}", name[0], blocks, result["median_us"].get<double>());
      if (result["median_us"] < best_us) {
        best_us = result["median_us"];
        best_isolated = result["isolated_us"];
        best = fmt::format("{} x{}", name, blocks);
      }
      row[name].push_back(std::move(result));
    };
    if (bytes <= kMaxOneShotBytes) {
      for (int blocks : bench.team.blocks(one_shot_blocks)) add(one, blocks, "one_shot", true);
    }
    for (int blocks : bench.team.blocks(two_shot_blocks)) add(two, blocks, "two_shot", false);
    fmt::print("{:>9} {:>8.1f} {:>8.1f} {:>14} {:>8.1f} {:>8.1f} {}\n", bytes,
               row["nccl"]["median_us"].get<double>(), row["nccl"]["isolated_us"].get<double>(),
               best, best_us, best_isolated, line);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stretto::bench
