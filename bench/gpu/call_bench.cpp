// What a call of an operation costs the host: with the rows and addresses of the call before, with
// rows that change, with addresses that no call has had, and in a graph; and what it costs to ask
// whether a call has failed. Of all ranks in one process, each with a thread of its own, or of one
// process a rank (under stretto launch, torchrun
// or mpirun). Every process prints one JSON object on a line.
//
//   call_bench --layers "moe-ep t=256 h=4096 f=1536 experts=32 k=8" --schedules auto,tiles
//
// times other operators, of fixed rows, in the place of products. In the stub of the driver
// (tests/stub) the same says what is the library's own; `stub` is in its line then.
#include <algorithm>
#include <chrono>
#include <cstdlib>
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
#include "stretto/context.h"
#include "stretto/error.h"

using namespace stretto;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kCalls = 40;     // fewer than the driver takes without waiting
constexpr size_t kStep = 256;  // from new addresses to the next ones

int num_rounds = 11;

// The call of a rank with that number, which no other has.
using MakeCall = std::function<void(int rank, int64_t number)>;

// The rows of call after call: as many each time, or one fewer until it is half of them.
int64_t rows_of(int64_t rows, int64_t call, bool change) {
  return change ? rows - call % (rows / 2 + 1) : rows;
}

// For tensors of whole numbers: those of experts, each as often as the others.
std::vector<int32_t> numbers_of_experts(const Operator& op, size_t num_bytes) {
  const auto experts = static_cast<size_t>(op.size("experts").value_or(1));
  std::vector<int32_t> numbers(num_bytes / sizeof(int32_t));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i % experts);
  return numbers;
}

// Tensors of an operation, with room behind them for addresses that no call has had.
class CallMemory {
 public:
  CallMemory(Context& context, const Operation& operation)
      : first_rank_(context.first_rank()), op_(operation.at(operation.room())) {
    for (int i = 0; i < context.num_local(); ++i) {
      const int rank = first_rank_ + i;
      auto& of_rank = tensors_.emplace_back();
      for (const CallerTensor& one : caller_tensors(op_)) {
        const Slice slice = slice_of(op_, one.tensor, one.held, rank);
        const auto elements = static_cast<size_t>(slice.rows() * slice.cols());
        const Tensor& tensor = op_.tensor(one.tensor);
        const size_t bytes = elements * static_cast<size_t>(num_bytes(tensor.dtype)) +
                             kStep * static_cast<size_t>(num_rounds * kCalls);
        of_rank.push_back({tensor.name, context.allocate(rank, bytes)});
        if (tensor.dtype != DType::i32) continue;
        const std::vector<int32_t> numbers = numbers_of_experts(op_, bytes);
        context.copy_to_gpu(rank, of_rank.back().address, numbers.data(), bytes);
      }
    }
  }

  const std::vector<CallTensor>& of(int rank) const {
    return tensors_[static_cast<size_t>(rank - first_rank_)];
  }
  std::vector<CallTensor> of(int rank, int64_t number) const {
    std::vector<CallTensor> tensors = of(rank);
    for (CallTensor& one : tensors) {
      one.address += kStep * static_cast<size_t>(number % (num_rounds * kCalls));
    }
    return tensors;
  }

