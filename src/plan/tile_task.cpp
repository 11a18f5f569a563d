#include "plan/tile_task.h"

#include <algorithm>
#include <span>
#include <utility>

namespace stretto {
namespace {

using std::string_view;

bool same_shape(const Region& a, const Region& b) {
  return a.rows() == b.rows() && a.cols() == b.cols();
}

bool in_vectors(const Buffer& buffer, const Region& region) {
  return buffer.cols % kColumnsAtOnce == 0 && region.col0 % kColumnsAtOnce == 0 &&
         region.cols() % kColumnsAtOnce == 0;
}

// Rows from each of the regions to the next, when they lie at equal distances in the tile's buffer
// and have its shape; else 0. Closer together than that, the others hold rows of the tile.
int32_t step_between(std::span<const Region> reads, const Region& tile) {
  if (reads.size() < 2) return 0;
  const int64_t step = int64_t{reads[1].row0} - reads[0].row0;  // rows may be as many as 2^31
  for (size_t s = 0; s < reads.size(); ++s) {
    const Region& read = reads[s];
    if (read.buffer != tile.buffer || read.rank != tile.rank || !same_shape(read, tile) ||
        read.row0 != reads[0].row0 + static_cast<int64_t>(s) * step || read.col0 != tile.col0) {
      return 0;
    }
  }
  return step >= tile.rows() ? static_cast<int32_t>(step) : 0;
}

// What is added to a tile of ranks' sums behind these: as much of another buffer of the rank.
bool is_residual(const Plan& plan, const Region& read, const Region& tile) {
  const Buffer &from = plan.buffers[read.buffer], &to = plan.buffers[tile.buffer];
  return read.buffer != tile.buffer && read.rank == tile.rank && same_shape(read, tile) &&
         from.dtype == to.dtype && in_vectors(from, read);
}

bool is_notify(const Instr& instr) { return instr.op == Opcode::notify; }

// Whether the gemm has the range of K that a rank behind an all-to-all takes next: where K ends it
// goes on with its beginning. The first range may lie in a matrix of its own, which has the columns
// of one rank only.
bool leads_to_source(const Plan& plan, const Instr& gemm, const Instr& next, bool is_first) {
  const auto before = plan.reads(gemm), after = plan.reads(next);
  if (gemm.op != Opcode::gemm || next.op != Opcode::gemm || before.size() != 2 ||
      after.size() != 2) {
    return false;
  }
  const Region &a = before[0], &b = before[1], &next_a = after[0], &next_b = after[1];
  const int32_t end = plan.buffers[b.buffer].cols_on(b.rank);
  const bool wraps = b.col1 == end && next_b.col0 == 0 && next_b.col1 <= b.col0;
  Region following = b;
  following.col0 = next_b.col0;
  following.col1 = next_b.col1;
  if (following != next_b || (!wraps && next_b.col0 != b.col1)) return false;
  if (next_a.col0 != next_b.col0 || next_a.rank != a.rank || next_a.rows() != a.rows() ||
      b.col0 % kBlockOfK != 0) {
    return false;
  }
  // Behind the last column of what ends there kernels read zeros.
  const bool ends_with_block = a.cols() % kBlockOfK == 0;
  const bool ends_with_buffers = wraps && a.col1 == plan.buffers[a.buffer].cols_on(a.rank);
  if (!ends_with_block && !ends_with_buffers) return false;
  if (next_a.buffer != a.buffer) return is_first && a.col0 == 0;
  return a.col0 == b.col0 && next_a.row0 == a.row0;
}

// Whether the gemm computes the same tile over the range of K that follows.
bool leads_to(const Plan& plan, const Instr& gemm, const Instr& next) {
  const auto before = plan.reads(gemm), after = plan.reads(next);
  if (is_routed_product(next.op) || before.size() != 2 || after.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    Region following = before[i];
    following.col0 = after[i].col0;
    following.col1 = after[i].col1;
    if (following != after[i] || before[i].col1 != after[i].col0) return false;
  }
  return before[0].cols() % kBlockOfK == 0;
}

// Whether the gemm has the same rows of A, and as many columns.
bool is_beside(const Plan& plan, const Instr& gemm, const Instr& next) {
  if (next.op != gemm.op) return false;
  if (is_routed_product(next.op) &&
      (next.count(0) != gemm.count(0) || next.count(1) != gemm.count(1))) {
    return false;
  }
  const auto first = plan.reads(gemm), second = plan.reads(next);
  const Region &b = first.back(), &other_b = second.back();
  return std::equal(first.begin(), first.end() - 1, second.begin(), second.end() - 1) &&
         b.rows() == other_b.rows() && b.col0 == other_b.col0 && b.col1 == other_b.col1;
}

}  // namespace

uint32_t end_of_head(const std::vector<Instr>& instrs, uint32_t begin, uint32_t end) {
  uint32_t split = begin;
  for (uint32_t i = begin; i < end && (instrs[i].is_sync() || is_ahead_of_tiles(instrs[i].op));
       ++i) {
    if (is_ahead_of_tiles(instrs[i].op)) split = i + 1;
  }
  while (split > begin && split < end && instrs[split].op == Opcode::notify) ++split;
  return split;
}

TileTask::TileTask(const Plan& plan, const Lane& lane, uint32_t at) : plan_(plan), lane_(lane) {
  tile_.begin = tile_.gemm = tile_.last = at;
}

bool TileTask::may_go_on(const Plan& plan, const Instr& gemm, const Instr& next) {
  return !is_product(next.op) || leads_to(plan, gemm, next) ||
         leads_to_source(plan, gemm, next, true) || is_beside(plan, gemm, next);
}

string_view TileTask::take(uint32_t at) {
  const string_view why = take(role_of(instr(at).op), at);
  if (why.empty()) tile_.last = at;
  return why;
}

string_view TileTask::take(TileRole role, uint32_t at) {
  switch (role) {
    case TileRole::product:
      return take_gemm(at);
    case TileRole::sum:
      return take_reduce(at);
    case TileRole::row:
    case TileRole::activation:
    case TileRole::gate:
      return follow(at);
    case TileRole::none:
    case TileRole::norm:
      break;
  }
  return "expected a task that goes on with a tile in registers";
}

bool TileTask::is_whole() const {
  if (stage_ == Stage::multiplies) return num_ranges_ == 1;
  return num_products_ == 1 || tile_.followed.has_two();
}

const Region* TileTask::kept_by(const Plan& plan, int rank, const Instr& instr) {
  if (instr.num_writes != 1) return nullptr;
  const Region& to = plan.writes(instr)[0];
  return keeps(plan.buffers[to.buffer]) && to.rank == rank ? &to : nullptr;
}

bool TileTask::tells(uint32_t from, uint32_t to) const {
  return std::any_of(lane_.instrs.begin() + from + 1, lane_.instrs.begin() + to, is_notify);
}

// Ranges that begin behind the tile's first one, or have gone through the end of K, end there.
bool TileTask::is_before_begin(uint32_t at) const {
  const Region &first = plan_.reads(instr(tile_.begin)).back(),
               &next = plan_.reads(instr(at)).back();
  return next.col0 >= first.col1 || next.col1 <= first.col0;
}

string_view TileTask::take_gemm(uint32_t at) {
  constexpr string_view kExpected =
      "expected the next range of K of the gemm before it, which ends at a multiple of 64 or at "
      "the end of K, behind which its beginning follows, or "
      "another product of the same rows of A beside it, with nothing but waits between, both kept "
      "in local buffers of fp32";
  if (stage_ == Stage::ranges_added) return is_beside_ranges(at) ? take_second(at) : kExpected;
  if (stage_ != Stage::multiplies) return kExpected;
  if (leads_to(plan_, instr(tile_.gemm), instr(at))) {
    ++num_ranges_;
    tile_.gemm = at;
    return "";
  }
  if (leads_to_source(plan_, instr(tile_.gemm), instr(at), num_ranges_ == 1) &&
      is_before_begin(at)) {
    by_source_ = true;
    ++num_ranges_;
    tile_.gemm = at;
    return "";
  }
  const bool two = num_ranges_ == 1 && is_beside(plan_, instr(tile_.gemm), instr(at)) &&
                   !tells(tile_.last, at) && kept(tile_.gemm) != nullptr && kept(at) != nullptr;
  return two ? take_second(at) : kExpected;
}

// Whether the gemm multiplies the same rows of A, in all ranges of K whose sums are in registers.
bool TileTask::is_beside_ranges(uint32_t at) const {
  const uint32_t sum = tile_.sum.of_ranges;
  if (by_source_ || tile_.sum.others != 0 || is_routed_product(instr(at).op)) return false;
  if (tells(tile_.last, at) || kept(sum) == nullptr || kept(at) == nullptr) return false;
  const auto first = plan_.reads(instr(tile_.begin)), all = plan_.reads(instr(at));
  if (all.size() != 2) return false;
  Region rows = first[0];
  rows.col1 = plan_.reads(instr(tile_.gemm))[0].col1;
  return all[0] == rows && all[1].rows() == first[1].rows() && all[1].col0 == first[1].col0 &&
         all[1].cols() == rows.cols();
}

// Of a tile whose first product is in registers.
string_view TileTask::take_second(uint32_t at) {
  products_[0] = {*kept(tile_.sum.writer(tile_.gemm)), tile_.gemm};
  products_[1] = {*kept(at), at};
  num_products_ = 2;
  stage_ = Stage::two_products;
  return "";
}

string_view TileTask::take_reduce(uint32_t at) {
  const bool is_first = stage_ == Stage::multiplies;
  if ((!is_first && stage_ != Stage::ranges_added) || is_routed_product(instr(tile_.gemm).op) ||
      plan_.reads(instr(tile_.gemm)).size() != 2) {
    return "expected a sum right behind a gemm of rows of A in one region, or behind the sum of "
           "its ranges of K";
  }
  return is_first && adds_ranges(plan_, lane_.rank, instr(tile_.gemm), instr(at)) ? add_ranges(at)
                                                                                  : add_ranks(at);
}

string_view TileTask::add_ranges(uint32_t at) {
  const auto reads = plan_.reads(instr(at));
  const Region& tile = plan_.writes(instr(tile_.gemm))[0];
  const auto ours = std::find(reads.begin(), reads.end(), tile) - reads.begin() + 1;
  size_t range = 0;
  bool in_order = static_cast<uint32_t>(ours) == num_ranges_;
  for (uint32_t i = tile_.begin; i <= tile_.gemm && in_order; ++i) {
    if (instr(i).op != Opcode::gemm) continue;
    const auto left = plan_.writes(instr(i));
    in_order = left.size() == 1 && left[0] == reads[range++];
  }
  if (!in_order) return "expected to add first the ranges of K in registers, in their order";
  const size_t others = reads.size() - num_ranges_;
  const bool others_fit = others < kMostRanges && step_between(reads, tile) > 0 &&
                          in_vectors(plan_.buffers[tile.buffer], tile);
  if (others != 0 && !others_fit) {
    return "expected ranges of K at equal distances in one buffer, in multiples of 8 columns and "
           "of at most 15 in memory";
  }
  if (by_source_ && others != 0) {
    return "expected all ranges of K in registers where they begin behind the first";
  }
  tile_.sum = {at, at, tile_.begin, static_cast<uint32_t>(others), by_source_};
  stage_ = Stage::ranges_added;
  return "";
}

string_view TileTask::add_ranks(uint32_t at) {
  if (num_ranges_ > 1 && tile_.sum.of_ranges == 0) {
    return "expected a sum over the ranges of K in registers";
  }
  const uint32_t from = tile_.sum.writer(tile_.gemm);
  const Instr& reduce = instr(at);
  const auto part = added_part(plan_, lane_.rank, instr(from), reduce);
  if (!part) {
    return "expected a sum of at most 16 regions, one of which is the tile or the rank's rows of "
           "it";
  }
  // A whole tile is stored behind the reduce only; parts that others await are stored at once.
  const auto begin = lane_.instrs.begin() + from + 1, end = lane_.instrs.begin() + at;
  const bool tells_in_time = part->is_all ? std::none_of(begin, end, is_notify)
                                          : std::is_partitioned(begin, end, is_notify);
  if (!tells_in_time) return "expected no notify between a tile and the sum that it is added to";
  const auto reads = plan_.reads(reduce);
  const Region& own = plan_.writes(instr(from))[part->write];
  const Buffer& buffer = plan_.buffers[own.buffer];
  const bool has_residual = is_residual(plan_, reads.back(), own);
  const int32_t step_rows = step_between(reads.first(reads.size() - has_residual), own);
  const auto writes = plan_.writes(reduce);
  const bool alike = std::all_of(writes.begin(), writes.end(), [&](const Region& write) {
    return same_shape(write, own) && plan_.buffers[write.buffer].dtype == buffer.dtype;
  });
  if (step_rows == 0 || buffer.dtype == DType::fp32 || !in_vectors(buffer, own) || !alike) {
    return "expected sums of one type of 16 bits at equal distances in the tile's buffer, and at "
           "most one of another behind them, in multiples of 8 columns";
  }
  tile_.sum.position = tile_.sum.of_ranks = at;
  tile_.sum.own_at =
      static_cast<uint32_t>(std::find(reads.begin(), reads.end(), own) - reads.begin());
  tile_.sum.step_rows = step_rows;
  tile_.sum.has_residual = has_residual;
  tile_.sum.part = *part;
  stage_ = Stage::ranks_added;
  return "";
}

string_view TileTask::follow(uint32_t at) {
  constexpr string_view kExpected =
      "expected a product of its own directly before it, kept in a local buffer of fp32";
  if (at != tile_.last + 1 || stage_ == Stage::ranks_added) return kExpected;
  if (stage_ == Stage::multiplies && num_ranges_ > 1) return kExpected;
  if (stage_ != Stage::followed) {
    tile_.followed.begin = tile_.followed.product = tile_.gemm;
    tile_.followed.made = tile_.sum.writer(tile_.gemm);
    if (num_products_ == 1) {
      const Region* const made = kept(tile_.followed.made);
      if (made == nullptr) return kExpected;
      products_[0] = {*made, tile_.gemm};
    }
  }
  const string_view why = follow_product(at);
  if (!why.empty()) return why;
  tile_.followed.last = at;
  for (size_t i = 0; i < num_products_; ++i) tile_.followed.bias[i] = products_[i].bias;
  stage_ = Stage::followed;
  return "";
}

string_view TileTask::follow_product(uint32_t at) {
  const Instr& task = instr(at);
  const auto reads = plan_.reads(task);
  if (tile_.followed.activation) return "expected one activation at most, behind bias";
  const TileRole role = role_of(task.op);
  if (role == TileRole::gate) {
    const bool may_swap = tile_.sum.of_ranges == 0;
    if (num_products_ == 2 && products_[0].at != reads[0] && may_swap) {
      std::swap(products_[0], products_[1]);
    }
    if (num_products_ != 2 || products_[0].at != reads[0] || products_[1].at != reads[1]) {
      return "expected the two products of the same rows of A that stand before it";
    }
    tile_.followed.product = products_[0].gemm;
    tile_.followed.other = products_[1].gemm;
    tile_.followed.activation = task.op;
    return "";
  }
  const auto of = std::find_if(products_, products_ + num_products_,
                               [&](const Product& one) { return one.at == reads[0]; });
  if (of == products_ + num_products_) return "expected all of the product before it";
  if (role == TileRole::activation) {
    if (num_products_ != 1) return "expected a swiglu behind two products";
    tile_.followed.activation = task.op;
    return "";
  }
  if (of->bias != 0) return "expected one bias of a product at most";
  of->bias = at;
  const Region* const to = kept(at);
  of->at = to != nullptr ? *to : Region{};  // stored: the last one
  return "";
}

bool adds_ranges(const Plan& plan, int rank, const Instr& gemm, const Instr& reduce) {
  const Region* const tile = TileTask::kept_by(plan, rank, gemm);
  if (tile == nullptr || !is_sum(reduce.op) || reduce.num_reads < 2) return false;
  const auto reads = plan.reads(reduce);
  return std::find(reads.begin(), reads.end(), *tile) != reads.end() &&
         std::all_of(reads.begin(), reads.end(),
                     [&](const Region& read) { return read.buffer == tile->buffer; });
}

}  // namespace stretto
