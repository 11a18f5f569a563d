// Operators whose rows choose experts, in small sizes, and the schedules that tests try.
#pragma once

#include <gmock/gmock.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "small_plans.h"

namespace stretto {

inline constexpr int kSms = 10;
inline constexpr RoutingKind kRoutings[] = {RoutingKind::uniform, RoutingKind::zipf,
                                            RoutingKind::one_hot, RoutingKind::adversarial};

inline bool only_moves(std::string_view name) {
  return name.starts_with("dispatch") || name == "combine";
}

// Blocks of tokens are short, some ranks have none, and with few of them the last rank has an
// expert less.
inline Sizes sizes_of(std::string_view name, int ranks, int64_t tokens) {
  const int64_t fewer = ranks > 1 && tokens < 10 ? 1 : 0;
  const bool are_dealt = name.starts_with("moe-ep") || only_moves(name);
  const int64_t experts = are_dealt ? 3 * ranks - fewer : 7;
  Sizes sizes = {{"t", tokens}, {"h", 40}, {"experts", experts}, {"k", 3}};
  if (!only_moves(name)) sizes.emplace_back("f", 8 * ranks);
  if (name == "moe-ep-shared") sizes.emplace_back("s", 24);
  return sizes;
}

// Owners add the sums that the others write to them; tokens are brought by NCCL, or sent ahead of
// the product by all blocks (Mover::epilogue) or by copy engines.
inline std::optional<OperatorSchedule> with_written_sums(const Operator& op,
                                                         const OperatorSchedule& by_nccl,
                                                         Mover of_tokens) {
  OperatorSchedule schedule = by_nccl;
  size_t product = 0;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product) continue;
    Schedule& one = schedule.products[product++];
    const bool by_nccl_alone = one.mover == Mover::nccl && one.collectives == CollectivesBy::nccl;
    if (!segment.product->is_routed() || !by_nccl_alone) continue;
    one.mover = of_tokens;
    if (one.reduction != Reduction::nccl) continue;
    const bool is_all_reduce = segment.product->kind.out == Edge::all_reduce;
    one.reduction = is_all_reduce ? Reduction::two_shot : Reduction::slots;
  }
  return schedule == by_nccl ? std::nullopt : std::optional(std::move(schedule));
}

// Copy engines bring tokens, and products take the sources one after the other.
inline std::optional<OperatorSchedule> with_sources_in_turn(const Operator& op,
                                                            const OperatorSchedule& by_nccl) {
  auto schedule = with_written_sums(op, by_nccl, Mover::copy_engine);
  if (!schedule) return std::nullopt;
  for (Schedule& one : schedule->products) {
    if (one.mover == Mover::copy_engine) one.granularity = Granularity::chunk;
  }
  return schedule;
}

// The same where collectives go by ids, if they can.
inline std::optional<OperatorSchedule> with_ids(const Operator& op, const Machine& machine,
                                                OperatorSchedule by_nccl) {
  for (Schedule& product : by_nccl.products) {
    const bool is_so = product.mover == Mover::nccl && product.reduction != Reduction::slots;
    if (!is_so || product.collectives != CollectivesBy::nccl) return std::nullopt;
    product.collectives = CollectivesBy::low_latency;
  }
  return legal(op, by_nccl, machine).empty() ? std::optional(std::move(by_nccl)) : std::nullopt;
}

// Sums alone by collectives that go by ids, behind tokens that come in another way.
inline std::optional<OperatorSchedule> with_sums_by_ids(const Operator& op, const Machine& machine,
                                                        OperatorSchedule written) {
  bool any_other = false;
  for (Schedule& product : written.products) {
    if (product.reduction != Reduction::slots) {
      any_other = any_other || product.mover != Mover::nccl;
      continue;
    }
    product.mover = Mover::nccl;
    product.reduction = Reduction::nccl;
    product.collectives = CollectivesBy::low_latency;
  }
  return any_other && legal(op, written, machine).empty() ? std::optional(std::move(written))
                                                          : std::nullopt;
}

// Both partitions, and tiles of all heights, whatever the preset takes.
inline std::vector<OperatorSchedule> schedules_of(const Operator& op, const Machine& machine) {
  std::vector<OperatorSchedule> all;
  for (OperatorSchedule schedule : small_presets(op, machine)) {
    all.push_back(schedule);
    if (schedule.products[0].mover != Mover::comm_blocks || op.ranks == 1) continue;
    for (Schedule& product : schedule.products) {
      product.granularity =
          product.granularity == Granularity::whole ? Granularity::chunk : Granularity::whole;
      product.tile_m = 16;
      product.reuse = Reuse::ack;
    }
    EXPECT_THAT(legal(op, schedule, machine), testing::IsEmpty());
    all.push_back(schedule);
  }
  for (size_t i = 0, count = all.size(); i < count; ++i) {
    OperatorSchedule passes = all[i];
    size_t product = 0;
    for (const OperatorSegment& segment : op.segments) {
      if (!segment.product) continue;
      Schedule& one = passes.products[product++];
      if (segment.product->is_routed()) one.permute = Permute::pass;
    }
    if (!(passes == all[i])) all.push_back(std::move(passes));
    if (op.ranks == 1) continue;
    constexpr int kFewRanks = 3;  // more would show no more, and cost time
    auto written = with_written_sums(op, all[i], Mover::nccl);
    if (written && op.ranks <= kFewRanks) all.push_back(*std::move(written));
    if (auto sent = with_written_sums(op, all[i], Mover::epilogue)) all.push_back(*std::move(sent));
    auto copied = with_written_sums(op, all[i], Mover::copy_engine);
    if (copied && op.ranks <= kFewRanks) {
      if (auto ids = with_sums_by_ids(op, machine, *copied)) all.push_back(*std::move(ids));
      all.push_back(*std::move(copied));
    }
    if (auto in_turn = with_sources_in_turn(op, all[i])) all.push_back(*std::move(in_turn));
    if (auto chosen = with_ids(op, machine, all[i])) all.push_back(*std::move(chosen));
  }
  return all;
}

}  // namespace stretto
