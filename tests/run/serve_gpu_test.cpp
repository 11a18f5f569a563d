// Runs of fewer rows than their plan's on GPUs: right for row counts that change from call to call,
// from one captured graph too, with slow ranks; rows beyond the run's are left alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "gpu_plans.h"
#include "lower/plan_of.h"
#include "plan_cases.h"
#include "plan_server.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

// A single row, fewer rows than ranks, ragged ones, whole shards, all.
std::vector<int64_t> row_counts(const Segment& op) {
  const int64_t m = op.m;
  const int64_t ranks = op.ranks;
  const int64_t few = std::min<int64_t>(m, 65);
  return {m, 1, m - 1, m / 2 + 3, std::max<int64_t>(1, ranks - 1), few, m / ranks, m / 2 + 1, 2, m};
}

// What GPU memory may say besides: nothing to do.
std::vector<int64_t> row_counts_in_memory(const Segment& op) {
  std::vector<int64_t> rows = row_counts(op);
  rows.insert(rows.begin() + 3, 0);
  rows.insert(rows.begin() + 1, {0, 0});
  return rows;
}

class ServeOnGpus : public testing::TestWithParam<PlanCase> {
 protected:
  void SetUp() override {
    const PlanCase& c = GetParam();
    if (const std::string why = why_not_here(c.op, c.schedule); !why.empty()) STRETTO_SKIP(why);
  }
};

TEST_P(ServeOnGpus, RowsOfTheCall) {
  Server server(GetParam());
  uint64_t seed = 1;
  for (const int64_t rows : row_counts(*server.plan().op.only_product())) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    server.prepare(rows, ++seed);
    server.on_all([&](int rank) {
      server.runner().delay(rank, (seed * 7919 + static_cast<uint64_t>(rank) * 104729) % 200'000);
      server.runner().enqueue(rank, server.runner().stream(rank).handle(),
                              {static_cast<int32_t>(rows), 0});
    });
    EXPECT_EQ(server.wrong(), "");
    if (HasFailure()) return;
  }
}

TEST_P(ServeOnGpus, OneGraphServesAllRowCounts) {
  Server server(GetParam());
  auto graphs = server.capture();
  uint64_t seed = 100;
  for (const int64_t rows : row_counts_in_memory(*server.plan().op.only_product())) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    server.prepare(rows, ++seed);
    for (int launch = 0; launch < 3; ++launch) {
      server.on_all([&](int rank) {
        server.runner().delay(rank, (seed * 7919 + static_cast<uint64_t>(rank) * 104729) % 100'000);
        graphs[static_cast<size_t>(rank)]->launch(server.runner().stream(rank));
      });
    }
    EXPECT_EQ(server.wrong(), "");
    if (HasFailure()) break;
  }
  server.drop(graphs);
}

