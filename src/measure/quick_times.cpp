#include "measure/quick_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "measure/contest_memory.h"
#include "measure/random_tensors.h"
#include "measure/refusal.h"
#include "measure/run_graphs.h"
#include "measure/spread.h"
#include "measure/turns.h"
#include "run/plan_memory.h"
#include "run/rank_threads.h"
#include "run/workspace.h"
#include "schedule/set_rows.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "tables/kernel_set.h"
#include "tables/plan_limits.h"

namespace stretto::runtime {
namespace {

constexpr size_t kAlwaysMade = 2;
constexpr int kMostRounds = 15;
constexpr int kRoundsBeforeLosing = 2;
constexpr double kLost = 1.25;
constexpr std::chrono::nanoseconds kMostOfADrain = std::chrono::seconds(2);
// As many runs a graph as take this long, and no more.
constexpr double kGraphUs = 500;
constexpr int kMostRuns = 10;

class Stopwatch {
 public:
  explicit Stopwatch(fabric::Fabric& fabric) : fabric_(fabric) {}
  // Collective: the time of the slowest process.
  double ms() const {
    const auto now = std::chrono::steady_clock::now();
    const double mine = std::chrono::duration<double, std::milli>(now - start_).count();
    return largest(fabric_, "how long measuring has taken", {mine}).front();
  }

 private:
  fabric::Fabric& fabric_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

RowCount rows_of(const OperatorSchedule& schedule) {
  return schedule.products.empty() ? RowCount::fixed : schedule.first().rows;
}

struct Contestant {
  OperatorSchedule schedule;
  Plan plan;
  std::unique_ptr<PlanRunner> runner;
  std::unique_ptr<RunGraphs> graphs;  // they end before the runner
  std::vector<double> times_us;
  bool has_failed = false;

  bool runs() const { return graphs != nullptr; }
  void give_up_memory() {
    graphs.reset();
    runner.reset();
  }
};

class Race {
 public:
  Race(const Operator& op, const Machine& machine, fabric::Fabric& fabric,
       const cuda::Compiler& compiler, KernelStore& kernels, const QuickOptions& options)
      : op_(op),
        machine_(machine),
        fabric_(fabric),
        compiler_(compiler),
        kernels_(kernels),
        options_(options) {
    fabric.group().together("waiting until the GPUs rest", [&] { drain(); });
    const size_t needed = RandomTensors::bytes_of(op), room = free_for_each_rank(fabric);
    if (needed > room / 2) {
      throw SystemError(
          fmt::format("tensors of {} bytes a rank, and {} are free: at most half of that is taken",
                      needed, room));
    }
    fabric.group().together("making tensors to measure with",
                            [&] { tensors_ = std::make_unique<RandomTensors>(op, fabric); });
    room_ = (room - needed) / 2;
  }

  void make_all(std::span<const OperatorSchedule> schedules, QuickTimes& times) {
    const Stopwatch watch(fabric_);
    times.chosen_ms = options_.chosen_ms;
    const double most_ms = options_.make_ms() - options_.chosen_ms;
    const auto goes_on = [&](size_t i) {
      if (i < kAlwaysMade || watch.ms() <= most_ms) return true;
      times.not_reached = schedules.size() - i;
      return false;
    };
    std::vector<std::unique_ptr<Contestant>> planned;
    for (size_t i = 0; i < schedules.size() && goes_on(i); ++i) {
      if (auto one = plan(schedules[i], i < kAlwaysMade, times)) planned.push_back(std::move(one));
    }
    make_workspace(planned, times);
    for (size_t i = 0; i < planned.size(); ++i) {
      if (i >= kAlwaysMade && watch.ms() > most_ms) {
        times.not_reached += planned.size() - i;
        break;
      }
      try {
        make(std::move(planned[i]), times);
      } catch (const SystemError& error) {
        if (!goes_on_without(error, times)) throw;
      }
    }
    times.make_ms = watch.ms();
  }

  void run_all(QuickTimes& times) {
    const Stopwatch watch(fabric_);
    take_turns(
        contestants_.size(), kMostRounds, [&](size_t who) { take_turn(*contestants_[who], times); },
        [&] {
          ++times.rounds;
          if (times.rounds >= kRoundsBeforeLosing) let_losers_go();
          times.run_ms = watch.ms();
          const double each = times.run_ms / times.rounds;
          return times.run_ms + each <= options_.budget_ms;
        });
  }

