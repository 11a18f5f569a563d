#include "launch/followers.h"

#include <algorithm>
#include <optional>

#include "launch/tile_sums.h"

namespace stretto::cuda {
namespace {

using device::Follower;

// The tile that the gemm at `at` begins.
class TileFinder {
 public:
  TileFinder(const Plan& plan, const TileSums& sums, uint32_t lane)
      : plan_(plan), sums_(sums), lane_(lane), instrs_(plan.lanes[lane].instrs) {}

  std::optional<FollowedTile> find(uint32_t at) {
    const TileSum sum = sums_.of(lane_, at);
    if (sum.of_ranks != 0) return std::nullopt;
    tile_ = FollowedTile{};
    tile_.begin = tile_.product = at;
    products_.clear();
    const uint32_t end = sum.of_ranges != 0 ? sum.of_ranges : at;
    tile_.made = end;
    if (!add_product(at, end)) return std::nullopt;
    uint32_t next = end + 1;
    if (sum.of_ranges == 0) next = add_second(next);
    while (next < instrs_.size() && take(next)) ++next;
    const bool all = products_.size() == 1 || tile_.has_two();
    return tile_.last != 0 && all ? std::optional(tile_) : std::nullopt;
  }

 private:
  struct Product {
    Region at;  // where the plan has it until it is worked on
    uint32_t gemm;
    uint32_t bias = 0;
  };

  // Whether what the instruction leaves may stay in registers.
  const Region* kept(const Instr& instr) const {
    if (instr.num_writes != 1) return nullptr;
    const Region& to = plan_.writes(instr)[0];
    const Buffer& buffer = plan_.buffers[to.buffer];
    const bool stays = buffer.dtype == DType::fp32 && buffer.role == BufferRole::local &&
                       to.rank == plan_.lanes[lane_].rank && !sums_.holds_ranges(to.buffer);
    return stays ? &to : nullptr;
  }

  bool add_product(uint32_t gemm, uint32_t made) {
    const Region* const to = kept(instrs_[made]);
    if (to != nullptr) products_.push_back({*to, gemm});
    return to != nullptr;
  }

  // The gemm of the same rows of A and of as many columns behind the first, with nothing but waits
  // between; what comes behind it, or behind the first.
  uint32_t add_second(uint32_t next) {
    uint32_t at = next;
    while (at < instrs_.size() && instrs_[at].op == Opcode::wait) ++at;
    if (at == instrs_.size() || instrs_[at].op != Opcode::gemm || sums_.of(lane_, at)) return next;
    const auto first = plan_.reads(instrs_[tile_.begin]), second = plan_.reads(instrs_[at]);
    const Region &b = first.back(), &other_b = second.back();
    const bool alike =
        std::equal(first.begin(), first.end() - 1, second.begin(), second.end() - 1) &&
        b.rows() == other_b.rows() && b.col0 == other_b.col0 && b.col1 == other_b.col1;
    return alike && add_product(at, at) ? at + 1 : next;
  }

  // Whether the instruction goes on with the tile.
  bool take(uint32_t at) {
    const Instr& instr = instrs_[at];
    if (tile_.follower != Follower::none || !only_follows(instr.op)) return false;
    const auto reads = plan_.reads(instr);
    if (instr.op == Opcode::swiglu) {
      if (products_.size() != 2) return false;
      if (products_[0].at != reads[0]) std::swap(products_[0], products_[1]);
      if (products_[0].at != reads[0] || products_[1].at != reads[1]) return false;
      tile_.follower = Follower::swiglu;
      tile_.product = products_[0].gemm;
      tile_.other = products_[1].gemm;
    } else {
      const auto of = std::find_if(products_.begin(), products_.end(),
                                   [&](const Product& one) { return one.at == reads[0]; });
      if (of == products_.end()) return false;
      if (instr.op == Opcode::bias) {
        if (of->bias != 0) return false;
        of->bias = at;
        const Region* const to = kept(instr);
        // It is the last one where its result is stored.
        of->at = to != nullptr ? *to : Region{};
      } else {
        if (products_.size() != 1) return false;
        tile_.follower = instr.op == Opcode::gelu ? Follower::gelu : Follower::silu;
      }
    }
    tile_.last = at;
    for (size_t i = 0; i < products_.size(); ++i) tile_.bias[i] = products_[i].bias;
    return true;
  }

