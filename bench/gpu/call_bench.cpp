// What a call of an operation outside a graph costs the host: of all ranks in one process, each
// with a thread of its own, or of one process a rank (under stretto launch, torchrun or mpirun).
// Every process prints one JSON object on a line.
#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "arguments.h"
#include "measure/operator_bench.h"
#include "serve/operation_on_memory.h"
#include "stretto/error.h"

using namespace stretto;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kRounds = 11, kCalls = 40;  // fewer than the driver takes without waiting

// The rows of call after call: as many each time, or one fewer until it is half of them.
int64_t rows_of(int64_t rows, int call, bool change) {
  return change ? rows - call % (rows / 2 + 1) : rows;
}

// The mean of a rank's calls, from an idle queue.
double call_us(Context& context, OperationOnMemory& operation, int rank, int64_t rows,
               bool change) {
  context.make_current(rank);
  const GpuStream stream = context.stream(rank);
  operation.run(rank, stream, rows);
  const auto start = Clock::now();
  for (int call = 0; call < kCalls; ++call) {
    operation.run(rank, stream, rows_of(rows, call, change));
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  return took.count() / kCalls;
}

// By local rank: the median over rounds.
std::vector<double> host_us(Context& context, OperationOnMemory& operation, int64_t rows,
                            bool change) {
  for (int call = 0; call < kCalls; ++call) operation.prepare(rows_of(rows, call, change));
  std::vector<std::vector<double>> times(static_cast<size_t>(context.num_local()));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> ranks;
    std::vector<std::exception_ptr> failures(times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      ranks.emplace_back([&, i] {
        try {
          times[i].push_back(call_us(context, operation, context.first_rank() + static_cast<int>(i),
                                     rows, change));
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
    operation.finish();
  }
  std::vector<double> medians;
  for (auto& of_rank : times) medians.push_back(runtime::spread_of(std::move(of_rank)).median);
  return medians;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments("What a call costs the host");
  int ranks = 2;
  int64_t n = 8192, k = 8192;
  std::vector<int> rows = {1, 64, 512};
  std::vector<std::string> schedules = {"auto"};
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--m", rows, "rows of a call");
  arguments.add("--n", n, "columns of the result");
  arguments.add("--k", k, "length of the sums");
  arguments.add("--schedules", schedules, "auto or presets, served in buckets");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  return bench::run_program("call_bench", [&] {
    if (rows.empty() || *std::min_element(rows.begin(), rows.end()) < 1) {
      throw UsageError("--m names at least one row count, of 1 or more");
    }
    Context context(ranks);
    Json json = {{"ranks", ranks},
                 {"first_rank", context.first_rank()},
                 {"ranks_a_process", context.num_local()},
                 {"n", n},
                 {"k", k},
                 {"calls", Json::array()}};
    for (const ProductKind kind : {kAgGemm, kGemmRs, kGemmAr}) {
      for (const std::string& schedule : schedules) {
        OperationOnMemory operation(context, {kind, n, k, DType::bf16},
                                    *std::max_element(rows.begin(), rows.end()),
                                    {.schedule = schedule});
        for (const int m : rows) {
          operation.prepare(m);
          json["calls"].push_back({{"operator", to_string(kind)},
                                   {"m", m},
                                   {"schedule", operation.schedule(m)},
                                   {"host_us", host_us(context, operation, m, false)},
                                   {"changing_rows_us", host_us(context, operation, m, true)}});
        }
      }
    }
    std::cout << json.dump() + "\n" << std::flush;
    return 0;
  });
}