 private:
  int first_rank_;
  Operator op_;                                   // which has the tensors' names
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
std::vector<double> host_us(Context& context, Operation& operation, int64_t calls,
                            const MakeCall& make) {
  std::vector<std::vector<double>> times(static_cast<size_t>(context.num_local()));
  for (int round = 0; round <= num_rounds; ++round) {
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
std::vector<double> graph_us(Context& context, Operation& operation, const CallMemory& memory,
                             int64_t rows) {
  std::vector<std::unique_ptr<cuda::Graph>> graphs;
  for (int i = 0; i < context.num_local(); ++i) {
    const int rank = context.first_rank() + i;
    context.make_current(rank);
    const cuda::Stream stream(static_cast<cuda::StreamHandle>(context.stream(rank)));
    graphs.push_back(std::make_unique<cuda::Graph>(stream, [&] {
      for (int call = 0; call < kCalls; ++call) {
        operation.run(rank, context.stream(rank), rows, memory.of(rank));
      }
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

Json costs_of(Context& context, const Operator& op, const OperationOptions& options) {
  const int64_t rows = op.rows();
  const bool is_product = op.only_product() != nullptr;
  Json json = {{"operator", is_product ? op.name() : to_string(op)}};
  if (is_product) json["m"] = rows;
  json["schedule"] = options.schedule;
  std::unique_ptr<Operation> made;
  try {
    made = std::make_unique<Operation>(context, op, options);
  } catch (const UsageError& error) {
    json["refused"] = error.what();
    return json;
  }
  Operation& operation = *made;
  const CallMemory memory(context, operation);
  json["schedule"] = operation.schedule(rows);
  const bool changes = options.rows == RowCount::bucket;
  if (changes) {
    for (int call = 0; call < kCalls; ++call) operation.prepare(rows_of(rows, call, true));
  }
  const auto same_tensors = [&](bool change) {
    return host_us(context, operation, kCalls, [&, change](int rank, int64_t number) {
      operation.run(rank, context.stream(rank), rows_of(rows, number, change), memory.of(rank));
    });
  };
  json["host_us"] = same_tensors(false);
  if (changes) json["changing_rows_us"] = same_tensors(true);
  json["new_addresses_us"] = host_us(context, operation, kCalls, [&](int rank, int64_t number) {
    operation.run(rank, context.stream(rank), rows, memory.of(rank, number));
  });
  json["error_us"] = host_us(context, operation, kCalls, [&](int, int64_t) { operation.error(); });
  json["graph_us"] = graph_us(context, operation, memory, rows);  // last: what follows has fences
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments("What a call costs the host");
  int ranks = 2;
  int64_t n = 8192, k = 8192;
  std::vector<int> rows = {1, 64, 512};
  std::vector<std::string> schedules = {"auto"}, layers;
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--m", rows, "rows of a call");
  arguments.add("--n", n, "columns of the result");
  arguments.add("--k", k, "length of the sums");
  arguments.add("--layers", layers, "other operators with their sizes, in place of products");
  arguments.add("--rounds", num_rounds, "turns of 40 calls, for the median");
  arguments.add("--schedules", schedules, "auto or presets; products are served in buckets");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  const auto work = [&] {
    if (rows.empty() || *std::min_element(rows.begin(), rows.end()) < 1) {
      throw UsageError("--m names at least one row count, of 1 or more");
    }
    if (num_rounds < 1 || num_rounds > 1000) throw UsageError("--rounds: 1 to 1000");
    std::vector<ProductKind> kinds = {kAgGemm, kGemmRs, kGemmAr};
    Context context(ranks);
    Json json = {{"ranks", ranks},
                 {"first_rank", context.first_rank()},
                 {"ranks_a_process", context.num_local()}};
    if (layers.empty()) json.update(Json{{"n", n}, {"k", k}});
    if (std::getenv("STUB_GPUS") != nullptr) json["stub"] = "launches do nothing";
    Json& calls = json["calls"] = Json::array();
    for (const std::string& layer : layers) {
      const Operator op = parse_operator(layer, {ranks, DType::bf16});
      for (const std::string& schedule : schedules) {
        calls.push_back(costs_of(context, op, {.schedule = schedule, .rows = RowCount::fixed}));
      }
    }
    if (!layers.empty()) kinds.clear();
    for (const ProductKind kind : kinds) {
      for (const std::string& schedule : schedules) {
        for (const int m : rows) {
          const Segment product{kind, m, n, k, ranks, DType::bf16};
          calls.push_back(costs_of(context, product, {.schedule = schedule}));
        }
      }
    }
    std::cout << json.dump() + "\n" << std::flush;
    return 0;
  };
  return bench::run_program("call_bench", work, false);  // it times the host
}
