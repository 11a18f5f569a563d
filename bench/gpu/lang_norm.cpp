// All-reduce + residual + RMSNorm in one kernel, against NCCL's all-reduce and a fused norm.
#include <algorithm>
#include <string_view>

#include "norm_bench.h"

namespace stretto::bench {
namespace {

constexpr int kLeastChunkTokens = 512;

}  // namespace

Json bench_all_reduce_norm(LangBench& bench, const std::vector<int>& hidden,
                           const std::vector<int>& tokens, const std::vector<int>& norm_blocks) {
  bench.group.release_all();
  const auto most = [](const std::vector<int>& v) {
    return static_cast<size_t>(*std::max_element(v.begin(), v.end()));
  };
  NormBench work(bench, most(hidden) * most(tokens) * 2, most(hidden) * 2);
  fmt::print("{:>6} {:>6} {:>10} {:>18} {:>8} {:>8}\n", "hidden", "tokens", "nccl+norm", "best",
             "us", "ratio");
  Json rows = Json::array();
  for (int columns : hidden) {
    for (int count : tokens) {
      work.set_shape(static_cast<size_t>(count), static_cast<size_t>(columns));
      Json row = {{"hidden", columns}, {"tokens", count}, {"nccl_norm", work.time_nccl()}};
      std::string best, line;
      double best_us = 1e9;
      auto add = [&](const char* name, Json result) {
        const double us = result["median_us"];
        line += fmt::format(" {}{}:{:.1f}", name == std::string_view("own_rows") ? 'r' : name[0],
                            result["blocks"].get<int>(), us);
        if (us < best_us) {
          best_us = us;
          best = fmt::format("{} x{}", name, result["blocks"].get<int>());
        }
        row[name].push_back(std::move(result));
      };
      if (count <= kMostOneShotTokens) {
        for (int blocks : bench.team.blocks(norm_blocks))
          add("one_shot", work.time_one_shot(blocks));
      }
      for (int blocks : bench.team.blocks(norm_blocks)) {
        add("two_shot", work.time_two_shot(blocks));
        add("own_rows", work.time_own_rows(blocks));
      }
      if (count >= kLeastChunkTokens) {
        for (int blocks : bench.team.blocks({16, 32, 64, 128})) {
          add("chunks", work.time_chunks(blocks, count >= 1024 ? 2 : 1));
        }
      }
      const double nccl = row["nccl_norm"]["median_us"];
      fmt::print("{:>6} {:>6} {:>10.1f} {:>18} {:>8.1f} {:>8.2f} {}\n", columns, count, nccl, best,
                 best_us, nccl / best_us, line);
      std::fflush(stdout);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace stretto::bench
