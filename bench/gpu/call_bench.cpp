// What a call of an operation costs the host: with the rows and addresses of the call before, with
// rows that change, with addresses that no call has had, and in a graph; and what it costs to ask
// whether a call has failed. Of all ranks in one process, each with a thread of its own, or of one
// process a rank (under stretto launch, torchrun
// or mpirun). Every process prints one JSON object on a line.
#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "arguments.h"
#include "gpu/graph.h"
#include "measure/operator_bench.h"
#include "serve/operation_on_memory.h"
#include "stretto/error.h"

using namespace stretto;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kRounds = 11, kCalls = 40;  // fewer than the driver takes without waiting
constexpr size_t kStep = 256;             // from new addresses to the next ones

// The call of a rank with that number, which no other has.
using MakeCall = std::function<void(int rank, int64_t number)>;

// The rows of call after call: as many each time, or one fewer until it is half of them.
int64_t rows_of(int64_t rows, int64_t call, bool change) {
  return change ? rows - call % (rows / 2 + 1) : rows;
}

// Tensors of an operation, at addresses of their own in every call.
class NewAddresses {
 public:
  NewAddresses(Context& context, const OperationOnMemory& operation)
      : first_rank_(context.first_rank()) {
    const Operator op = operation.at(operation.room());
    for (int i = 0; i < context.num_local(); ++i) {
      auto& of_rank = tensors_.emplace_back();
      for (const CallerTensor& one : caller_tensors(op)) {
        const Slice slice = slice_of(op, one.tensor, one.held, first_rank_ + i);
        const auto elements = static_cast<size_t>(slice.rows() * slice.cols());
        const size_t bytes = elements * static_cast<size_t>(num_bytes(op.dtype));
        of_rank.push_back({op.tensor(one.tensor).name,
                           context.allocate(first_rank_ + i, bytes + kStep * kRounds * kCalls)});
      }
    }
  }

  std::vector<CallTensor> of(int rank, int64_t number) const {
    std::vector<CallTensor> tensors = tensors_[static_cast<size_t>(rank - first_rank_)];
    for (CallTensor& one : tensors) {
      one.address += kStep * static_cast<size_t>(number % (kRounds * kCalls));
    }
    return tensors;
  }

 private:
  int first_rank_;
  std::vector<std::vector<CallTensor>> tensors_;  // by local rank
};

// The mean of a rank's calls, from an idle queue.
double call_us(Context& context, int rank, int round, int64_t calls, const MakeCall& make) {
  context.make_current(rank);
  const auto start = Clock::now();
  for (int64_t call = 0; call < calls; ++call) make(rank, round * calls + call);
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  return took.count() / static_cast<double>(calls);
}

// By local rank: the median over rounds, but for a first one that counts nowhere.
std::vector<double> host_us(Context& context, OperationOnMemory& operation, int64_t calls,
                            const MakeCall& make) {
  std::vector<std::vector<double>> times(static_cast<size_t>(context.num_local()));
  for (int round = 0; round <= kRounds; ++round) {
    std::vector<std::thread> ranks;
    std::vector<std::exception_ptr> failures(times.size());
    for (size_t i = 0; i < times.size(); ++i) {
      ranks.emplace_back([&, i] {
        try {
          const int rank = context.first_rank() + static_cast<int>(i);
          const double us = call_us(context, rank, round, calls, make);
          if (round > 0) times[i].push_back(us);
          cuda::Stream(static_cast<cuda::StreamHandle>(context.stream(rank))).synchronize();
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
  for (auto& of_rank : times) medians.push_back(runtime::median_of(std::move(of_rank)));
  return medians;
}

// Of a call in a graph of kCalls.
std::vector<double> graph_us(Context& context, OperationOnMemory& operation, int64_t rows) {
  std::vector<std::unique_ptr<cuda::Graph>> graphs;
  for (int i = 0; i < context.num_local(); ++i) {
    const int rank = context.first_rank() + i;
    context.make_current(rank);
    const cuda::Stream stream(static_cast<cuda::StreamHandle>(context.stream(rank)));
    graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
      for (int call = 0; call < kCalls; ++call) operation.run(rank, context.stream(rank), rows);
    }));
  }
  std::vector<double> us = host_us(context, operation, 1, [&](int rank, int64_t) {
    graphs[static_cast<size_t>(rank - context.first_rank())]->launch(
        cuda::Stream(static_cast<cuda::StreamHandle>(context.stream(rank))));
  });
  for (double& one : us) one /= kCalls;
  for (size_t i = 0; i < graphs.size(); ++i) {
    context.make_current(context.first_rank() + static_cast<int>(i));
    graphs[i].reset();
  }
  return us;
}

Json costs_of(Context& context, const ProductShape& shape, int64_t rows,
              const std::string& schedule) {
  Json json = {{"operator", to_string(shape.kind)}, {"m", rows}, {"schedule", schedule}};
  std::unique_ptr<OperationOnMemory> made;
  try {
    made = std::make_unique<OperationOnMemory>(context, shape, rows,
                                               OperationOptions{.schedule = schedule});
  } catch (const UsageError& error) {
    json["refused"] = error.what();
    return json;
  }
  OperationOnMemory& operation = *made;
  const NewAddresses addresses(context, operation);
  json["schedule"] = operation.schedule(rows);
  for (int call = 0; call < kCalls; ++call) operation.prepare(rows_of(rows, call, true));
  const auto same_tensors = [&](bool change) {
    return host_us(context, operation, kCalls, [&, change](int rank, int64_t number) {
      operation.run(rank, context.stream(rank), rows_of(rows, number, change));
    });
  };
  json["host_us"] = same_tensors(false);
  json["changing_rows_us"] = same_tensors(true);
  json["new_addresses_us"] = host_us(context, operation, kCalls, [&](int rank, int64_t number) {
    operation.Operation::run(rank, context.stream(rank), rows, addresses.of(rank, number));
  });
  json["error_us"] = host_us(context, operation, kCalls, [&](int, int64_t) { operation.error(); });
  json["graph_us"] = graph_us(context, operation, rows);  // last: what follows has fences
  return json;
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
  const auto work = [&] {
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
        for (const int m : rows) {
          json["calls"].push_back(costs_of(context, {kind, n, k, DType::bf16}, m, schedule));
        }
      }
    }
    std::cout << json.dump() + "\n" << std::flush;
    return 0;
  };
  return bench::run_program("call_bench", work, false);  // it times the host
}
