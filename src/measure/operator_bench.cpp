#include "measure/operator_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "measure/bench_tensors.h"
#include "measure/library_path.h"
#include "measure/refusal.h"
#include "measure/run_graphs.h"
#include "measure/turns.h"
#include "run/first_calls.h"
#include "run/rank_threads.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr int kVerifiedRuns = 3;

// One who takes a turn in every round.
class Contestant {
 public:
  // Calls of libraries.
  Contestant(const BenchTensors& tensors, const BenchOptions& options, const LibraryPath& library,
             LibraryCalls calls)
      : tensors_(tensors), options_(options) {
    const auto enqueue = [&library, calls](int rank, const cuda::Stream&) {
      library.enqueue(rank, calls);
    };
    // NCCL sets up at first use, and that cannot be captured.
    fabric::Fabric& fabric = tensors.fabric();
    make_calls(
        fabric, tensors.nccl(), "the first calls of the library path", kFirstCallsTimeout,
        [&] { on_rank_threads(fabric, [&](int rank) { enqueue(rank, tensors.stream(rank)); }); },
        [&](int rank) { return tensors.stream(rank).idle(); });
    warm_ = std::make_unique<RunGraphs>(fabric, tensors.streams(), options.runs_per_graph, enqueue,
                                        tensors.nccl());
    if (options.cold) {
      cold_ = std::make_unique<RunGraphs>(fabric, tensors.streams(), 1, enqueue, tensors.nccl());
    }
  }

  Contestant(const BenchTensors& tensors, const BenchOptions& options, const PlanToTime& to_time,
             const cuda::Compiler& compiler)
      : tensors_(tensors), options_(options) {
    try {
      make_runner(to_time, compiler);
      if (!refused_.empty()) return;
      tensors.copy_inputs(*runner_);
      for (int run = 0; run < kVerifiedRuns && problem_.empty(); ++run) {
        for (int i = 0; i < tensors.fabric().num_local(); ++i) {
          const int rank = tensors.fabric().first_rank() + i;
          tensors.fabric().device(rank).make_current();
          runner_->enqueue(rank);
        }
        runner_->finish();
        verify();
      }
      if (!problem_.empty()) return;
      warm_ = std::make_unique<RunGraphs>(*runner_, tensors.fabric(), options.runs_per_graph);
      if (options.cold && runner_->runs_per_graph() == 1) {
        cold_ = std::make_unique<RunGraphs>(*runner_, tensors.fabric(), 1);
      }
    } catch (const SystemError& error) {
      problem_ = error.what();
    }
  }

  void take_turn() {
    if (!refused_.empty() || !problem_.empty()) return;
    try {
      warm_times_.push_back(warm_->time_us(launches()));
      if (cold_ == nullptr) return;
      cold_times_.push_back(cold_->time_us_after([&](int rank, const cuda::Stream& stream) {
        tensors_.enqueue_cold_start(rank, stream);
      }));
    } catch (const SystemError& error) {
      if (runner_ == nullptr) throw;  // nothing has times beside libraries that do not end
      problem_ = error.what();
    }
  }

  PathTimes times() const {
    PathTimes times;
    times.warm = spread_of(warm_times_);
    if (cold_ != nullptr) times.cold = spread_of(cold_times_);
    return times;
  }

  // Of a plan, after the last round: its outputs are still those of the timed runs.
  PlanTimes result() {
    if (refused_.empty() && problem_.empty()) verify();
    PlanTimes result;
    result.refused = refused_;
    result.problem = problem_;
    result.not_proposed = not_proposed_;
    result.error = error_;
    if (result.timed()) result.times = times();
    return result;
  }

  // Of a plan, after its result: runs of its own whose kernels make marks. cuBLAS makes none.
  std::optional<RunParts> parts(const Plan& plan, const cuda::Compiler& compiler) {
    constexpr int kLaunches = 4;
    if (plan.any_library()) return std::nullopt;
    warm_.reset();
    cold_.reset();
    runner_.reset();
    RunnerOptions options;
    options.marks = true;
    PlanRunner runner(plan, tensors_.fabric(), compiler, options);
    fabric::HostGroup& group = tensors_.fabric().group();
    group.together("copying a plan's inputs", [&] { tensors_.copy_inputs(runner); });
    const RunGraphs graphs(runner, tensors_.fabric(), options_.runs_per_graph);
    graphs.time_us();
    std::vector<double> sums(5, 0.0);
    for (int launch = 0; launch < kLaunches; ++launch) {
      graphs.time_us();
      RunParts run;
      group.together("reading what a plan's kernels marked",
                     [&] { run = parts_of_run(plan, runner.marks()); });
      const double each[] = {run.waiting_us, run.multiplying_us, run.adding_us, run.ending_us,
                             run.rest_us};
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += each[i] / kLaunches;
    }
    sums = mean(tensors_.fabric(), "the parts of a run", std::move(sums));
    return RunParts{sums[0], sums[1], sums[2], sums[3], sums[4]};
  }

