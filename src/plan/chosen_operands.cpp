#include "plan/chosen_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "stretto/device/routing.h"

namespace stretto {
namespace {

// Experts, and choices of a token: what kernels count of them, for all ranks, fits in 32 bits. No
// operator has more.
constexpr int64_t kMostNumbered = int64_t{1} << 30;

// A region as it must be.
struct Expected {
  std::string_view name;
  const Region* region;
  int64_t rows, cols;
  std::optional<DType> dtype = {};  // nothing: what the first region has
  bool may_be_wide = false;         // i64 in the place of i32
};

std::string fault_in(const Plan& plan, const std::vector<Expected>& all, DType dtype) {
  for (const Expected& one : all) {
    const DType has = plan.buffers[one.region->buffer].dtype, wants = one.dtype.value_or(dtype);
    const bool is_wide = one.may_be_wide && has == DType::i64;
    if (one.region->rows() == one.rows && one.region->cols() == one.cols &&
        (has == wants || is_wide)) {
      continue;
    }
    return fmt::format("expected {} of {}x{} {}, found {} of {}x{} {}", one.name, one.rows,
                       one.cols, to_string(wants), describe(plan, *one.region), one.region->rows(),
                       one.region->cols(), to_string(has));
  }
  return {};
}

}  // namespace

int32_t ChosenOperands::first_expert(int rank, int ranks) const {
  return of_all_experts ? 0
                        : device::ExpertShares{static_cast<int32_t>(experts), ranks}.begin(rank);
}

int32_t ChosenOperands::experts_on(int rank, int ranks) const {
  const auto all = static_cast<int32_t>(experts);
  return of_all_experts ? all : device::ExpertShares{all, ranks}.size(rank);
}

ChosenOperands chosen_operands(const Plan& plan, const Instr& instr) {
  const auto reads = plan.reads(instr);
  ChosenOperands of;
  of.of_all_experts = form_of(instr.collective).of_all_experts;
  of.experts = instr.count(0);
  of.top_k = reads[1].cols();
  if (form_of(instr.collective).adds) {
    const int32_t dealt = plan.buffers[reads[1].buffer].sharded_rows;
    of.round_trip = reads.size() == 3 && dealt > 0;
    of.tokens = of.round_trip ? dealt : reads[1].rows();
    of.cols = reads[2].cols();
    of.by_choice = !of.round_trip && reads.size() == 3 && reads[2].rows() == of.tokens * of.top_k;
  } else {
    const Dispatched to = dispatched(plan, instr);
    of.by_choice = to.ids == nullptr;
    of.tokens = of.by_choice ? to.rows->rows() / std::max<int64_t>(1, of.top_k) : to.rows->rows();
    of.cols = reads[0].cols();
  }
  return of;
}

Dispatched dispatched(const Plan& plan, const Instr& instr) {
  const auto writes = plan.writes(instr);
  const auto at = [&](size_t i) { return i < writes.size() ? &writes[i] : nullptr; };
  if (instr.num_reads > 2) return {at(0), at(1), at(2), at(3)};
  if (writes.size() > 1 && is_index(plan.buffers[writes[0].buffer].dtype)) return {at(1), at(0)};
  return {.rows = at(0), .counts = at(1)};
}

bool counts_bad_ids(const Plan& plan, const Instr& instr) {
  if (!plan.partitions.empty()) return false;
  for (const Lane& lane : plan.lanes) {
    if (lane.kind != LaneKind::nccl) continue;
    std::vector<Region> seen;
    for (const Instr& one : lane.instrs) {
      if (one.op != Opcode::collective || !form_of(one.collective).goes_by_ids()) continue;
      const Region& ids = plan.reads(one)[1];
      const bool is_first =
          std::none_of(seen.begin(), seen.end(), [&](const Region& s) { return s.overlaps(ids); });
      if (one.id == instr.id) return is_first;
      seen.push_back(ids);
      // Ids that came with tokens are those of all ranks.
      if (form_of(one.collective).adds) continue;
      if (const Region* const all = dispatched(plan, one).ids) seen.push_back(*all);
    }
  }
  return false;
}

double share_of_choices(const ChosenOperands& of, int ranks) {
  return of.of_all_experts ? 1 : 1.0 / ranks;
}

double share_that_goes(const ChosenOperands& of, int ranks) {
  if (of.of_all_experts) return 1;
  return 1 - std::pow(1 - 1.0 / ranks, static_cast<double>(of.top_k));
}

std::string fault_in_chosen(const Plan& plan, const Lane& lane, const Instr& instr) {
  const auto reads = plan.reads(instr), writes = plan.writes(instr);
  const bool sums = form_of(instr.collective).adds;
  const size_t least = sums ? 3 : 2, most = least + 1;
  const bool has_weights = !sums && reads.size() == 3;
  const bool counts_fit = sums          ? writes.size() == 1
                          : has_weights ? writes.size() == 3 || writes.size() == 4
                                        : writes.size() == 1 || writes.size() == 2;
  if (reads.size() < least || reads.size() > most || !counts_fit || instr.count(0) < 1) {
    return fmt::format("expected {} to read and write {}, found {} and {} regions",
                       to_string(instr.collective), form_of(instr.collective).operands,
                       reads.size(), writes.size());
  }
  if (!plan.low_latency_collectives) {
    return fmt::format("expected {} in a plan with 'collectives low-latency', found none above",
                       to_string(instr.collective));
  }
  if (instr.team > 0) return fmt::format("expected no teams, found team={}", instr.team);
  if (!sums && !has_weights && writes.size() == 2 && writes[1].cols() > 1 &&
      is_index(plan.buffers[writes[1].buffer].dtype)) {
    return "expected IDS ahead of rows where no WEIGHTS come along, found them behind";
  }
  const ChosenOperands of = chosen_operands(plan, instr);
  for (const auto& [name, number] : {std::pair("experts", of.experts), {"choices", of.top_k}}) {
    if (number <= kMostNumbered) continue;
    return fmt::format("expected at most {} {}, found {}", kMostNumbered, name, number);
  }
  const int64_t own = RowShards{of.tokens, plan.ranks()}.size(lane.rank);
  const int64_t choices = of.tokens * of.top_k;
  constexpr DType kIds = DType::i32;
  std::vector<Expected> all;
  DType dtype = plan.buffers[reads[0].buffer].dtype;
  if (sums) {
    dtype = plan.buffers[reads[2].buffer].dtype;
    const bool all_weights = !of.round_trip && reads[0].rows() == of.tokens;
    all.push_back({"WEIGHTS", &reads[0], all_weights ? of.tokens : own, of.top_k, DType::fp32});
    all.push_back({"IDS", &reads[1], of.round_trip ? own : of.tokens, of.top_k, kIds, true});
    const int64_t rows = reads.size() == 4 ? reads[2].rows() : of.by_choice ? choices : of.tokens;
    all.push_back(
        {of.round_trip ? "own rows" : "rows", &reads[2], of.round_trip ? own : rows, of.cols});
    if (reads.size() == 4) all.push_back({"ROWS", &reads[3], choices, 1, kIds});
    all.push_back({"own sums", &writes[0], own, of.cols});
  } else {
    const Dispatched to = dispatched(plan, instr);
    all.push_back({"own rows", &reads[0], own, of.cols});
    const bool all_ids = of.by_choice && reads[1].rows() == of.tokens;
    all.push_back({"IDS", &reads[1], all_ids ? of.tokens : own, of.top_k, kIds, true});
    if (has_weights) all.push_back({"own WEIGHTS", &reads[2], own, of.top_k, DType::fp32});
    all.push_back({"rows", to.rows, of.by_choice ? choices : of.tokens, of.cols});
    if (to.ids) all.push_back({"IDS", to.ids, of.tokens, of.top_k, kIds});
    if (to.weights) all.push_back({"WEIGHTS", to.weights, of.tokens, of.top_k, DType::fp32});
    if (to.counts) {
      all.push_back({"COUNTS", to.counts, of.experts_on(lane.rank, plan.ranks()), 1, kIds});
    }
  }
  if (is_index(dtype)) return fmt::format("expected rows of numbers, found {}", to_string(dtype));
  return fault_in(plan, all, dtype);
}

}  // namespace stretto
