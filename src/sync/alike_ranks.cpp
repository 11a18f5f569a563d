#include "sync/alike_ranks.h"

#include <algorithm>

namespace stretto {
namespace {

// `lanes` of equal length, lane by lane.
bool same_lanes(std::span<const Lane> a, std::span<const Lane> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Lane& x, const Lane& y) {
    return x.kind == y.kind && x.instrs.size() == y.instrs.size() &&
           std::equal(x.instrs.begin(), x.instrs.end(), y.instrs.begin(),
                      [](const Instr& i, const Instr& j) { return i.op == j.op; });
  });
}

}  // namespace

std::optional<AlikeRanks> AlikeRanks::find(const Draft& draft) {
  const std::vector<Lane>& lanes = draft.plan.lanes;
  const auto ranks = static_cast<size_t>(draft.plan.ranks());
  if (ranks == 1 || lanes.empty() || lanes.size() % ranks != 0) return std::nullopt;
  const size_t lanes_each = lanes.size() / ranks;
  const auto of_rank = [&](size_t rank) {
    return std::span(lanes).subspan(rank * lanes_each, lanes_each);
  };
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (const Lane& lane : of_rank(rank)) {
      if (lane.rank != rank || lane.kind == LaneKind::nccl) return std::nullopt;
    }
    if (!same_lanes(of_rank(rank), of_rank(0))) return std::nullopt;
  }

  AlikeRanks alike;
  alike.ranks_ = static_cast<int>(ranks);
  std::vector<uint32_t> first;  // index of each lane's first instruction
  uint32_t count = 0;
  for (const Lane& lane : lanes) {
    first.push_back(count);
    count += static_cast<uint32_t>(lane.instrs.size());
  }
  if (count == 0 || count != draft.program.size()) return std::nullopt;
  alike.per_rank_ = count / static_cast<uint32_t>(ranks);
  alike.places_.resize(count);
  alike.at_.resize(count);
  std::vector<uint32_t> order(count);  // by rank: its instructions in the program's order
  std::vector<uint32_t> next(ranks, 0);
  for (uint32_t at = 0; at < count; ++at) {
    const InstrRef& ref = draft.program[at];
    const uint32_t rank = lanes[ref.lane].rank, index = first[ref.lane] + ref.pos;
    alike.places_[at] = {static_cast<int32_t>(rank), index - rank * alike.per_rank_};
    alike.at_[index] = at;
    order[rank * alike.per_rank_ + next[rank]++] = index - rank * alike.per_rank_;
  }
  for (size_t rank = 1; rank < ranks; ++rank) {
    const auto own = order.begin() + static_cast<std::ptrdiff_t>(rank * alike.per_rank_);
    if (!std::equal(order.begin(), order.begin() + alike.per_rank_, own)) return std::nullopt;
  }
  return alike;
}

}  // namespace stretto
