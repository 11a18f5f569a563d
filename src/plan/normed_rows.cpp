#include "plan/normed_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/tile_task.h"

namespace stretto {
namespace {

// What a norm may be one task with.
bool makes_rows(Opcode op) { return is_sum(op) || reads_tiles(op); }

}  // namespace

NormedRows rows_normed_at(const Lane& lane, uint32_t at) {
  const Instr& first = lane.instrs[at];
  if (is_norm(first.op)) return {nullptr, &first, first.attribute()};
  if (!makes_rows(first.op) || at + 1 == lane.instrs.size()) return {};
  const Instr& next = lane.instrs[at + 1];
  if (!is_norm(next.op) || !next.fused) return {};
  return {&first, &next, next.attribute()};
}

std::string why_no_norm(const Plan& plan, const NormedRows& rows) {
  const auto type_of = [&](const Region& region) { return plan.buffers[region.buffer].dtype; };
  const Region& normed = plan.reads(*rows.norm)[0];
  const DType to = type_of(plan.writes(*rows.norm)[0]);
  const auto reads = plan.reads(rows.sum != nullptr ? *rows.sum : *rows.norm);
  if (normed.cols() % 8 != 0) {
    return fmt::format("rows of {} columns cannot be normed: take a multiple of 8", normed.cols());
  }
  if (type_of(reads[0]) != DType::fp32 && type_of(reads[0]) != to) {
    return fmt::format("a norm of {} rows has {} rows, not {}", to_string(type_of(reads[0])),
                       to_string(type_of(reads[0])), to_string(to));
  }
  if (rows.sum == nullptr) return "";
  const auto sums = plan.writes(*rows.sum);
  if (type_of(sums[0]) != to) return "a sum and its norm in one task are of one type";
  // It then reads its sources once more, behind the first stores.
  const auto bytes = static_cast<uint32_t>(normed.cols() * num_bytes(type_of(reads[0])));
  const bool meets = std::any_of(sums.begin(), sums.end(), [&](const Region& sum) {
    return std::any_of(reads.begin(), reads.end(),
                       [&](const Region& r) { return r.overlaps(sum); });
  });
  if (bytes > kMostBytesKept && meets) {
    return fmt::format(
        "a sum of rows of {} bytes that takes the place of what it adds is normed "
        "by a task of its own",
        bytes);
  }
  return "";
}

std::string why_not_with_sum(const Plan& plan, const Lane& lane, uint32_t at) {
  constexpr const char* kExpected =
      "expected a fused norm directly behind the reduce or restore that makes its rows, which is "
      "not "
      "fused";
  if (at == 0) return kExpected;
  const Instr &sum = lane.instrs[at - 1], &norm = lane.instrs[at];
  if (!makes_rows(sum.op) || sum.fused) return kExpected;
  const auto sums = plan.writes(sum);
  const Region& normed = plan.reads(norm)[0];
  if (normed.rank != lane.rank || std::find(sums.begin(), sums.end(), normed) == sums.end()) {
    return kExpected;
  }
  const std::string why = why_no_norm(plan, {&sum, &norm, norm.attribute()});
  return why.empty() ? "" : "expected what one task sums up and norms: " + why;
}

}  // namespace stretto
