#include "launch/expert_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/partition_tables.h"
#include "plan/tile_task.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// A tile: its first product, the second beside it, what is stored, and which entries it is of.
struct Tile {
  const Instr* product;
  const Instr* other;  // null: there is none
  Region to;
  int32_t first_entry, end_entry;  // counted from the partition's first
};

// What the tiles of one product have in common, with rows and columns as of its first ones.
auto operands_of(const ExpertProduct& p) {
  return std::tuple(p.a.buffer, p.a.row0, p.a.col0, p.a.col1, p.gate.buffer, p.gate.row0,
                    p.gate.col0, p.gate.col1, p.up.buffer, p.up.row0, p.c.buffer, p.c.row0,
                    p.experts, p.each, p.per, p.entry_rows);
}

class ProductFinder {
 public:
  ProductFinder(const Plan& plan, const TileSums& sums, int rank)
      : plan_(plan), sums_(sums), rank_(rank), tables_(partition_tables(plan, rank)) {}

  // Adds the tile whose first product is at `at`, or says why it is of no product.
  std::string add(uint32_t lane, uint32_t at) {
    const std::vector<Instr>& instrs = plan_.lanes[lane].instrs;
    const FollowedTile* const followed = sums_.followed_at(lane, at);
    if (followed != nullptr && at != followed->begin) return "";  // it is the second product's
    Tile tile{&instrs[at], nullptr, {}, 0, 0};
    const Instr* stored = tile.product;
    if (followed != nullptr) {
      if (followed->has_bias()) return "rows of bias are added by tiles: take gemm=tiles";
      tile.product = &instrs[followed->product];
      stored = &instrs[followed->last];
      if (followed->has_two()) tile.other = &instrs[followed->other];
    }
    if (stored->num_writes != 1) return "each tile is stored once";
    tile.to = plan_.writes(*stored)[0];
    const PartitionTables* const tables = tables_of(tile);
    if (tables == nullptr) return "tiles are of the entries of one partition of their rank";
    if (std::string why = why_elsewhere(tile); !why.empty()) return why;
    if (!takes_own_choices(tile, *tables)) return "tiles gather by the choices of their entries";
    Found& found = found_[tables];
    ExpertProduct product = product_of(tile, *tables);
    const bool is_first = found.tiles.empty();
    if (is_first) found.product = product;
    if (operands_of(product) != operands_of(found.product)) {
      return "between two boundaries the tiles of a partition are of one product";
    }
    found.tiles.push_back(tile);
    return "";
  }

  // Once all tiles were added.
  std::string finish(std::vector<ExpertProduct>& products) {
    for (const PartitionTables& tables : tables_) {
      const auto found = found_.find(&tables);
      if (found == found_.end()) continue;
      if (std::string why = complete(found->second); !why.empty()) return why;
      if (std::string why = why_no_kernel(found->second.product); !why.empty()) return why;
      if (found->second.product.experts > 0) products.push_back(found->second.product);
    }
    return "";
  }

 private:
  struct Found {
    ExpertProduct product;
    std::vector<Tile> tiles;
  };

  // The only ones of which the tile reads EXPERTS. Tiles of all entries have awaited all tasks that
  // make these, of which one makes COUNTS, and what these go by. Sets which entries the tile is of.
  const PartitionTables* tables_of(Tile& tile) const {
    const Region& experts = plan_.reads(*tile.product)[1];
    const PartitionTables* found = nullptr;
    for (const PartitionTables& tables : tables_) {
      if (!tables.experts.overlaps(experts)) continue;
      const auto entries = tables.entries(experts);
      if (found != nullptr || !entries) return nullptr;
      tile.first_entry = entries->first;
      tile.end_entry = entries->end;
      found = &tables;
    }
    return found;
  }

  bool takes_own_choices(const Tile& tile, const PartitionTables& tables) const {
    if (!gathers_rows(tile.product->op)) return true;
    const Region& choices = plan_.reads(*tile.product)[0];
    const int32_t first = tile.first_entry * rows_of_entry(plan_, *tile.product);
    return choices.buffer == tables.choices.buffer && choices.row0 == tables.choices.row0 + first;
  }

  std::string why_elsewhere(const Tile& tile) const {
    if (tile.to.rank != rank_) return "tiles are stored to their own rank";
    if (plan_.buffers[tile.to.buffer].dtype != plan_.op.dtype) {
      return fmt::format("tiles are stored as {}", to_string(plan_.op.dtype));
    }
    for (const Instr* const one : {tile.product, tile.other}) {
      if (one == nullptr) continue;
      for (const Region& from : plan_.reads(*one)) {
        if (from.rank != rank_) return "tiles read their own rank";
        const DType dtype = plan_.buffers[from.buffer].dtype;
        if (!is_index(dtype) && dtype != plan_.op.dtype) {
          return fmt::format("tiles read {}", to_string(plan_.op.dtype));
        }
      }
    }
    return "";
  }

  // The product that the tile is of, as if its columns were the first.
  ExpertProduct product_of(const Tile& tile, const PartitionTables& tables) const {
    const std::span<const Region> reads = plan_.reads(*tile.product);
    const bool gathers = gathers_rows(tile.product->op);
    ExpertProduct product;
    product.entry_rows = rows_of_entry(plan_, *tile.product);
    const int32_t down = tile.first_entry * product.entry_rows;
    product.a = gathers ? reads[2] : reads[0];
    if (!gathers) product.a.row0 -= down;
    product.each = tile.product->count(0);
    product.per = gathers ? tile.product->count(1) : 1;
    product.gate = reads.back();
    product.experts = (product.gate.rows() - tile.to.cols()) / product.each + 1;
    product.gate.row0 -= tile.to.col0;
    if (tile.other != nullptr) {
      product.up = plan_.reads(*tile.other).back();
      product.up.row0 -= tile.to.col0;
    }
    product.c = tile.to;
    product.c.row0 -= down;
    product.counts = tables.counts;
    product.choices = tables.choices;
    product.rows = tables.rows;
    product.all_experts = static_cast<int32_t>(tables.all_experts);
    return product;
  }