  const Plan& plan_;
  const TileSums& sums_;
  const uint32_t lane_;
  const std::vector<Instr>& instrs_;
  FollowedTile tile_;
  std::vector<Product> products_;
};

}  // namespace

bool only_follows(Opcode op) {
  return op == Opcode::bias || op == Opcode::gelu || op == Opcode::silu || op == Opcode::swiglu;
}

Followers::Followers(const Plan& plan, const TileSums& sums) {
  const bool any = std::any_of(plan.lanes.begin(), plan.lanes.end(), [](const Lane& lane) {
    return lane.kind == LaneKind::compute &&
           std::any_of(lane.instrs.begin(), lane.instrs.end(),
                       [](const Instr& instr) { return only_follows(instr.op); });
  });
  if (!any) return;
  by_lane_.resize(plan.lanes.size());
  for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
    if (plan.lanes[lane].kind == LaneKind::compute) find_in_lane(plan, sums, lane);
  }
  drop_what_others_touch(plan);
}

void Followers::find_in_lane(const Plan& plan, const TileSums& sums, uint32_t lane) {
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  TileFinder finder(plan, sums, lane);
  for (uint32_t at = 0; at < instrs.size(); ++at) {
    // Of ranges of K that stay in registers the last is the tile's.
    if (instrs[at].op != Opcode::gemm || sums.last_of(lane, at) != at) continue;
    if (const auto tile = finder.find(at)) {
      by_lane_[lane].push_back(*tile);
      at = tile->last;
    }
  }
}

// What tiles leave on their way must be read where they go on, and nowhere else.
void Followers::drop_what_others_touch(const Plan& plan) {
  enum : uint8_t { kOnTheWay = 1, kElsewhere = 2 };
  std::vector<uint8_t> touched(plan.buffers.size(), 0);
  const auto on_the_way = [&](uint32_t l, const FollowedTile& tile, const auto& visit) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = tile.made; at < tile.last; ++at) {
      if (instrs[at].is_task()) visit(plan.writes(instrs[at])[0].buffer);
    }
  };
  for (uint32_t l = 0; l < by_lane_.size(); ++l) {
    for (const FollowedTile& tile : by_lane_[l]) {
      on_the_way(l, tile, [&](uint16_t buffer) { touched[buffer] |= kOnTheWay; });
    }
  }
  for (uint32_t l = 0; l < plan.lanes.size(); ++l) {
    const std::vector<Instr>& instrs = plan.lanes[l].instrs;
    for (uint32_t at = 0; at < instrs.size(); ++at) {
      if (!instrs[at].is_task()) continue;
      const FollowedTile* const tile = around(l, at);
      // What follows a product reads what the tile has left, and bias.
      const bool follows = tile != nullptr && at > tile->made && instrs[at].op != Opcode::gemm;
      const auto reads = plan.reads(instrs[at]);
      const bool adds = instrs[at].op == Opcode::bias;
      for (const Region& read : follows ? reads.last(adds ? 1 : 0) : reads) {
        touched[read.buffer] |= kElsewhere;
      }
      if (tile == nullptr || at == tile->last || at < tile->made) {
        for (const Region& write : plan.writes(instrs[at])) touched[write.buffer] |= kElsewhere;
      }
    }
  }
  for (uint32_t l = 0; l < by_lane_.size(); ++l) {
    std::erase_if(by_lane_[l], [&](const FollowedTile& tile) {
      bool drops = false;
      on_the_way(l, tile, [&](uint16_t b) { drops = drops || (touched[b] & kElsewhere) != 0; });
      return drops;
    });
  }
  for (uint8_t& one : touched) one = one == kOnTheWay ? 1 : 0;
  in_registers_ = std::move(touched);
}

const FollowedTile* Followers::around(uint32_t lane, uint32_t position) const {
  if (by_lane_.empty()) return nullptr;
  const std::vector<FollowedTile>& tiles = by_lane_[lane];
  const auto behind =
      std::upper_bound(tiles.begin(), tiles.end(), position,
                       [](uint32_t at, const FollowedTile& tile) { return at < tile.begin; });
  if (behind == tiles.begin() || position > (behind - 1)->last) return nullptr;
  return &*(behind - 1);
}

}  // namespace stretto::cuda