// Rows that the host says, and rows in memory by a graph and by calls that may have fewer at the
// most than the plan: in any order, without waiting in between. None has more than the last, whose
// result is looked at, so what lies behind that is left alone by all.
TEST_P(ServeOnGpus, CallsOfBothKindsTakeTurns) {
  struct Turn {
    enum class By { host, graph, memory } by;
    int64_t rows, most;
  };
  Server server(GetParam());
  auto graphs = server.capture();
  const int64_t m = server.plan().op.rows();
  uint64_t seed = 200;
  for (const int64_t rows : {m, int64_t{1}, std::min<int64_t>(m, 61), m / 2 + 3, m - 1, m}) {
    SCOPED_TRACE(fmt::format("{} rows", rows));
    server.prepare(rows, ++seed);
    std::mt19937_64 random(seed);
    const auto up_to = [&](int64_t first, int64_t last) {
      return std::uniform_int_distribution<int64_t>(first, last)(random);
    };
    std::vector<Turn> turns;
    for (int i = 0; i < 12; ++i) {
      const auto by = static_cast<Turn::By>(up_to(0, 2));
      const int64_t count = up_to(by == Turn::By::host ? 1 : 0, rows);
      turns.push_back({by, count, up_to(std::max<int64_t>(1, count), m)});
    }
    turns.push_back({seed % 2 == 0 ? Turn::By::graph : Turn::By::memory, rows, rows});
    server.on_all([&](int rank) {
      for (const Turn& turn : turns) {
        const auto late = static_cast<uint64_t>(rank + 1) * static_cast<uint64_t>(turn.most) * 7919;
        server.runner().delay(rank, late % 50'000);
        if (turn.by != Turn::By::host) server.write_rows(rank, turn.rows);
        if (turn.by == Turn::By::graph) {
          graphs[static_cast<size_t>(rank)]->launch(server.runner().stream(rank));
        } else if (turn.by == Turn::By::memory) {
          server.enqueue(rank, {static_cast<int32_t>(turn.most), server.rows_at(rank)});
        } else {
          server.enqueue(rank, {static_cast<int32_t>(turn.rows), 0});
        }
      }
    });
    EXPECT_EQ(server.wrong(), "");
    if (HasFailure()) break;
  }
  server.drop(graphs);
}

std::vector<PlanCase> cases() {
  std::vector<PlanCase> all;
  for (const int ranks : {1, 2, 4, 8}) {
    const auto add = [&](const char* kind, const char* sizes, const char* schedule,
                         const char* dtype = "bf16") {
      all.push_back(
          {fmt::format("{} {} ranks={} dtype={}", kind, sizes, ranks, dtype), schedule, ranks});
    };
    for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
      add(kind, "m=1024 n=1024 k=512", "tiles,rows=bucket");
      if (ranks == 1) continue;
      add(kind, "m=840 n=1088 k=832", "tiles,rows=bucket");  // ragged tiles
      add(kind, "m=840 n=1088 k=832", "tiles,rows=bucket", "fp16");
      add(kind, "m=840 n=1088 k=832", "low-latency,rows=bucket");
      add(kind, "m=840 n=1088 k=832", "low-latency,rows=bucket", "fp16");
      add(kind, "m=64 n=1024 k=8192", "low-latency,rows=bucket");
      add(kind, "m=2048 n=1024 k=512", "low-latency,rows=bucket");
      add(kind, "m=1024 n=1024 k=512", "slices,rows=bucket");
      add(kind, "m=1024 n=1024 k=4096", "tiles,tile=128x128,split-k=2,rows=bucket");
      add(kind, "m=1024 n=1024 k=512", "tiles,mover=comm-blocks,comm-sms=8,rows=bucket,reuse=ack");
    }
    if (ranks == 1) continue;
    add("ag-gemm", "m=1024 n=1024 k=512", "decomposed,rows=bucket");
    add("ag-gemm", "m=1024 n=1024 k=4096", "tiles,tile=128x128,comm-sms=8,k-phases=4,rows=bucket");
    add("ag-gemm", "m=840 n=1088 k=832",
        "tiles,tile=64x128,mover=copy-engine,reuse=ack,k-phases=5,rows=bucket");
    // Kernels with register budgets of their own.
    add("ag-gemm", "m=512 n=1024 k=8192",
        "tiles,order=arrival,tile=128x128,comm-sms=12,split-k=4,rows=bucket");
    add("ag-gemm", "m=512 n=4096 k=4096", "tiles,tile=64x256,comm-sms=8,rows=bucket");
    add("ag-gemm", "m=512 n=4096 k=4096", "decomposed,tile=64x256,rows=bucket");
    add("gemm-rs", "m=1024 n=1024 k=512", "slices,tile=128x64,partials=fp32,rows=bucket");
    add("gemm-rs", "m=1024 n=1024 k=512", "decomposed,rows=bucket");
    add("gemm-rs", "m=1024 n=1024 k=512", "tiles,partials=fp32,rows=bucket");
    add("gemm-ar", "m=512 n=1024 k=512", "tiles,reduction=one-shot,rows=bucket");
  }
  for (const int ranks : {3, 5, 7}) {
    for (const char* kind : {"ag-gemm", "gemm-rs", "gemm-ar"}) {
      const std::string op = fmt::format("{} m=840 n={} k={} ranks={} dtype=bf16", kind,
                                         168 * ranks, 192 * ranks, ranks);
      all.push_back({op, "tiles,rows=bucket", ranks});
      all.push_back({op, "low-latency,rows=bucket", ranks});
      all.push_back({op, "tiles,mover=comm-blocks,comm-sms=4,rows=bucket,reuse=ack", ranks});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpu, ServeOnGpus, testing::ValuesIn(cases_here(cases())),
                         [](const auto& i) { return name_of_case(i); });

TEST(ServeOnGpusRefusal, SaysWhy) {
  if (const std::string why = why_not_here(2); !why.empty()) STRETTO_SKIP(why);
  const auto refusal = [](const std::string& schedule) -> std::string {
    // Shards of 20 rows share their tiles.
    const Plan plan = plan_here("gemm-rs m=40 n=256 k=256 ranks=2 dtype=bf16", schedule);
    try {
      PlanRunner runner(plan, shared_fabric(2), shared_compiler(), {.serves = true});
      runner.enqueue(0, runner.stream(0).handle(), {41, 0});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "served";
  };
  EXPECT_THAT(refusal("tiles"), testing::HasSubstr("rows=bucket cuts them"));
  EXPECT_THAT(refusal("sequential"), testing::HasSubstr("collectives move whole pieces"));
  EXPECT_THAT(refusal("tiles,rows=bucket"), testing::HasSubstr("serves 1 to 40, not 41"));
  EXPECT_THAT(refusal("low-latency,rows=bucket"), testing::HasSubstr("serves 1 to 40, not 41"));

  const Plan plan =
      plan_here("ag-gemm m=64 n=256 k=256 ranks=2 dtype=bf16", "low-latency,rows=bucket");
  PlanRunner runner(plan, shared_fabric(2), shared_compiler(),
                    {.serves = true, .rows_in_memory = false});
  EXPECT_THROW(runner.enqueue(0, runner.stream(0).handle(), {64, runner.buffer("a", 0)}),
               UsageError);
}

}  // namespace
}  // namespace stretto::runtime
