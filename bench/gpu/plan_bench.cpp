// What parts of a plan cost: times plan files as they are, also those that an edit has made wrong
// (a wait left out, a push kept at home, a sum not added). Says nothing of their results.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "arguments.h"
#include "core/file.h"
#include "fabric/fabric.h"
#include "gpu/test_data.h"
#include "measure/run_graphs.h"
#include "measure/run_parts.h"
#include "measure/turns.h"
#include "run/plan_runner.h"
#include "stretto/error.h"

using namespace stretto;

namespace {

constexpr int kRunsPerGraph = 10;
constexpr size_t kMostBytes = size_t{1} << 30;

// Contestants take turns, as clocks and temperature drift.
class PlanBench {
 public:
  explicit PlanBench(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      Timed timed;
      timed.file = file;
      timed.plan = std::make_unique<Plan>(parse_plan(read_file(file, kMostBytes), file));
      if (!fabric_) fabric_ = fabric::in_process(timed.plan->ranks());
      timed.runner = std::make_unique<runtime::PlanRunner>(*timed.plan, *fabric_, compiler_);
      fill(*timed.runner, *timed.plan->op.only_product());
      timed.graphs = std::make_unique<runtime::RunGraphs>(*timed.runner, *fabric_, kRunsPerGraph);
      timed.graphs->time_us();
      timed_.push_back(std::move(timed));
    }
  }

  // When rank 0's tiles begin and its movers end, of runs whose kernels note the time.
  void print_waves() {
    for (Timed& timed : timed_) {
      timed.graphs.reset();
      timed.runner.reset();
    }
    for (const Timed& timed : timed_) {
      runtime::RunnerOptions options;
      options.marks = true;
      runtime::PlanRunner runner(*timed.plan, *fabric_, compiler_, options);
      fill(runner, *timed.plan->op.only_product());
      const runtime::RunGraphs graphs(runner, *fabric_, kRunsPerGraph);
      for (int launch = 0; launch < 3; ++launch) graphs.time_us();
      const auto marks = runner.marks();
      const runtime::RunParts parts = parts_of_run(*timed.plan, marks);
      std::cout << fmt::format(
          "{}\n  waiting {:.0f}, multiplying {:.0f}, adding {:.0f}, ending {:.0f}, rest {:.0f} "
          "us\n",
          timed.file, parts.waiting_us, parts.multiplying_us, parts.adding_us, parts.ending_us,
          parts.rest_us);
      print_waves_of(*timed.plan, runtime::marked_lanes(marks.front()));
    }
  }

  void run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const size_t turn : runtime::turns_of_round(timed_.size(), round)) {
        timed_[turn].times_us.push_back(timed_[turn].graphs->time_us());
      }
    }
    for (Timed& timed : timed_) {
      std::sort(timed.times_us.begin(), timed.times_us.end());
      std::cout << timed.times_us[timed.times_us.size() / 2] << " us (" << timed.times_us.front()
                << " to " << timed.times_us.back() << ")  " << timed.file << "\n";
    }
  }

 private:
  struct Timed {
    std::string file;
    std::unique_ptr<Plan> plan;
    std::unique_ptr<runtime::PlanRunner> runner;
    std::unique_ptr<runtime::RunGraphs> graphs;
    std::vector<double> times_us;
  };

  void fill(const runtime::PlanRunner& runner, const Segment& op) {
    const int64_t rows = op.makes_terms() ? op.m : op.m / op.ranks;
    for (int rank = 0; rank < op.ranks; ++rank) {
      fabric_->device(rank).make_current();
      const cuda::TestData data(fabric_->device(rank), compiler_);
      const cuda::Stream stream;
      data.fill(stream, runner.buffer("a", rank), rows * op.local_k(), op.dtype,
                device::Fill::normal, 1);
      data.fill(stream, runner.buffer("b", rank), op.local_n() * op.local_k(), op.dtype,
                device::Fill::normal, 2);
      stream.synchronize();
    }
  }

  static void print_waves_of(const Plan& plan, const std::vector<runtime::MarkedLane>& lanes) {
    using device::Mark;
    struct Wave {
      std::vector<double> begun, took;
    };
    std::vector<Wave> waves;
    std::vector<double> moved;
    for (const runtime::MarkedLane& lane : lanes) {
      size_t wave = 0;
      for (const runtime::MarkedTask& task : lane.tasks) {
        if (plan.lanes[lane.lane].kind != LaneKind::compute) {
          if (task.passed(Mark::finished)) moved.push_back(*task.passed(Mark::finished));
          continue;
        }
        if (!task.passed(Mark::begun) || !task.passed(Mark::multiplied)) continue;
        if (wave == waves.size()) waves.emplace_back();
        waves[wave].begun.push_back(*task.passed(Mark::begun));
        waves[wave++].took.push_back(*task.passed(Mark::multiplied) - *task.passed(Mark::begun));
      }
    }
    const auto spread = [](std::vector<double>& of) {
      std::sort(of.begin(), of.end());
      const auto at = [&](double part) { return of[static_cast<size_t>(part * (of.size() - 1))]; };
      return fmt::format("{:6.0f} {:6.0f} {:6.0f} {:6.0f} {:6.0f}", at(0), at(0.25), at(0.5),
                         at(0.75), at(1));
    };
    for (size_t i = 0; i < waves.size(); ++i) {
      std::cout << fmt::format("  wave {:2}: {:3} tiles begin {} and take {}\n", i,
                               waves[i].begun.size(), spread(waves[i].begun),
                               spread(waves[i].took));
    }
    if (!moved.empty()) std::cout << "  moved: " << spread(moved) << "\n";
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  cuda::Compiler compiler_;
  std::vector<Timed> timed_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments("What parts of a plan cost: times plan files, right or not");
  std::vector<std::string> files;
  int rounds = 11;
  arguments.add("--plans", files, "plan files of one rank count, separated by commas");
  bool waves = false;
  arguments.add("--rounds", rounds, "times that all take turns");
  arguments.add("--waves", waves, "also when rank 0's tiles begin: least, quartiles, most");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return bench::run_program("plan_bench", [&] {
    if (files.empty() || rounds < 1) {
      throw UsageError("--plans names at least one plan file, --rounds is 1 or more");
    }
    PlanBench plans(files);
    plans.run(rounds);
    if (waves) plans.print_waves();
    return 0;
  });
}