 private:
  // Before and in the timed half of a turn; the same on all processes.
  int launches() {
    if (options_.turn_us <= 0) return 1;
    if (launch_us_ == 0) launch_us_ = warm_->time_us() * options_.runs_per_graph;
    return std::max(1, static_cast<int>(std::ceil(options_.turn_us / 2 / launch_us_)));
  }

  // What is refused is so on all processes, and all say why in the same words.
  void make_runner(const PlanToTime& to_time, const cuda::Compiler& compiler) {
    RunnerOptions options;
    options.if_not_proposed = to_time.if_not_proposed;
    options.most_proposals = to_time.most_proposals;
    refused_ = refusal_of(tensors_.fabric().group(), [&] {
      runner_ = std::make_unique<PlanRunner>(*to_time.plan, tensors_.fabric(), compiler, options);
      not_proposed_ = runner_->not_proposed();
    });
    if (!refused_.empty()) runner_.reset();
  }

  void verify() {
    const BenchTensors::Verdict found = tensors_.verdict_of(*runner_);
    error_ = std::max(error_, found.error);
    if (!found.problem.empty()) problem_ = found.problem;
  }

  const BenchTensors& tensors_;
  const BenchOptions& options_;
  std::unique_ptr<PlanRunner> runner_;
  std::unique_ptr<RunGraphs> warm_, cold_;  // they end before the runner
  std::vector<double> warm_times_, cold_times_;
  double launch_us_ = 0;  // of one launch; 0: not known
  std::vector<NotProposed> not_proposed_;
  double error_ = 0;
  std::string refused_, problem_;
};

}  // namespace

BenchTimes bench_operator(const Operator& op, const Plan* library,
                          std::span<const PlanToTime> plans, fabric::Fabric& fabric,
                          const cuda::Compiler& compiler, const BenchOptions& options,
                          const std::function<void(double)>& progress) {
  const BenchTensors tensors(op, fabric, compiler, options.routing);
  const LibraryPath path(tensors);
  std::optional<Contestant> gemm, collective, sequential;
  if (path.multiplies()) gemm.emplace(tensors, options, path, LibraryCalls::products);
  if (path.communicates()) collective.emplace(tensors, options, path, LibraryCalls::collectives);
  const PlanToTime library_plan{library, IfNotProposed::refuse, kMostAlgorithms};
  if (path.is_whole()) {
    sequential.emplace(tensors, options, path, LibraryCalls::all);
  } else if (library != nullptr) {
    sequential.emplace(tensors, options, library_plan, compiler);
  }
  std::vector<std::unique_ptr<Contestant>> contestants;
  const double steps = static_cast<double>(plans.size()) + options.rounds;
  double done = 0;
  const auto step = [&] {
    done += 1;
    if (progress) progress(done / steps);
  };
  for (const PlanToTime& plan : plans) {
    contestants.push_back(std::make_unique<Contestant>(tensors, options, plan, compiler));
    step();
  }
  std::vector<Contestant*> all;
  if (gemm) all.push_back(&*gemm);
  if (collective) all.push_back(&*collective);
  if (sequential) all.push_back(&*sequential);
  for (const auto& one : contestants) all.push_back(one.get());
  take_turns(
      all.size(), options.rounds, [&](size_t turn) { all[turn]->take_turn(); },
      [&] {
        step();
        return true;
      });
  tensors.require_same_nccl();
  BenchTimes times;
  if (gemm) times.library.gemm = gemm->times();
  if (collective) times.library.collective = collective->times();
  if (path.is_whole()) {
    times.library.sequential = sequential->times();
  } else if (sequential) {
    const PlanTimes of_plan = sequential->result();
    if (of_plan.timed()) {
      times.library.sequential = of_plan.times;
    } else {
      times.library.problem = of_plan.refused + of_plan.problem;
    }
  }
  for (const auto& one : contestants) times.plans.push_back(one->result());
  if (!options.parts) return times;
  const auto fastest = std::min_element(
      times.plans.begin(), times.plans.end(), [](const PlanTimes& a, const PlanTimes& b) {
        return a.timed() && (!b.timed() || a.times.warm.median < b.times.warm.median);
      });
  if (fastest != times.plans.end() && fastest->timed()) {
    const auto at = static_cast<size_t>(fastest - times.plans.begin());
    try {
      fastest->parts = contestants[at]->parts(*plans[at].plan, compiler);
    } catch (const SystemError&) {
      // Its times hold; what they consist of stays unknown.
    }
  }
  return times;
}

}  // namespace stretto::runtime
