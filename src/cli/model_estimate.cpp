#include "cli/model_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "core/text.h"
#include "run/plan_memory.h"
#include "schedule/plan_size.h"
#include "schedule/short_text.h"
#include "stretto/error.h"
#include "stretto/lower.h"
#include "stretto/schedule.h"
#include "stretto/simulate.h"
#include "tables/plan_limits.h"
#include "tune/nearness.h"

namespace stretto::cli {
namespace {

struct Times {
  double library_us = 0, stretto_us = 0;
};

// Of what `auto` takes, in one session with the library: first of all where it was measured on this
// very shape. Nothing where only other schedules were.
std::optional<Times> measured_times(const Segment& op, const Schedule& schedule,
                                    const Machine& machine, const Tuning& tuning) {
  const auto library = library_for(op, machine);
  for (const TunedOperator* tuned : measured_on(op, machine, tuning)) {
    if (tuned->library_us <= 0) continue;
    for (const Measured& measured : tuned->measured) {
      if (as_measured(*tuned, measured, op, machine, RowCount::fixed) != schedule) continue;
      return Times{tuned->library_us, measured.time_us};
    }
    if (library && *library == schedule) return Times{tuned->library_us, tuned->library_us};
  }
  return std::nullopt;
}

bool can_run_on_gpus(const Plan& plan) { return cuda::why_not_on_cuda(plan).empty(); }

// Planning and simulating so many, under each of the schedules that auto weighs, takes about half a
// minute.
constexpr double kMostInstrs = 5e6;

// Of a plan under `tiles`; lowering nothing, so that what takes minutes is refused at once.
double instrs_of(const Operator& op, const Machine& machine) {
  const OperatorSchedule tiles = schedule_of(find_preset("tiles"), op, machine);
  const Operator* const parts[] = {&op};
  return estimate_instrs(parts, tiles.products, machine);
}

// A part of a model on so many ranks; nothing where these cannot share it.
using OnRanks = std::function<std::optional<Operator>(int ranks)>;

std::string why_too_large(const Operator& op, const OnRanks& on_ranks, const Machine& machine) {
  const double instrs = instrs_of(op, machine);
  if (instrs <= kMostInstrs) return "";
  int fewer = op.ranks / 2;
  const auto fits = [&](int ranks) {
    const std::optional<Operator> other = on_ranks(ranks);
    return other && instrs_of(*other, machine) <= kMostInstrs;
  };
  while (fewer > 0 && !fits(fewer)) fewer /= 2;
  return fmt::format(
      "its plans on {} ranks have about {:.1f} million instructions, and at most {:.0f} million "
      "are estimated: take {}",
      op.ranks, instrs / 1e6, kMostInstrs / 1e6,
      fewer > 0 ? fmt::format("--tp {}", fewer) : "fewer rows");
}

std::optional<Operator> product_on(const Linear& linear, ModelShape shape, int ranks) {
  shape.ranks = ranks;
  const Segment op = product_of(linear, shape);
  if (!problems(op).empty()) return std::nullopt;
  return Operator(op);
}

Operator experts_on(const Model& model, const ModelShape& shape, int ranks) {
  return make_operator(shape.deals_experts ? "moe-ep" : "moe-tp",
                       {{"t", shape.rows},
                        {"h", model.hidden},
                        {"f", model.intermediate},
                        {"experts", model.experts},
                        {"k", model.experts_a_row}},
                       ranks, shape.dtype);
}

std::optional<Operator> experts_or_none(const Model& model, const ModelShape& shape, int ranks) {
  try {
    return experts_on(model, shape, ranks);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

// Who reads a published model cannot choose its sizes, so it is told of ranks that do. Empty: these
// ranks do.
std::string why_not_cut(const std::string& what, int ranks,
                        const std::function<bool(int)>& can_share) {
  if (can_share(ranks)) return "";
  const std::string others = nearest_ranks(ranks, can_share);
  if (others.empty()) return "";  // it is not for its ranks that it cannot be served
  return fmt::format("{} cannot be dealt to {} ranks: take --tp {}", what, ranks, others);
}

std::string why_no_experts(const Model& model, const ModelShape& shape) {
  const std::string what = shape.deals_experts
                               ? fmt::format("{} experts", model.experts)
                               : fmt::format("{} columns of an expert", model.intermediate);
  return why_not_cut(what, shape.ranks,
                     [&](int ranks) { return experts_or_none(model, shape, ranks).has_value(); });
}

std::string why_no_linear(const Linear& linear, const ModelShape& shape) {
  const std::string what = linear.cut == Cut::by_outputs
                               ? fmt::format("{} columns", linear.n)
                               : fmt::format("terms of {} products", linear.k);
  return why_not_cut(what, shape.ranks,
                     [&](int ranks) { return product_on(linear, shape, ranks).has_value(); });
}

}  // namespace

Segment product_of(const Linear& linear, const ModelShape& shape) {
  Segment op;
  const bool gathers = linear.cut == Cut::by_outputs;
  op.kind =
      gathers ? (shape.all_reduce ? kColGemm : kAgGemm) : (shape.all_reduce ? kGemmAr : kGemmRs);
  op.m = shape.rows;
  op.n = linear.n;
  op.k = linear.k;
  op.ranks = shape.ranks;
  op.dtype = shape.dtype;
  return op;
}

namespace {

void estimate_product(const Linear& linear, const ModelShape& shape, const Machine& machine,
                      const Tuning& tuning, PartEstimate& found) {
  const Segment op = product_of(linear, shape);
  if (const auto reasons = problems(op); !reasons.empty()) {
    const std::string why = why_no_linear(linear, shape);
    throw UsageError(why.empty() ? join(reasons, "; ") : why);
  }
  found.op = op;
  const OnRanks on_ranks = [&](int ranks) { return product_on(linear, shape, ranks); };
  if (const std::string why = why_too_large(found.op, on_ranks, machine); !why.empty()) {
    throw UsageError(why);
  }
  const AutoSchedule chosen = auto_schedule(op, machine, tuning);
  const Plan plan = lower(op, chosen.schedule, machine);
  found.schedule = short_text(chosen.schedule, op, machine);
  found.reason = chosen.reason;
  found.symmetric_bytes = runtime::bytes_between_ranks(plan);
  if (const auto times = measured_times(op, chosen.schedule, machine, tuning)) {
    found.is_measured = true;
    found.library_us = times->library_us;
    found.stretto_us = times->stretto_us;
    return;
  }
  const OperatorSchedule library = schedule_of(find_preset("library"), op, machine);
  found.library_us = simulated_us(lower(op, library, machine), machine);
  found.stretto_us = simulated_us(plan, machine);
}

}  // namespace

PartEstimate estimate(const Linear& linear, const ModelShape& shape, const Machine& machine,
                      const Tuning& tuning) {
  PartEstimate found{linear.name, {}};
  try {
    estimate_product(linear, shape, machine, tuning, found);
  } catch (const UsageError& error) {  // as what is too large for a stage
    found.refused = error.what();
  }
  return found;
}

PartEstimate estimate_experts(const Model& model, const ModelShape& shape, const Machine& machine,
                              const Tuning& tuning) {
  PartEstimate found{"experts", {}};
  found.has_library = false;
  try {
    if (model.experts_a_row == 0) {
      throw UsageError("'num_experts_per_tok' is missing: how many experts each row takes");
    }
    if (!model.is_gated) throw UsageError("experts without a gate have no operator");
    if (shape.all_reduce) throw UsageError("no operator has experts where every rank has all rows");
    if (const std::string why = why_no_experts(model, shape); !why.empty()) throw UsageError(why);
    found.op = experts_on(model, shape, shape.ranks);
    const OnRanks on_ranks = [&](int ranks) { return experts_or_none(model, shape, ranks); };
    if (const std::string why = why_too_large(found.op, on_ranks, machine); !why.empty()) {
      throw UsageError(why);
    }
    const AutoSchedules chosen = auto_schedules(found.op, machine, tuning);
    const Plan plan = lower(found.op, chosen.schedule, machine);
    found.runs_on_gpus = can_run_on_gpus(plan);
    found.schedule = short_text(chosen.schedule, found.op, machine);
    found.reason = chosen.reason;
    found.symmetric_bytes = runtime::bytes_between_ranks(plan);
    const auto exposed = schedule_of(find_preset("sequential"), found.op, machine);
    found.library_us = simulated_us(lower(found.op, exposed, machine), machine);
    found.stretto_us = simulated_us(plan, machine);
  } catch (const UsageError& error) {
    found.refused = error.what();
  }
  return found;
}

bool LayerEstimate::is_whole() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const PartEstimate& one) { return one.refused.empty(); });
}

bool LayerEstimate::runs_on_gpus() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const PartEstimate& one) { return one.runs_on_gpus; });
}

double LayerEstimate::library_us() const {
  double sum = 0;
  for (const PartEstimate& one : parts) sum += one.library_us;
  return sum;
}

double LayerEstimate::stretto_us() const {
  double sum = 0;
  for (const PartEstimate& one : parts) sum += one.stretto_us;
  return sum;
}

size_t LayerEstimate::most_bytes() const {
  size_t most = 0;
  for (const PartEstimate& one : parts) most = std::max(most, one.symmetric_bytes);
  return most;
}

SimulationError simulation_error(const Tuning& tuning, const Machine& machine, int64_t rows) {
  std::vector<double> off;
  for (const TunedOperator& tuned : tuning.operators()) {
    if (tuned.machine != machine.name || is_few(tuned.op.m) != is_few(rows)) continue;
    for (const Measured& measured : tuned.measured) {
      if (measured.predicted_us)
        off.push_back(std::abs(*measured.predicted_us / measured.time_us - 1));
    }
  }
  if (off.empty()) return {};
  std::sort(off.begin(), off.end());
  return {off.size(), off[off.size() / 2], off[off.size() * 9 / 10]};
}

}  // namespace stretto::cli