  void tell(QuickTimes& times) const {
    for (const auto& one : contestants_) {
      if (one->has_failed || one->times_us.empty()) continue;
      const Spread spread = spread_of(one->times_us);
      if (spread.low <= 0) continue;  // a clock that stands still
      OperatorSchedule kept = one->schedule;
      set_rows(kept, RowCount::fixed);  // as files have them
      times.measured.push_back({to_string(kept), spread.median, spread.low, spread.high, {}, {}});
      if (kept == schedule_of(find_preset("library"), op_, machine_)) {
        times.library_us = spread.median;
      }
    }
    std::stable_sort(times.measured.begin(), times.measured.end(),
                     [](const Measured& a, const Measured& b) { return a.time_us < b.time_us; });
  }

 private:
  // A run in flight and one that is measured could each hold the SMs that the other's ranks wait
  // for. What waits for a process that is here too would never end, so the wait does: its thread
  // is left behind.
  void drain() const {
    const auto most = std::min(kMostOfADrain, std::chrono::nanoseconds(options_.timeout_ns / 2));
    const auto deadline = std::chrono::steady_clock::now() + most;
    for (int i = 0; i < fabric_.num_local(); ++i) {
      const auto context = fabric_.device(fabric_.first_rank() + i).context();
      std::packaged_task<void()> wait([context] {
        cuda::check(cuda::driver().context_set(context), "select a GPU");
        cuda::check(cuda::driver().context_synchronize(), "wait for a GPU");
      });
      std::future<void> rested = wait.get_future();
      std::thread(std::move(wait)).detach();
      if (rested.wait_until(deadline) != std::future_status::ready) {
        throw SystemError("the GPUs have not come to the end of what was enqueued before");
      }
      rested.get();
    }
  }

  // Null where it is refused, or its kernels would have to be compiled.
  std::unique_ptr<Contestant> plan(const OperatorSchedule& schedule, bool is_always,
                                   QuickTimes& times) {
    auto made = std::make_unique<Contestant>();
    made->schedule = schedule;
    bool is_kept = true;
    const std::string refused = refusal_of(fabric_.group(), [&] {
      made->plan = lower(op_, schedule, machine_);
      const bool serves = rows_of(schedule) == RowCount::bucket;
      is_kept = is_always || options_.compiles() || kernels_are_kept(made->plan, serves);
    });
    const bool any_missing =
        largest(fabric_, "whether a plan's kernels are compiled", {is_kept ? 0.0 : 1.0}).front() >
        0;
    if (refused.empty() && !any_missing) return made;
    ++(refused.empty() ? times.not_compiled : times.refused);
    return nullptr;
  }

  // They take turns on one, as operations do: nobody else runs in a turn. Those that it has no room
  // for are left out.
  void make_workspace(std::vector<std::unique_ptr<Contestant>>& planned, QuickTimes& times) {
    size_t most = 0;
    std::erase_if(planned, [&](const std::unique_ptr<Contestant>& one) {
      const size_t bytes = bytes_between_ranks(one->plan);
      const bool has_room = bytes + bytes_of_contestant(one->plan) <= room_;
      if (has_room) most = std::max(most, bytes);
      if (!has_room) ++times.no_room;
      return !has_room;
    });
    if (most > 0)
      workspace_ = std::make_unique<Workspace>(fabric_, WorkspaceSize{most, WorkspaceGrowth::none});
    room_ -= most;
  }

  void make(std::unique_ptr<Contestant> made, QuickTimes& times) {
    const size_t bytes = bytes_of_contestant(made->plan);
    if (bytes > room_) {
      ++times.no_room;
      return;
    }
    const std::string refused =
        refusal_of(fabric_.group(), [&] { made->runner = runner_of(*made); });
    if (!refused.empty()) {
      ++times.refused;
      return;
    }
    room_ -= bytes;
    capture(*made);
    contestants_.push_back(std::move(made));
  }

  // Who took a quarter longer at best than the fastest did mostly will not become the fastest.
  void let_losers_go() {
    double fastest = HUGE_VAL;
    for (const auto& one : contestants_) {
      if (one->has_failed || one->times_us.empty()) continue;
      fastest = std::min(fastest, spread_of(one->times_us).median);
    }
    for (const auto& one : contestants_) {
      if (!one->runs() || one->times_us.empty()) continue;
      if (spread_of(one->times_us).low > kLost * fastest) one->give_up_memory();
    }
  }

