#include "schedule/row_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "stretto/error.h"

namespace stretto {
namespace {

// Whether products of routed rows leave the tensor in a partition, which each part has of its own.
bool is_of_choices(const Operator& op, int tensor) {
  if (op.output_held(tensor)) return false;
  return std::any_of(op.segments.begin(), op.segments.end(), [&](const OperatorSegment& segment) {
    return segment.product && segment.product->is_routed() &&
           op.tensor(tensor).rows == op.rows() * segment.product->top_k &&
           std::any_of(segment.stages.begin(), segment.stages.end(),
                       [&](int stage) { return op.stage(stage).out == tensor; });
  });
}

// Tensors that grow with the operator's rows, told by an operator of other rows, which divide as
// these do.
std::vector<bool> tensors_of_rows(const Operator& op) {
  std::vector<bool> found(op.tensors.size(), false);
  const Operator other =
      with_rows(op, op.rows() > op.ranks ? op.rows() - op.ranks : op.rows() + op.ranks);
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const Tensor &tensor = op.tensors[i], &moved = other.tensors[i];
    if (tensor.rows == moved.rows && tensor.cols == moved.cols) continue;
    if (is_of_choices(op, static_cast<int>(i))) continue;
    if (tensor.rows != op.rows() || moved.rows != other.rows() || tensor.cols != moved.cols) {
      throw UsageError(
          fmt::format("split serves operators whose tensors have {} rows or no row of them, and "
                      "{} is [{}, {}]: take split=1",
                      op.sizes.front().first, tensor.name, tensor.rows, tensor.cols));
    }
    found[i] = true;
  }
  return found;
}

// Whether rows are dealt to teams, as many to each rank.
bool deals_rows(const Operator& op) {
  return op.has_teams() && std::any_of(op.tensors.begin(), op.tensors.end(),
                                       [](const Tensor& tensor) { return tensor.deals_rows; });
}

RowShards owners_of(const Operator& op, const std::vector<bool>& has_rows) {
  bool any = deals_rows(op);  // a team's rows are blocks of its ranks', whoever has all of them
  for (const OperatorSegment& segment : op.segments) {
    any = any || (segment.product && segment.product->owns_rows());
  }
  for (size_t i = 0; i < has_rows.size(); ++i) {
    const std::optional<Held> output = op.output_held(static_cast<int>(i));
    any = any || (has_rows[i] && (op.tensors[i].held == Held::rows || output == Held::rows));
  }
  return {op.rows(), any ? op.ranks : 1};
}

// Rows of the stripes that begin at `first` and end at `last` of every owner's block.
int64_t rows_between(const RowShards& owners, int64_t first, int64_t last) {
  int64_t rows = 0;
  for (int owner = 0; owner < owners.ranks; ++owner) {
    const int64_t size = owners.size(owner);
    rows += std::min(last, size) - std::min(first, size);
  }
  return rows;
}

// Chooses where blocks are cut: near equal parts, and where tiles of all products fill the fewest
// waves.
class Cutter {
 public:
  Cutter(const Operator& op, const OperatorSchedule& schedule, const Machine& machine,
         const RowShards& owners)
      : schedule_(schedule), machine_(machine), owners_(owners) {
    for (const OperatorSegment& segment : op.segments) {
      if (segment.product) products_.push_back(*segment.product);
    }
    for (const Schedule& one : schedule.products) {
      unit_ = std::lcm(unit_, std::max(1, one.tile_m / std::gcd(one.tile_m, owners.ranks)));
      unit_ = std::min<int64_t>(unit_, owners.block());
    }
  }

  std::vector<int64_t> cuts() const {
    const int64_t block = owners_.block(), parts = schedule_.split;
    std::vector<int64_t> cuts{0};
    for (int64_t i = 1; i < parts; ++i) {
      const int64_t equal = (block * i + parts - 1) / parts, reach = block / (2 * parts);
      int64_t best = equal;
      double least = cost(cuts.back(), equal) + cost(equal, block);
      for (int64_t cut = (equal - reach) / unit_ * unit_; cut <= equal + reach; cut += unit_) {
        if (cut <= cuts.back() || cut > block - (parts - i)) continue;
        const double found = cost(cuts.back(), cut) + cost(cut, block);
        const bool is_better = best % unit_ != 0 || std::abs(cut - equal) < std::abs(best - equal);
        if (found < least || (found == least && is_better)) {
          least = found;
          best = cut;
        }
      }
      cuts.push_back(best);
    }
    cuts.push_back(block);
    return cuts;
  }

