#include "cuda/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// Whole rows of a buffer.
struct Rows {
  uint16_t buffer = 0, rank = 0;
  int32_t row0 = 0, row1 = 0;
};

// Whether no operand of the plan lies in the rows of `region` but beside its columns.
bool has_its_rows_alone(const Plan& plan, const Region& region) {
  const int32_t cols = plan.buffers[region.buffer].cols;
  Region left = region, right = region;
  left.col0 = 0;
  left.col1 = region.col0;
  right.col0 = region.col1;
  right.col1 = cols;
  return std::none_of(plan.operands.begin(), plan.operands.end(), [&](const Region& other) {
    return (!left.empty() && left.overlaps(other)) || (!right.empty() && right.overlaps(other));
  });
}

class CollectiveParts {
 public:
  CollectiveParts(const Plan& plan, const Instr& instr) : plan_(plan), kind_(instr.collective) {
    for (int rank = 0; rank < plan.ranks(); ++rank) by_rank_.push_back(find(rank, instr.id));
    groups_ = kind_ == CollectiveKind::all_reduce ? 1 : plan.ranks();
    const size_t many =
        kind_ == CollectiveKind::reduce_scatter ? instr.num_reads : instr.num_writes;
    parts_ = many / static_cast<size_t>(groups_);
    for (int group = 0; group < groups_; ++group) {
      for (size_t part = 0; part < parts_; ++part) add(group, part);
    }
  }

  std::vector<NcclCall> calls_of(int rank, const BufferPlaces& places, int set) const {
    std::vector<NcclCall> calls;
    if (pieces_.empty()) return calls;
    const auto r = static_cast<size_t>(rank);
    const auto address = [&](const Rows& rows) {
      return address_of(places, rows.rank, rows.buffer, set) +
             offset_of(plan_.buffers[rows.buffer], rows.row0, 0);
    };
    const auto make = [&](NcclCall::Kind kind, const Piece& piece, const Rows& from,
                          const Rows& to) {
      const Buffer& buffer = plan_.buffers[from.buffer];
      calls.push_back({kind, buffer.dtype, piece.group, address(from), address(to), piece.count});
    };
    const bool gathers = kind_ == CollectiveKind::all_gather;
    if (kind_ != CollectiveKind::all_reduce && is_even()) {
      const Piece& own = pieces_[r];
      const Piece& first = pieces_[0];
      make(gathers ? NcclCall::Kind::all_gather : NcclCall::Kind::reduce_scatter, own,
           gathers ? own.from[r] : first.from[r], gathers ? first.to[r] : own.to[r]);
      return calls;
    }
    for (const Piece& piece : pieces_) {
      make(kind_ == CollectiveKind::all_reduce ? NcclCall::Kind::all_reduce
           : gathers                           ? NcclCall::Kind::broadcast
                                               : NcclCall::Kind::reduce,
           piece, piece.from[r], piece.to[r]);
    }
    return calls;
  }

 private:
  // What one call can move: where it comes from and goes to on every rank.
  struct Piece {
    int group = 0;
    int64_t count = 0;
    std::vector<Rows> from, to;
  };

  const Instr& find(int rank, int32_t id) const {
    for (const Lane& lane : plan_.lanes) {
      if (lane.rank != rank || lane.kind != LaneKind::nccl) continue;
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::collective && instr.id == id) return instr;
      }
    }
    throw UsageError(fmt::format("rank {} does not join collective {}", rank, id));
  }

  Rows rows_of(const Region& region) const {
    const Buffer& buffer = plan_.buffers[region.buffer];
    if (region.cols() != buffer.cols && !region.empty() && !has_its_rows_alone(plan_, region)) {
      throw UsageError(fmt::format(
          "NCCL moves whole rows: {} has {} of {} columns, and the plan uses the others",
          describe(plan_, region), region.cols(), buffer.cols));
    }
    return {region.buffer, region.rank, region.row0, region.row1};
  }

  // Root and owner hold a part once; on other ranks their own operand stands in, unused.
  void add(int group, size_t part) {
    Piece piece;
    piece.group = group;
    const size_t flat = static_cast<size_t>(group) * parts_ + part;
    for (const Instr& instr : by_rank_) {
      const auto reads = plan_.reads(instr), writes = plan_.writes(instr);
      piece.from.push_back(rows_of(reads[kind_ == CollectiveKind::all_gather ? part : flat]));
      piece.to.push_back(rows_of(writes[kind_ == CollectiveKind::reduce_scatter ? part : flat]));
    }
    const bool gathers = kind_ == CollectiveKind::all_gather;
    const Rows& size = gathers ? piece.to[0] : piece.from[0];
    if (size.row0 == size.row1) return;
    piece.count = int64_t{size.row1 - size.row0} * plan_.buffers[size.buffer].cols;
    if (!pieces_.empty() && follows(pieces_.back(), piece)) {
      Piece& last = pieces_.back();
      last.count += piece.count;
      for (size_t r = 0; r < by_rank_.size(); ++r) {
        last.from[r].row1 = piece.from[r].row1;
        last.to[r].row1 = piece.to[r].row1;
      }
      return;
    }
    pieces_.push_back(std::move(piece));
  }

  static bool adjacent(const Rows& a, const Rows& b) {
    return a.buffer == b.buffer && a.rank == b.rank && a.row1 == b.row0;
  }
  bool follows(const Piece& a, const Piece& b) const {
    if (a.group != b.group) return false;
    for (size_t r = 0; r < by_rank_.size(); ++r) {
      if (!adjacent(a.from[r], b.from[r]) || !adjacent(a.to[r], b.to[r])) return false;
    }
    return true;
  }

  // One equal piece a group, one behind the other where all of them lie.
  bool is_even() const {
    if (pieces_.size() != static_cast<size_t>(groups_)) return false;
    for (size_t g = 0; g < pieces_.size(); ++g) {
      if (pieces_[g].group != static_cast<int>(g) || pieces_[g].count != pieces_[0].count) {
        return false;
      }
      for (size_t r = 0; g > 0 && r < by_rank_.size(); ++r) {
        const bool gathers = kind_ == CollectiveKind::all_gather;
        const auto& before = gathers ? pieces_[g - 1].to[r] : pieces_[g - 1].from[r];
        if (!adjacent(before, gathers ? pieces_[g].to[r] : pieces_[g].from[r])) return false;
      }
    }
    return true;
  }

  const Plan& plan_;
  CollectiveKind kind_;
  std::vector<Instr> by_rank_;
  int groups_ = 1;
  size_t parts_ = 0;
  std::vector<Piece> pieces_;  // by group
};

}  // namespace

std::vector<NcclCall> nccl_calls(const Plan& plan, uint32_t lane, uint32_t position,
                                 const BufferPlaces& places, int set) {
  const Instr& instr = plan.lanes[lane].instrs[position];
  return CollectiveParts(plan, instr).calls_of(plan.lanes[lane].rank, places, set);
}

}  // namespace stretto::cuda
