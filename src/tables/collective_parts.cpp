#include "tables/collective_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stretto/error.h"

namespace stretto::cuda {
namespace {

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

bool are_adjacent(const BufferRows& a, const BufferRows& b) {
  return a.buffer == b.buffer && a.rank == b.rank && a.row1 == b.row0;
}

}  // namespace

DevicePtr address_of(const Plan& plan, const BufferPlaces& places, const BufferRows& rows,
                     int set) {
  return address_of(places, rows.rank, rows.buffer, set) +
         offset_of(plan.buffers[rows.buffer], rows.row0, 0);
}

BufferRows whole_rows(const Plan& plan, const Region& region) {
  const Buffer& buffer = plan.buffers[region.buffer];
  if (region.cols() != buffer.cols && !region.empty() && !has_its_rows_alone(plan, region)) {
    throw UsageError(fmt::format(
        "collectives move whole rows: {} has {} of {} columns, and the plan uses the others",
        describe(plan, region), region.cols(), buffer.cols));
  }
  return {region.buffer, region.rank, region.row0, region.row1};
}

const Instr& collective_of(const Plan& plan, int rank, int32_t id) {
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::nccl) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::collective && instr.id == id) return instr;
    }
  }
  throw UsageError(fmt::format("rank {} does not join collective {}", rank, id));
}

CollectiveParts::CollectiveParts(const Plan& plan, const Instr& instr, int rank)
    : plan_(plan), kind_(instr.collective), joined_(plan.joined_by(instr, rank)) {
  for (int i = 0; i < joined_.count; ++i)
    by_rank_.push_back(collective_of(plan, joined_.first + i, instr.id));
  const CollectiveForm& form = form_of(kind_);
  groups_ = form.groups_reads || form.groups_writes ? joined_.count : 1;
  STRETTO_ASSERT(!form.groups_reads || !form.groups_writes, "an all-to-all has no pieces");
  parts_ = form.parts(instr.num_reads, static_cast<size_t>(joined_.count));
  for (int group = 0; group < groups_; ++group) {
    for (size_t part = 0; part < parts_; ++part) add(group, part);
  }
}

void CollectiveParts::add(int group, size_t part) {
  CollectivePiece piece;
  piece.group = group;
  const size_t flat = static_cast<size_t>(group) * parts_ + part;
  for (const Instr& instr : by_rank_) {
    const auto reads = plan_.reads(instr), writes = plan_.writes(instr);
    piece.from.push_back(
        whole_rows(plan_, reads[kind_ == CollectiveKind::all_gather ? part : flat]));
    piece.to.push_back(
        whole_rows(plan_, writes[kind_ == CollectiveKind::reduce_scatter ? part : flat]));
  }
  const bool gathers = kind_ == CollectiveKind::all_gather;
  const BufferRows& size = gathers ? piece.to[0] : piece.from[0];
  if (size.row0 == size.row1) return;
  piece.count = int64_t{size.row1 - size.row0} * plan_.buffers[size.buffer].cols;
  if (!pieces_.empty() && follows(pieces_.back(), piece)) {
    CollectivePiece& last = pieces_.back();
    last.count += piece.count;
    for (size_t r = 0; r < by_rank_.size(); ++r) {
      last.from[r].row1 = piece.from[r].row1;
      last.to[r].row1 = piece.to[r].row1;
    }
    return;
  }
  pieces_.push_back(std::move(piece));
}

bool CollectiveParts::follows(const CollectivePiece& a, const CollectivePiece& b) const {
  if (a.group != b.group) return false;
  for (size_t r = 0; r < by_rank_.size(); ++r) {
    if (!are_adjacent(a.from[r], b.from[r]) || !are_adjacent(a.to[r], b.to[r])) return false;
  }
  return true;
}

bool CollectiveParts::are_rows_of_owners() const {
  const bool gathers = kind_ == CollectiveKind::all_gather;
  for (size_t g = 0; g < pieces_.size(); ++g) {
    if (pieces_[g].group != static_cast<int>(g)) return false;
    if (g == 0) continue;
    if (pieces_[g].count > pieces_[0].count) return false;
    if (g + 1 < pieces_.size() && pieces_[g].count != pieces_[0].count) return false;
    for (size_t r = 0; r < by_rank_.size(); ++r) {
      if (!are_adjacent(gathers ? pieces_[g - 1].to[r] : pieces_[g - 1].from[r],
                        gathers ? pieces_[g].to[r] : pieces_[g].from[r])) {
        return false;
      }
    }
  }
  return true;
}

bool CollectiveParts::are_even() const {
  return pieces_.size() == static_cast<size_t>(groups_) && are_rows_of_owners() &&
         pieces_.back().count == pieces_.front().count;
}

}  // namespace stretto::cuda
