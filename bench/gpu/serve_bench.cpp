// What serving costs: making a bucket's plan, and a run of fewer rows against the bucket's and
// against kernels that do not serve. With --rows instead: runs of these rows, which the host says
// or memory, by each schedule. Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "arguments.h"
#include "core/text.h"
#include "fabric/fabric.h"
#include "gpu/test_data.h"
#include "measure/operator_bench.h"
#include "measure/run_graphs.h"
#include "run/plan_runner.h"
#include "run/rank_threads.h"
#include "serve/operation_on_memory.h"
#include "stretto/buckets.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/tune.h"

using namespace stretto;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kRunsPerGraph = 10, kRounds = 11;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Bench {
 public:
  Bench(int ranks, std::string schedule)
      : schedule_(std::move(schedule)), context_(ranks), fabric_(fabric::in_process(ranks)) {}

  // Runs of graphs, told by the host and by memory, where at most so many rows may stand, or
  // `max_rows`.
  Json told(const ProductShape& shape, int64_t max_rows, const std::vector<int>& counts) {
    Json json = {{"operator", to_string(shape.kind)}, {"n", shape.n}, {"k", shape.k}};
    json["schedules"] = Json::array();
    for (const std::string_view schedule : split(schedule_, ';')) {
      OperationOnMemory operation(context_, shape, max_rows, {.schedule = std::string(schedule)});
      fill(operation);
      Json by = {{"schedule", schedule}, {"runs", Json::array()}};
      for (const int rows : counts) {
        by["runs"].push_back({{"rows", rows},
                              {"host_us", run_us(operation, rows, std::nullopt)},
                              {"memory_us", run_us(operation, rows, rows)},
                              {"memory_of_most_us", run_us(operation, rows, max_rows)},
                              {"of_host", operation.schedule(rows)}});
      }
      json["schedules"].push_back(by);
    }
    return json;
  }

  Json measure(const ProductShape& shape, int64_t max_rows) {
    Json json = {{"operator", to_string(shape.kind)}, {"n", shape.n}, {"k", shape.k}};
    auto start = Clock::now();
    OperationOnMemory operation(context_, shape, max_rows, {.schedule = schedule_});
    json["first_bucket_ms"] = ms_since(start);
    fill(operation);
    json["buckets"] = Json::array();
    for (int64_t rows = max_rows / 2; rows >= 64; rows /= 2) {
      json["buckets"].push_back(bucket_ms(operation, rows));
    }
    json["auto_buckets"] = auto_buckets(shape, max_rows);
    const int64_t bucket = operation.room();
    json["bucket"] = bucket;
    json["fixed_us"] = fixed_us(operation.product(max_rows), bucket);
    json["served_us"] = Json::array();
    for (const int64_t rows : {max_rows, max_rows * 15 / 16, max_rows * 9 / 10, max_rows / 2}) {
      const double own = run_us(operation, rows, rows);
      const double in_largest = run_us(operation, rows, max_rows);
      json["served_us"].push_back(
          {{"rows", rows}, {"own_bucket", own}, {"largest_bucket", in_largest}});
    }
    return json;
  }

 private:
  // Random values, for power and clocks depend on them.
  void fill(const OperationOnMemory& operation) {
    const Segment op = operation.product(1);
    for (int rank = 0; rank < op.ranks; ++rank) {
      fill_rank(op, rank, operation.room(), operation.a(rank), operation.b(rank));
    }
  }
  void fill_rank(const Segment& op, int rank, int64_t all_rows, GpuAddress a, GpuAddress b) {
    context_.make_current(rank);
    const cuda::TestData data(fabric_->device(rank), compiler_);
    const cuda::Stream stream;
    const int64_t rows = op.makes_terms() ? all_rows : all_rows / op.ranks;
    data.fill(stream, a, rows * op.local_k(), op.dtype, device::Fill::normal, 1);
    data.fill(stream, b, op.local_n() * op.local_k(), op.dtype, device::Fill::normal, 2);
    stream.synchronize();
  }

  Json bucket_ms(OperationOnMemory& operation, int64_t rows) {
    const auto start = Clock::now();
    operation.prepare(rows);
    const double all_ms = ms_since(start);
    return {{"rows", bucket_of(operation.product(1).kind, context_.ranks(), rows)},
            {"ms_a_rank", all_ms / context_.num_local()}};
  }

  // What a server pays that leaves the schedule to `auto`, and what it gets. Of two operations the
  // second finds every kernel compiled.
  Json auto_buckets(const ProductShape& shape, int64_t max_rows) {
    Json json;
    for (int made = 0; made < 2; ++made) {
      json = Json::array();
      OperationOnMemory operation(context_, shape, max_rows, {.measure_ms = 0});
      for (int64_t rows = max_rows / 2; rows >= 64; rows /= 2) {
        json.push_back(bucket_ms(operation, rows));
        json.back()["schedule"] = operation.schedule(rows);
        json.back()["reason"] = operation.reason(rows);
      }
    }
    return json;
  }

  double graph_us(const runtime::RunGraphs::Enqueue& enqueue) {
    std::vector<std::unique_ptr<cuda::Stream>> owners;
    std::vector<const cuda::Stream*> streams;
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      owners.push_back(
          std::make_unique<cuda::Stream>(static_cast<cuda::StreamHandle>(context_.stream(rank))));
      streams.push_back(owners.back().get());
    }
    const runtime::RunGraphs graphs(*fabric_, streams, kRunsPerGraph, enqueue);
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) times.push_back(graphs.time_us());
    return runtime::median_of(times);
  }

  // `most`: how many rows memory may say there are; without it the host says them.
  double run_us(OperationOnMemory& operation, int64_t rows, std::optional<int64_t> most) {
    operation.prepare(most.value_or(rows));
    std::vector<cuda::DeviceMemory> counts;
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      context_.make_current(rank);
      const auto count = static_cast<int32_t>(rows);
      counts.push_back(cuda::DeviceMemory(sizeof(count)));
      counts.back().upload(&count, sizeof(count));
    }
    const double time = graph_us([&](int rank, const cuda::Stream& stream) {
      if (!most) return operation.run(rank, stream.handle(), rows);
      operation.run(rank, stream.handle(), counts[static_cast<size_t>(rank)].address(), *most);
    });
    operation.finish();
    for (int rank = 0; rank < context_.ranks(); ++rank) {
      context_.make_current(rank);
      counts[static_cast<size_t>(rank)] = {};
    }
    return time;
  }

  double fixed_us(Segment op, int64_t rows) {
    op.m = rows;
    const Machine machine = default_machine(op.ranks);
    const Schedule schedule = schedule_ == "auto"
                                  ? auto_schedule(op, machine, load_tuning()).schedule
                                  : parse_schedule(schedule_, op, machine);
    const Plan plan = lower(op, schedule, machine);
    runtime::PlanRunner runner(plan, *fabric_, compiler_);
    for (int rank = 0; rank < op.ranks; ++rank) {
      fill_rank(op, rank, rows, runner.buffer("a", rank), runner.buffer("b", rank));
    }
    return graph_us(
        [&](int rank, const cuda::Stream& stream) { runner.enqueue(rank, stream.handle()); });
  }

  std::string schedule_;
  Context context_;
  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments("What serving changing row counts costs");
  int ranks = 2;
  int64_t rows = 4096, n = 8192, k = 8192;
  std::string schedule = "tiles,rows=bucket";
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--m", rows, "rows of the largest run");
  arguments.add("--n", n, "columns of the result");
  arguments.add("--k", k, "length of the sums");
  arguments.add("--schedule", schedule,
                "auto, a preset or coordinates; with --rows several, separated by semicolons");
  std::vector<int> counts;
  arguments.add("--rows", counts, "only runs of these rows, told by the host and by memory");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  return bench::run_program("serve_bench", [&] {
    Bench bench(ranks, schedule);
    Json json = {{"ranks", ranks}, {"m", rows}, {"schedule", schedule}};
    json["results"] = Json::array();
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      const ProductShape shape{kind, n, k, DType::bf16};
      json["results"].push_back(counts.empty() ? bench.measure(shape, rows)
                                               : bench.told(shape, rows, counts));
    }
    std::cout << json.dump(1) << '\n';
    return 0;
  });
}
