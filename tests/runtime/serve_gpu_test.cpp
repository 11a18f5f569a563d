// Runs of fewer rows than their plan's on GPUs: right for row counts that change from call to call,
// from one captured graph too, with slow ranks; rows beyond the run's are left alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cuda/graph.h"
#include "emu/output_check.h"
#include "emu/shared_reference.h"
#include "gpu_plans.h"
#include "lower/plan_of.h"
#include "plan_cases.h"
#include "stretto/error.h"
#include "stretto/serve.h"

namespace stretto::runtime {
namespace {

using cuda::check;
using cuda::driver;

// A runner of a plan that serves, and its ranks' memory seen from the host.
class Server {
 public:
  explicit Server(const PlanCase& c)
      : plan_(plan_here(c.op, c.schedule)),
        fabric_(shared_fabric(c.ranks)),
        runner_(plan_, fabric_, shared_compiler(), {.serves = true}) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      rows_at_.emplace_back(sizeof(uint64_t));  // what a stream writes
    }
  }
  ~Server() {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      rows_at_[static_cast<size_t>(rank)] = {};
    }
  }

  const Plan& plan() const { return plan_; }
  PlanRunner& runner() { return runner_; }
  cuda::DevicePtr rows_at(int rank) const { return rows_at_[static_cast<size_t>(rank)].address(); }

  // Poison everywhere, then the inputs of the operator with so many rows, and the row count.
  void prepare(int64_t rows, uint64_t seed) {
    op_ = plan_.op;
    op_.m = rows;
    data_ = {Fill::integers, seed};
    const auto count = static_cast<int32_t>(rows);
    on_all([&](int rank) {
      runner_.memory().poison(rank, runner_.stream(rank));
      runner_.stream(rank).synchronize();
      for (const auto& [name, input] : {std::pair{"a", Input::a}, std::pair{"b", Input::b}}) {
        if (rows == 0) break;
        const auto values = reference_->input(op_, data_, input, rank);
        if (!values->empty()) {
          cuda::copy_to_gpu(runner_.buffer(name, rank), values->data(), values->size());
        }
      }
      cuda::copy_to_gpu(rows_at(rank), &count, sizeof(count));
    });
  }

  // In the order of the rank's stream.
  void write_rows(int rank, int64_t rows) {
    check(driver().stream_write_value(runner_.stream(rank).handle(), rows_at(rank),
                                      static_cast<uint64_t>(rows), 0),
          "write in a stream");
  }

  // A graph a rank, whose rows stand in memory.
  std::vector<std::unique_ptr<cuda::Graph>> capture() {
    std::vector<std::unique_ptr<cuda::Graph>> graphs;
    on_all([&](int rank) {
      const cuda::Stream& stream = runner_.stream(rank);
      graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
        enqueue(rank, {0, rows_at(rank)});
      }));
    });
    return graphs;
  }
  void drop(std::vector<std::unique_ptr<cuda::Graph>>& graphs) const {
    on_all([&](int rank) { graphs[static_cast<size_t>(rank)].reset(); });
  }
  // As many runs as a graph has.
  void enqueue(int rank, const CallRows& rows) {
    for (int run = 0; run < runner_.runs_per_graph(); ++run) {
      runner_.enqueue(rank, runner_.stream(rank).handle(), rows);
    }
  }

  template <typename Work>
  void on_all(const Work& work) const {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      fabric_.device(rank).make_current();
      work(rank);
    }
  }

  // Waits for the run; what is wrong with its outputs, or nothing.
  std::string wrong() {
    runner_.finish();
    Plan served = plan_;
    served.op = op_;
    emu::OutputCheck check_output(served);
    std::string touched;
    std::vector<std::vector<std::byte>> outputs;
    on_all([&](int rank) {
      const uint16_t out = plan_.find_buffer("out").value();
      std::vector<std::byte> all(runner_.memory().num_bytes(out));
      cuda::copy_from_gpu(all.data(), runner_.buffer("out", rank), all.size());
      const Slice slice = output_slice(op_, rank);
      const auto used =
          op_.m == 0 ? 0 : static_cast<size_t>(slice.rows() * slice.cols() * num_bytes(op_.dtype));
      const auto other = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(used), all.end(),
                                      [](std::byte b) { return b != std::byte{0xff}; });
      if (other != all.end()) {
        touched +=
            fmt::format("rank {} wrote byte {} of {} used; ", rank, other - all.begin(), used);
      }
      outputs.push_back(std::move(all));
    });
    if (op_.m == 0) return touched;
    const auto expected = reference_->expected(op_, data_, emu::roundings_of(plan_), 0, op_.m);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      check_output.compare(0, rank, outputs[static_cast<size_t>(rank)].data(), *expected);
    }
    if (check_output.wrong_elements == 0) return touched;
    return touched +
           fmt::format("{} wrong, {}", check_output.wrong_elements, check_output.first_wrong);
  }

 private:
  Plan plan_;
  fabric::Fabric& fabric_;
  PlanRunner runner_;
  std::vector<cuda::DeviceMemory> rows_at_;
  std::shared_ptr<SharedReference> reference_ = make_shared_reference();
  Operator op_;
  InputData data_;
};

// A single row, fewer rows than ranks, ragged ones, whole shards, all.
std::vector<int64_t> row_counts(const Operator& op) {
  const int64_t m = op.m;
  const int64_t ranks = op.ranks;
  const int64_t few = std::min<int64_t>(m, 65);
  return {m, 1, m - 1, m / 2 + 3, std::max<int64_t>(1, ranks - 1), few, m / ranks, m / 2 + 1, 2, m};
}

// What GPU memory may say besides: nothing to do.
std::vector<int64_t> row_counts_in_memory(const Operator& op) {
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
  for (const int64_t rows : row_counts(server.plan().op)) {
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
  for (const int64_t rows : row_counts_in_memory(server.plan().op)) {
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
  const int64_t m = server.plan().op.m;
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

INSTANTIATE_TEST_SUITE_P(Gpu, ServeOnGpus, testing::ValuesIn(cases()),
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
