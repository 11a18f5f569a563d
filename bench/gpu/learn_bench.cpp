// What measuring costs when operations are made, and what it wins: each operator of a shapes file
// is made without and with a budget, and both run in turns. Prints a table, or one JSON object.
//
// All ranks are in this process. What was learnt is kept where STRETTO_TUNING_CACHE says: an
// operator that is there already is not measured again.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "core/file.h"
#include "core/text.h"
#include "fabric/fabric.h"
#include "measure/random_tensors.h"
#include "measure/run_graphs.h"
#include "measure/spread.h"
#include "measure/turns.h"
#include "stretto/context.h"
#include "stretto/error.h"
#include "stretto/segment.h"

using namespace stretto;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kRunsPerGraph = 10;
constexpr size_t kMostBytes = 1 << 20;

struct Made {
  std::unique_ptr<Operation> operation;
  std::unique_ptr<runtime::RunGraphs> graphs;  // they end before the operation
  double made_ms = 0;
  std::vector<double> times_us;
};

class Bench {
 public:
  Bench(int ranks, int rounds)
      : rounds_(rounds), context_(ranks), fabric_(fabric::in_process(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      owners_.push_back(
          std::make_unique<cuda::Stream>(static_cast<cuda::StreamHandle>(context_.stream(rank))));
      streams_.push_back(owners_.back().get());
    }
  }

  Json measure(const Segment& op, RowCount rows, double budget_ms) {
    const runtime::RandomTensors tensors(op, *fabric_);
    Made by_auto = make(op, rows, 0, tensors), learnt = make(op, rows, budget_ms, tensors);
    Made* const both[] = {&by_auto, &learnt};
    runtime::take_turns(
        2, rounds_,
        [&](size_t who) { both[who]->times_us.push_back(both[who]->graphs->time_us()); },
        [] { return true; });
    Json json = {{"operator", to_string(op)}};
    for (const auto& [name, one] : {std::pair("auto", &by_auto), std::pair("learnt", &learnt)}) {
      const runtime::Spread spread = runtime::spread_of(one->times_us);
      one->operation->finish();
      json[name] = {{"made_ms", one->made_ms},
                    {"time_us", spread.median},
                    {"low_us", spread.low},
                    {"high_us", spread.high},
                    {"schedule", one->operation->schedule(op.m)},
                    {"reason", one->operation->reason(op.m)}};
    }
    return json;
  }

 private:
  Made make(const Segment& op, RowCount rows, double budget_ms,
            const runtime::RandomTensors& tensors) {
    Made made;
    const auto start = Clock::now();
    made.operation = std::make_unique<Operation>(
        context_, op, OperationOptions{.schedule = "auto", .rows = rows, .measure_ms = budget_ms});
    made.made_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    made.graphs = std::make_unique<runtime::RunGraphs>(
        *fabric_, streams_, kRunsPerGraph, [&](int rank, const cuda::Stream& stream) {
          made.operation->run(rank, stream.handle(), op.m, tensors.of(rank));
        });
    return made;
  }

  int rounds_;
  Context context_;
  std::unique_ptr<fabric::Fabric> fabric_;
  std::vector<std::unique_ptr<cuda::Stream>> owners_;
  std::vector<const cuda::Stream*> streams_;
};

std::vector<Segment> operators_of(const std::string& file, int ranks) {
  std::vector<Segment> found;
  const std::string content = read_file(file, kMostBytes);
  for (const std::string_view line : split(content, '\n')) {
    const std::string_view shape = line.substr(0, line.find('#'));
    if (shape.find_first_not_of(" \t\r") != std::string_view::npos) {
      found.push_back(parse_segment(shape, {ranks, DType::bf16}));
    }
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments("What measuring costs and wins when operations are made");
  int ranks = 2, rounds = 7, budget = 100;
  std::string shapes = "bench/shapes/unseen.txt", rows = "fixed";
  bool as_json = false;
  arguments.add("--ranks", ranks, "GPUs");
  arguments.add("--shapes", shapes, "operators, one a line");
  arguments.add("--rows", rows, "fixed or bucket");
  arguments.add("--budget", budget, "milliseconds of runs that making an operation may measure");
  arguments.add("--rounds", rounds, "in which both operations take a turn");
  arguments.add("--json", as_json, "one JSON object instead of a table");
  if (const auto code = arguments.parse(argc, argv)) return *code;
  constexpr bool kOnlyTimes = false;  // it also shows that measuring works, on shared GPUs too
  const auto run = [&] {
    Bench bench(ranks, rounds);
    const RowCount count = rows == "bucket" ? RowCount::bucket : RowCount::fixed;
    Json json = {{"benchmark", "learn"},
                 {"ranks", ranks},
                 {"rows", rows},
                 {"budget_ms", budget},
                 {"of", Json::array()}};
    if (!as_json) {
      fmt::print("{:46} {:>7} {:>8} {:>9} {:>8}  {}\n", "operator", "auto ms", "us", "learnt ms",
                 "us", "reason");
    }
    for (const Segment& op : operators_of(shapes, ranks)) {
      const Json one = bench.measure(op, count, budget);
      json["of"].push_back(one);
      if (as_json) continue;
      const auto number = [&](const char* of, const char* key) {
        return one[of][key].get<double>();
      };
      fmt::print("{:46} {:7.0f} {:8.1f} {:9.0f} {:8.1f}  {}\n", one["operator"].get<std::string>(),
                 number("auto", "made_ms"), number("auto", "time_us"), number("learnt", "made_ms"),
                 number("learnt", "time_us"), one["learnt"]["reason"].get<std::string>());
      std::fflush(stdout);
    }
    if (as_json) std::cout << json.dump(1) << "\n";
    return 0;
  };
  return bench::run_program("learn_bench", run, kOnlyTimes);
}
