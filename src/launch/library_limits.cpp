#include "launch/library_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "launch/buffer_places.h"
#include "launch/expert_products.h"
#include "launch/join_products.h"
#include "launch/library_products.h"
#include "launch/sent_products.h"
#include "launch/tile_products.h"
#include "plan/placed.h"

namespace stretto::cuda {
namespace {

// More of them between two boundaries are no few large calls any longer.
constexpr size_t kMostProducts = 256;

std::string why_no_product(const Plan& plan, const Lane& lane, const Tile& tile) {
  if (tile.sum || tile.gemm != tile.begin) return "no sum goes on with its tiles";
  const Instr& gemm = lane.instrs[tile.gemm];
  int64_t rows = 0;
  for (const Region& to : plan.writes(lane.instrs[tile.last])) {
    if (to.rank != lane.rank) return "it stores to its own rank";
    const DType type = plan.buffers[to.buffer].dtype;
    if (type != plan.op.dtype && type != DType::fp32) {
      return fmt::format("it stores {} or fp32", to_string(plan.op.dtype));
    }
    rows += to.rows();
  }
  if (rows != rows_of_task(plan, gemm)) return "it stores every row once";
  for (uint32_t at = tile.begin; at <= tile.last; ++at) {
    const Instr& task = lane.instrs[at];
    if (task.kind() == nullptr) continue;
    // Of what follows, rows of its own: the others are in registers.
    const std::span<const Region> reads = plan.reads(task);
    for (const Region& from : is_product(task.op) ? reads : reads.last(task.kind()->num_others)) {
      if (from.rank != lane.rank) return "it reads its own rank";
      if (plan.buffers[from.buffer].dtype != plan.op.dtype) return "it reads the operator's type";
    }
  }
  return "";
}

// `products` are those of one kernel.
std::string why_not_at_once(const std::vector<Product>& products) {
  if (products.size() > kMostProducts) {
    return fmt::format("between two boundaries they make up {} products, at most {} are called for",
                       products.size(), kMostProducts);
  }
  for (const Product& one : products) {
    for (const Product& other : products) {
      const std::vector<Region> reads = other.reads();
      if (std::any_of(reads.begin(), reads.end(),
                      [&](const Region& read) { return one.c.overlaps(read); })) {
        return "between two boundaries none reads what another writes";
      }
      if (&one != &other && one.c.overlaps(other.c)) {
        return "between two boundaries no two write the same elements";
      }
    }
  }
  return "";
}

// What a lane has of a kernel of experts in its stretch that begins at `at`, which moves on to its
// end: behind what prepares their tokens, and ahead of what movers do.
void add_tiles_of_experts(const Plan& plan, uint32_t lane, uint32_t& at,
                          std::vector<BlockPart>& experts) {
  const std::vector<Instr>& instrs = plan.lanes[lane].instrs;
  while (instrs[at].op == Opcode::notify) ++at;
  uint32_t end = at;
  while (end < instrs.size() && instrs[end].op != Opcode::boundary) ++end;
  BlockPart part{lane, end_of_head(instrs, at, end), 0, {}};
  InGemm in_gemm;
  for (at = part.begin; at < end; ++at) {
    if (in_gemm.pass(instrs[at]) && instrs[at].is_task()) part.end = at + 1;
  }
  experts.push_back(std::move(part));
}

bool has_experts(const std::vector<Instr>& instrs, uint32_t at) {
  for (; at < instrs.size() && instrs[at].op != Opcode::boundary; ++at) {
    if (is_routed_product(instrs[at].op)) return true;
  }
  return false;
}

// The gemms of a lane's stretch that begins at `at`, which moves on to its end.
std::string add_stretch(const Plan& plan, uint32_t index, bool by_library, uint32_t& at,
                        std::vector<Product>& products, std::vector<BlockPart>& experts) {
  const Lane& lane = plan.lanes[index];
  const std::vector<Instr>& instrs = lane.instrs;
  if (by_library && has_experts(instrs, at)) {
    add_tiles_of_experts(plan, index, at, experts);
    return "";
  }
  while (!by_library && at < instrs.size() && instrs[at].op != Opcode::boundary) ++at;
  while (at < instrs.size() && instrs[at].op == Opcode::notify) ++at;
  bool in_front = true;
  for (; at < instrs.size() && instrs[at].op != Opcode::boundary; ++at) {
    if (instrs[at].op != Opcode::gemm) {
      in_front = false;
      continue;
    }
    if (!in_front || instrs[at].fused) {
      return "between two boundaries nothing but notifies stands before the last";
    }
    const Tile tile = tile_at(plan, lane, at);
    std::string why = why_no_product(plan, lane, tile);
    if (!why.empty()) return why;
    add_products(plan, lane, tile, products);
    at = tile.last;
  }
  return "";
}

std::string why_no_products_of_rank(const Plan& plan, const TileSums& sums,
                                    const std::vector<uint32_t>& lanes) {
  std::vector<uint32_t> at(lanes.size(), 0);
  bool more = !lanes.empty();
  for (size_t number = 0; more; ++number) {
    const bool by_library = plan.library_at(number).has_value();
    std::vector<Product> products;
    std::vector<BlockPart> experts;
    more = false;
    for (size_t i = 0; i < lanes.size(); ++i) {
      std::string why = add_stretch(plan, lanes[i], by_library, at[i], products, experts);
      if (!why.empty()) return why;
      if (at[i] >= plan.lanes[lanes[i]].instrs.size()) continue;
      ++at[i];
      more = true;
    }
    if (!experts.empty() && !products.empty()) {
      return "between two boundaries all products are of experts, or none is";
    }
    if (!experts.empty() && plan.few_rows_at(number)) {
      return "experts are multiplied by tiles or a library, not by the kernel of few rows";
    }
    std::string why = experts.empty() ? why_not_at_once(joined(products))
                                      : why_no_expert_products(plan, sums, experts);
    if (why.empty() && !products.empty() && plan.few_rows_at(number)) {
      why = why_no_few_rows(plan, joined(std::move(products)));
    }
    if (!why.empty()) return why;
  }
  return "";
}

}  // namespace

std::string why_no_products(const Plan& plan, const TileSums& sums) {
  std::string why;
  for (size_t next = 0; next < plan.lanes.size() && why.empty();) {
    std::vector<uint32_t> lanes;
    const uint16_t rank = plan.lanes[next].rank;
    for (; next < plan.lanes.size() && plan.lanes[next].rank == rank; ++next) {
      if (plan.lanes[next].kind == LaneKind::compute) lanes.push_back(static_cast<uint32_t>(next));
    }
    why = why_no_products_of_rank(plan, sums, lanes);
  }
  if (why.empty()) return "";
  return fmt::format("of gemms that a library{} multiplies: {}",
                     plan.any_few_rows() ? " or the kernel of few rows" : "", why);
}

}  // namespace stretto::cuda