 private:
  // Of the part between two cuts: waves of tiles, each as long as a tile is large.
  double cost(int64_t first, int64_t last) const {
    double sum = 0;
    for (size_t i = 0; i < products_.size(); ++i) {
      Segment product = products_[i];
      const Schedule& one = schedule_.products[i];
      product.m = rows_between(owners_, first, last) / product.teams;
      const auto lanes = static_cast<double>(std::max(1, machine_.sms - one.comm_sms));
      const double down = std::ceil(static_cast<double>(product.local_m()) / one.tile_m);
      const double across = std::ceil(static_cast<double>(product.product_cols()) / one.tile_n);
      const double waves = std::ceil(down * across * one.split_k / lanes);
      sum += waves * one.tile_m * one.tile_n * static_cast<double>(product.local_k()) / one.split_k;
    }
    return sum;
  }

  const OperatorSchedule& schedule_;
  const Machine& machine_;
  const RowShards owners_;
  std::vector<Segment> products_;
  int64_t unit_ = 1;  // stripes of so many rows make up whole tiles
};

}  // namespace

RowParts row_parts(const Operator& op, const OperatorSchedule& schedule, const Machine& machine) {
  if (schedule.split == 1) return {{op.rows(), 1}, {}, {{op, 0, {op.rows(), 1}}}};
  RowParts all;
  all.has_rows = tensors_of_rows(op);
  all.owners = owners_of(op, all.has_rows);
  const std::vector<int64_t> cuts = Cutter(op, schedule, machine, all.owners).cuts();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t rows = rows_between(all.owners, cuts[i], cuts[i + 1]);
    all.parts.push_back({with_rows(op, rows), cuts[i], {rows, all.owners.ranks}});
  }
  return all;
}

namespace {

// What a product of routed rows takes of the caller's tensors, whose part is not one block on every
// rank.
std::string whole_beside_rows(const Operator& op, const RowShards& owners) {
  if (owners.ranks == 1) return {};
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product || !segment.product->is_routed()) continue;
    for (const int id : {segment.input, segment.ids, segment.router_weights}) {
      if (id < 0 || op.tensor(id).held == Held::rows) continue;
      // What a stage makes for others is each part's own.
      if (op.tensor(id).stage >= 0 && !op.output_held(id)) continue;
      return op.tensor(id).name;
    }
  }
  return {};
}

}  // namespace

Operator equal_part(const Operator& op, int split) {
  if (split == 1) return op;
  const int64_t unit = deals_rows(op) ? op.ranks : 1;
  return with_rows(op, (op.rows() / unit + split - 1) / split * unit);
}

std::string why_no_split(const Operator& op, int split) {
  if (split == 1) return {};
  for (const Stage& stage : op.stages) {
    if (!hands_over(stage.kind)) continue;
    return fmt::format("split={} of a {} that hands over all rows as {}: take split=1", split,
                       to_string(stage.kind), op.tensor(stage.out).name);
  }
  for (const OperatorSegment& segment : op.segments) {
    const bool is_handed = segment.product && segment.product->is_routed() &&
                           op.output_held(segment.result).has_value() && segment.router_weights < 0;
    if (is_handed) {
      return fmt::format("split={} of {}, whose rows the caller has by choice: take split=1", split,
                         op.tensor(segment.result).name);
    }
  }
  try {
    const RowShards owners = owners_of(op, tensors_of_rows(op));
    if (const std::string whole = whole_beside_rows(op, owners); !whole.empty()) {
      return fmt::format(
          "split={} of rows that choose their matrices, of which every rank has all rows of {} and "
          "a "
          "block of others: take split=1",
          split, whole);
    }
    if (split <= owners.block()) return {};
    const int64_t block = owners.block();
    return fmt::format("split={} of {} that {}: take split={}{}", split,
                       block == 1 ? "one row" : fmt::format("{} rows", block),
                       owners.ranks > 1 ? "a rank owns" : "there are", block,
                       block == 1 ? "" : " or less");
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace stretto
