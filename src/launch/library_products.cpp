#include "launch/library_products.h"

#include <fmt/format.h>

#include <algorithm>

#include "launch/buffer_places.h"
#include "launch/expert_products.h"
#include "launch/join_products.h"
#include "launch/sent_products.h"
#include "plan/placed.h"
#include "plan/tile_task.h"
#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto::cuda {
namespace {

// More of them between two boundaries are no few large calls any longer.
constexpr size_t kMostProducts = 256;

// The gemm at `at` of a lane with the tasks behind it that go on with its tile.
Tile tile_at(const Plan& plan, const Lane& lane, uint32_t at) {
  TileTask task(plan, lane, at);
  for (uint32_t next = at + 1; next < lane.instrs.size() && lane.instrs[next].fused; ++next) {
    if (!task.take(next).empty()) break;
  }
  return task.tile();
}

// Of a tile, what goes on with it.
void add_followers(const Plan& plan, const Lane& lane, const FollowedTile& tile, Product& to) {
  to.activation = tile.activation;
  if (tile.has_two()) to.beside = plan.reads(lane.instrs[tile.other]).back();
  for (size_t i = 0; i < to.bias.size(); ++i) {
    if (tile.bias[i] != 0) to.bias[i] = plan.reads(lane.instrs[tile.bias[i]])[1];
  }
}

// What the rows of the tile that lie in one region of A and in one written region are.
void add_parts(const Plan& plan, const Lane& lane, const Tile& tile,
               std::vector<Product>& products) {
  const FollowedTile& followed = tile.followed;
  const Instr& gemm = lane.instrs[followed ? followed.product : tile.gemm];
  const Region& b = plan.reads(gemm).back();
  for_each_row_part(plan, gemm, [&](const RowPart& part) {
    for_each_placed_write(plan, lane.instrs[tile.last], [&](const Region& to, int32_t row) {
      const int32_t first = std::max(part.first, row), last = std::min(part.last, row + to.rows());
      if (first >= last || to.cols() == 0) return;
      Product one{*part.a, b, to};
      if (followed) add_followers(plan, lane, followed, one);
      one.a.row0 = part.a->row0 + first - part.first;
      one.a.row1 = part.a->row0 + last - part.first;
      one.c.row0 = to.row0 + first - row;
      one.c.row1 = to.row0 + last - row;
      products.push_back(one);
    });
  });
}

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
    std::span<const Region> reads = plan.reads(task);
    if (task.op == Opcode::bias) reads = reads.subspan(1);  // behind what is in registers
    if (task.op != Opcode::gemm && task.op != Opcode::bias) continue;
    for (const Region& from : reads) {
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
    add_parts(plan, lane, tile, products);
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

std::vector<Region> Product::reads() const {
  std::vector<Region> all = {a, b};
  for (const std::optional<Region>& more : {beside, bias[0], bias[1]}) {
    if (more) all.push_back(*more);
  }
  return all;
}

std::vector<Product> products_of(const Plan& plan, const std::vector<BlockPart>& kernel) {
  std::vector<Product> products;
  int64_t elements = 0;
  for (const BlockPart& part : kernel) {
    const Lane& lane = plan.lanes[part.lane];
    for (uint32_t at = part.begin; at < part.end; ++at) {
      STRETTO_ASSERT(lane.instrs[at].op == Opcode::gemm, "a library's kernel begins with gemms");
      const Tile tile = tile_at(plan, lane, at);
      add_parts(plan, lane, tile, products);
      at = tile.last;
      for (const Region& to : plan.writes(lane.instrs[at])) elements += to.elements();
    }
  }
  products = joined(std::move(products));
  for (const Product& product : products) elements -= product.c.elements();
  STRETTO_ASSERT(elements == 0, "products write what their gemms write");
  return products;
}

// Tiles of several products may lie in one buffer, or be read from one; weights are a product's
// own.
size_t product_of_operator(const Plan& plan, const Product& one) {
  size_t product = 0;
  for (const OperatorSegment& segment : plan.op.segments) {
    if (!segment.product) continue;
    for (const int weight : segment.weights) {
      if (plan.find_buffer(plan.op.tensor(weight).name) == one.b.buffer) return product;
    }
    ++product;
  }
  return 0;
}

std::vector<int> algorithms_by_product(const Plan& plan, const std::vector<RankProgram>& programs) {
  const auto products =
      std::count_if(plan.op.segments.begin(), plan.op.segments.end(),
                    [](const OperatorSegment& segment) { return segment.product.has_value(); });
  std::vector<int> algorithms(static_cast<size_t>(products));
  for (const RankProgram& program : programs) {
    for (size_t k = 0; k < program.gemms.size(); ++k) {
      const GemmNeeds& needs = program.needs[k];
      if (!needs.library || needs.grouped || needs.few_rows) continue;
      for (const Product& one : products_of(plan, program.gemms[k])) {
        int& asked = algorithms[product_of_operator(plan, one)];
        asked = std::max(asked, *program.needs[k].library);
      }
    }
  }
  return algorithms;
}

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

namespace {

template <typename Predicate>
bool any_gemm_of_cublas(const Plan& plan, const Predicate& holds) {
  if (!plan.any_library()) return false;
  for (const Lane& lane : plan.lanes) {
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      boundaries += instr.op == Opcode::boundary;
      const bool by_cublas = plan.library_at(boundaries) && !plan.few_rows_at(boundaries);
      if (instr.op == Opcode::gemm && by_cublas && holds(instr)) return true;
    }
  }
  return false;
}

}  // namespace

bool takes_cublas(const Plan& plan) {
  return any_gemm_of_cublas(plan, [](const Instr&) { return true; });
}

bool multiplies_into_result(const Plan& plan) {
  return any_gemm_of_cublas(plan, [&](const Instr& gemm) {
    const auto writes = plan.writes(gemm);
    return std::any_of(writes.begin(), writes.end(), [&](const Region& to) {
      return plan.buffers[to.buffer].role == BufferRole::output;
    });
  });
}

std::string why_no_copy_of_rows(const Plan& plan) {
  if (!multiplies_into_result(plan)) return "";
  for (const Buffer& buffer : plan.buffers) {
    const auto bytes = static_cast<int64_t>(row_bytes_of(buffer));
    if (buffer.role != BufferRole::output || bytes % kLowLatencyBytes == 0) continue;
    return fmt::format(
        "of a library's result the rows that there are are copied in pieces of {} bytes, and rows "
        "have {}: say the rows from the host, or take other columns",
        kLowLatencyBytes, bytes);
  }
  return "";
}

}  // namespace stretto::cuda