  // That the tiles are all entries by all columns of one block, every one once.
  static std::string complete(Found& found) {
    const auto place = [](const Tile& tile) {
      return std::tuple(tile.to.col0, tile.to.col1, tile.first_entry);
    };
    std::sort(found.tiles.begin(), found.tiles.end(),
              [&](const Tile& x, const Tile& y) { return place(x) < place(y); });
    ExpertProduct& product = found.product;
    const int32_t entries = product.choices.rows() / product.entry_rows;
    const int32_t col0 = found.tiles.front().to.col0;
    int32_t col1 = col0, entry = entries;
    for (const Tile& tile : found.tiles) {
      if (entry == entries && tile.to.col0 == col1) {  // the next columns
        col1 = tile.to.col1;
        entry = 0;
      }
      if (tile.to.col1 != col1 || tile.first_entry != entry) entry = -1;
      if (entry < 0) break;
      entry = tile.end_entry;
    }
    if (entry != entries) return "tiles are all entries by all columns of a product, each once";
    product.experts = std::min(product.experts, product.counts.rows() - 1);
    product.c.col0 = col0;
    product.c.col1 = col1;
    product.c.row1 = product.c.row0 + entries * product.entry_rows;
    const bool gathers = gathers_rows(found.tiles.front().product->op);
    if (!gathers) product.a.row1 = product.a.row0 + entries * product.entry_rows;
    const int32_t rows = (product.experts - 1) * product.each + product.c.cols();
    product.gate.row0 += col0;
    product.gate.row1 = product.gate.row0 + rows;
    if (found.tiles.front().other != nullptr) {
      product.up.row0 += col0;
      product.up.row1 = product.up.row0 + rows;
    }
    return "";
  }

  static std::string why_no_kernel(const ExpertProduct& product) {
    if (product.experts > device::kMostExperts) {
      return fmt::format("a rank has at most {} experts, found {}", device::kMostExperts,
                         product.experts);
    }
    if (product.gate.cols() <= device::kTileK || product.c.col0 % 8 != 0 ||
        product.c.cols() % 8 != 0) {
      return fmt::format(
          "products begin and end at a multiple of 8 columns, and K is over {}; found {} to {} and "
          "{}: take gemm=tiles",
          device::kTileK, product.c.col0, product.c.col1, product.gate.cols());
    }
    return "";
  }

  const Plan& plan_;
  const TileSums& sums_;
  int rank_;
  const std::vector<PartitionTables> tables_;
  std::map<const PartitionTables*, Found> found_;
};

// A kernel's blocks take its tiles in no order, whatever order their lanes have.
std::string why_not_at_once(const std::vector<ExpertProduct>& products) {
  for (const ExpertProduct& one : products) {
    for (const ExpertProduct& other : products) {
      if (one.c.overlaps(other.a) || one.c.overlaps(other.gate) || one.c.overlaps(other.up)) {
        return "between two boundaries none reads what another writes";
      }
      if (&one != &other && one.c.overlaps(other.c)) {
        return "between two boundaries no two write the same elements";
      }
    }
  }
  return "";
}

std::string find(const Plan& plan, const TileSums& sums, const std::vector<BlockPart>& kernel,
                 std::vector<ExpertProduct>& products) {
  if (kernel.empty()) return "";
  ProductFinder finder(plan, sums, plan.lanes[kernel.front().lane].rank);
  for (const BlockPart& part : kernel) {
    const std::vector<Instr>& instrs = plan.lanes[part.lane].instrs;
    InGemm in_gemm;
    for (uint32_t at = part.begin; at < part.end; ++at) {
      if (instrs[at].is_sync()) return "nothing is awaited or told ahead of a lane's last tile";
      if (!in_gemm.pass(instrs[at])) return "nothing but tiles stands ahead of a lane's last one";
      if (!is_product(instrs[at].op)) continue;
      if (std::string why = finder.add(part.lane, at); !why.empty()) return why;
    }
  }
  std::string why = finder.finish(products);
  return why.empty() ? why_not_at_once(products) : why;
}

}  // namespace

std::vector<ExpertProduct> expert_products_of(const Plan& plan, const TileSums& sums,
                                              const std::vector<BlockPart>& kernel) {
  std::vector<ExpertProduct> products;
  const std::string why = find(plan, sums, kernel, products);
  STRETTO_ASSERT(why.empty(), "tiles of experts make up products");
  return products;
}

std::string why_no_expert_products(const Plan& plan, const TileSums& sums,
                                   const std::vector<BlockPart>& kernel) {
  std::vector<ExpertProduct> products;
  return find(plan, sums, kernel, products);
}

GroupedShape shape_of(const ExpertProduct& product) {
  const int64_t own = product.counts.rows() - 1;
  const int64_t rows = product.rows.rows() * own / std::max<int64_t>(product.all_experts, 1);
  const int64_t columns = int64_t{product.c.cols()} * (product.up.empty() ? 1 : 2);
  return {rows, std::min(own, std::max<int64_t>(rows, 1)), columns, product.gate.cols()};
}

device::GroupedConfig config_for(const Plan& plan, const GemmNeeds& needs,
                                 const ExpertProduct& product) {
  device::GroupedConfig config;
  config.bf16 = plan.op.dtype == DType::bf16;
  config.gathers = needs.gathers;
  config.scatters = needs.scatters;
  config.follower = needs.follower;
  return fitted(config, shape_of(product), plan.sms);
}

}  // namespace stretto::cuda