  // What fails, fails on all processes: HostGroup::together(), PlanRunner::finish().
  bool goes_on_without(const SystemError& error, QuickTimes& times) {
    if (fabric_.group().has_failed()) return false;
    ++times.failed;
    times.problem = error.what();
    return true;
  }

  bool kernels_are_kept(const Plan& plan, bool serves) const {
    const std::string arch = fabric_.device(fabric_.first_rank()).arch();
    const std::vector<cuda::KernelEntry> needed = cuda::kernels_of(plan, arch, serves);
    return std::all_of(needed.begin(), needed.end(), [&](const cuda::KernelEntry& one) {
      return one.name == cuda::kTestDataKernel || compiler_.is_kept(one.source, arch);
    });
  }

  std::unique_ptr<PlanRunner> runner_of(const Contestant& one) {
    RunnerOptions how;
    how.timeout_ns = options_.timeout_ns;
    how.serves = rows_of(one.schedule) == RowCount::bucket;
    how.rows_in_memory = false;
    how.tensors_at_calls = true;
    how.workspace = workspace_.get();
    how.if_not_proposed = IfNotProposed::take_first;
    return std::make_unique<PlanRunner>(one.plan, fabric_, kernels_, how);
  }

  // A single run says how many a graph should have.
  void capture(Contestant& one) {
    const int least = one.runner->runs_per_graph();
    const auto enqueue = [this, runner = one.runner.get()](int rank, const cuda::Stream& stream) {
      runner->enqueue(rank, stream.handle(), {}, tensors_->of(rank));
    };
    one.graphs = std::make_unique<RunGraphs>(*one.runner, fabric_, least, enqueue);
    const double us = std::max(1.0, one.graphs->time_us());
    const int runs = std::clamp(static_cast<int>(kGraphUs / us), 1, kMostRuns) / least * least;
    if (runs <= least) return;
    one.graphs.reset();
    one.graphs = std::make_unique<RunGraphs>(*one.runner, fabric_, runs, enqueue);
  }

  void take_turn(Contestant& one, QuickTimes& times) {
    if (is_over_ || !one.runs()) return;
    try {
      one.times_us.push_back(one.graphs->time_us());
    } catch (const SystemError& error) {
      if (!goes_on_without(error, times)) throw;
      one.has_failed = is_over_ = true;  // it took as long as waits do; others might, too
    }
  }

  const Operator op_;
  const Machine& machine_;
  fabric::Fabric& fabric_;
  const cuda::Compiler& compiler_;
  KernelStore& kernels_;
  const QuickOptions options_;
  bool is_over_ = false;
  size_t room_ = 0;  // bytes of each rank that contestants may still take
  std::unique_ptr<RandomTensors> tensors_;
  std::unique_ptr<Workspace> workspace_;
  std::vector<std::unique_ptr<Contestant>> contestants_;  // they end before what they run on
};

}  // namespace

QuickTimes quick_times(const Operator& op, const Machine& machine,
                       std::span<const OperatorSchedule> schedules, fabric::Fabric& fabric,
                       const cuda::Compiler& compiler, KernelStore& kernels,
                       const QuickOptions& options) {
  QuickTimes times;
  Race race(op, machine, fabric, compiler, kernels, options);
  race.make_all(schedules, times);
  race.run_all(times);
  race.tell(times);
  return times;
}

std::string in_words(const QuickTimes& times) {
  std::string words =
      fmt::format("{} in {:.0f} ms of runs, chosen in {:.0f} ms and made in {:.0f}",
                  times.measured.size(), times.run_ms, times.chosen_ms, times.make_ms);
  if (times.not_compiled > 0) {
    words += fmt::format(", {} left out, whose kernels nobody has compiled", times.not_compiled);
  }
  if (times.failed > 0) words += fmt::format(", {} failed ({})", times.failed, times.problem);
  if (times.no_room > 0) words += fmt::format(", no room for {}", times.no_room);
  if (times.not_reached > 0) words += fmt::format(", {} not reached", times.not_reached);
  return words;
}

}  // namespace stretto::runtime
