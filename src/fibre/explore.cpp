#include "stretto/fibre/explore.h"

#include <fmt/format.h>

#include "stretto/error.h"

namespace stretto::fibre {
namespace {

struct Outcome {
  std::optional<Finding> finding;
  std::vector<Decision> decisions;
};

Outcome run_once(const Shape& shape, const Schedule& schedule, const Scenario& scenario) {
  World world(shape, schedule);
  scenario(world);
  world.require_run();
  return {world.finding(), world.decisions()};
}

// One missing order shows as either, depending on who comes first.
bool alike(FindingKind a, FindingKind b) {
  auto missing_order = [](FindingKind kind) {
    return kind == FindingKind::kRace || kind == FindingKind::kUnwritten;
  };
  return a == b || (missing_order(a) && missing_order(b));
}

// Makes one failure small: first the shape, then the decisions of its schedule.
class Shrinker {
 public:
  Shrinker(const Scenario& scenario, Failure& failure, int runs)
      : scenario_(scenario), failure_(failure), runs_left_(runs) {}

  void shrink() {
    while (smaller_shape()) {
    }
    fewer_decisions();
  }

 private:
  bool fails_alike(const Shape& shape, const Schedule& schedule) {
    if (runs_left_-- <= 0) return false;
    try {
      Outcome outcome = run_once(shape, schedule, scenario_);
      if (!outcome.finding || !alike(outcome.finding->kind, failure_.finding.kind)) return false;
      failure_.shape = shape;
      failure_.finding = *outcome.finding;
      failure_.decisions = std::move(outcome.decisions);
      return true;
    } catch (const UsageError&) {
      return false;  // the scenario does not fit this shape
    }
  }

  bool smaller_shape() {
    const Shape now = failure_.shape;
    std::vector<Shape> smaller(4, now);
    smaller[0].ranks = now.ranks > 4 ? now.ranks / 2 : now.ranks - 1;
    smaller[1].blocks = now.blocks / 2;
    smaller[2].threads = now.threads / 2;
    smaller[3].threads = smaller[3].warp_size = 1;
    for (const Shape& shape : smaller) {
      if (shape == now || shape.ranks < 2 || shape.blocks < 1 || shape.threads < 1) continue;
      if (shape.threads > shape.warp_size && shape.threads % shape.warp_size != 0) continue;
      for (uint64_t seed = 0; seed < 12; ++seed) {
        if (fails_alike(shape, Schedule::from_seed(seed))) return true;
      }
    }
    return false;
  }

  // Delta debugging: leaves out ever smaller parts of the decisions while the failure stays.
  void fewer_decisions() {
    std::vector<Decision> kept = failure_.decisions;
    if (!fails_alike(failure_.shape, Schedule::replay(kept))) return;
    for (size_t part = std::max<size_t>(1, kept.size()); part >= 1; part /= 2) {
      for (size_t begin = 0; begin < kept.size();) {
        std::vector<Decision> without = kept;
        const size_t end = std::min(kept.size(), begin + part);
        without.erase(without.begin() + static_cast<std::ptrdiff_t>(begin),
                      without.begin() + static_cast<std::ptrdiff_t>(end));
        if (fails_alike(failure_.shape, Schedule::replay(without))) {
          kept = failure_.decisions.size() < without.size() ? failure_.decisions : without;
        } else {
          begin += part;
        }
      }
    }
    failure_.decisions = std::move(kept);
  }

  const Scenario& scenario_;
  Failure& failure_;
  int runs_left_;
};

}  // namespace

Exploration explore(const Shape& shape, const Scenario& scenario, const ExploreOptions& options) {
  Exploration exploration;
  for (uint64_t i = 0; i < options.num_seeds; ++i) {
    const uint64_t seed = options.first_seed + i;
    Outcome outcome = run_once(shape, Schedule::from_seed(seed), scenario);
    ++exploration.seeds_run;
    if (!outcome.finding) continue;
    exploration.failure =
        Failure{seed, shape, std::move(*outcome.finding), std::move(outcome.decisions)};
    // Each try of what never ends takes seconds.
    if (options.shrink && exploration.failure->finding.kind != FindingKind::kSilence) {
      Shrinker(scenario, *exploration.failure, options.shrink_runs).shrink();
    }
    break;
  }
  return exploration;
}

namespace {

std::string what_of(const Decision& decision) {
  switch (decision.what) {
    case Decision::What::kGoOn:
      return fmt::format("thread {} goes on", decision.target);
    case Decision::What::kDeliver:
      return fmt::format("transfer {} arrives", decision.target);
    case Decision::What::kLoadOlder:
      return decision.target == 1
                 ? "the load misses the last store"
                 : fmt::format("the load misses the last {} stores", decision.target);
  }
  return "";
}

}  // namespace

std::string Failure::to_text() const {
  std::string text = fmt::format(
      "{}\n  seed {}; smallest: {} ranks x {} blocks x {} threads, {} scheduling decisions\n",
      finding.message, seed, shape.ranks, shape.blocks, shape.threads, decisions.size());
  constexpr size_t kMaxLines = 20;
  for (size_t i = 0; i < std::min(decisions.size(), kMaxLines); ++i) {
    const Decision& decision = decisions[i];
    text += fmt::format("    at step {}: {}\n", decision.step, what_of(decision));
  }
  return text;
}

}  // namespace stretto::fibre
