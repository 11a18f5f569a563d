#include "schedule/row_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "schedule/scheduled_segments.h"
#include "stretto/error.h"

namespace stretto {
namespace {

// How many rows the tensor has for each of the operator's, where they are its choices: of those
// that a product of routed rows takes or leaves. 1 where they are not.
int64_t choices_each(const Operator& op, int tensor) {
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product || !segment.product->is_routed()) continue;
    const bool takes = segment.input == tensor && takes_choices(op, segment);
    const bool makes = std::any_of(segment.stages.begin(), segment.stages.end(),
                                   [&](int stage) { return op.stage(stage).out == tensor; });
    const int64_t each = segment.product->top_k;
    if ((takes || makes) && op.tensor(tensor).rows == op.rows() * each) return each;
  }
  return 1;
}

// Rows by choice lie in a partition, unless the caller gives or gets them.
bool is_of_partition(const Operator& op, int tensor) {
  const bool is_made = op.tensor(tensor).stage >= 0 && !op.output_held(tensor);
  return is_made && choices_each(op, tensor) > 1;
}

// Tensors that grow with the operator's rows, told by an operator of other rows, which divide as
// these do.
std::vector<int32_t> tensors_of_rows(const Operator& op) {
  std::vector<int32_t> found(op.tensors.size(), 0);
  const Operator other =
      with_rows(op, op.rows() > op.ranks ? op.rows() - op.ranks : op.rows() + op.ranks);
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    const Tensor &tensor = op.tensors[i], &moved = other.tensors[i];
    if (tensor.rows == moved.rows && tensor.cols == moved.cols) continue;
    if (is_of_partition(op, static_cast<int>(i))) continue;
    const int64_t each = tensor.held == Held::rows ? 1 : choices_each(op, static_cast<int>(i));
    if (tensor.rows != each * op.rows() || moved.rows != each * other.rows() ||
        tensor.cols != moved.cols) {
      throw UsageError(
          fmt::format("split serves operators whose tensors have {} rows or no row of them, and "
                      "{} is [{}, {}]: take split=1",
                      op.sizes.front().first, tensor.name, tensor.rows, tensor.cols));
    }
    found[i] = static_cast<int32_t>(each);
  }
  return found;
}

// Whether rows are dealt to teams, as many to each rank.
bool deals_rows(const Operator& op) {
  return op.has_teams() && std::any_of(op.tensors.begin(), op.tensors.end(),
                                       [](const Tensor& tensor) { return tensor.deals_rows; });
}

RowShards owners_of(const Operator& op, const std::vector<int32_t>& rows_each) {
  bool any = deals_rows(op);  // a team's rows are blocks of its ranks', whoever has all of them
  for (const OperatorSegment& segment : op.segments) {
    any = any || (segment.product && segment.product->owns_rows());
  }
  for (size_t i = 0; i < rows_each.size(); ++i) {
    const std::optional<Held> output = op.output_held(static_cast<int>(i));
    any = any || (rows_each[i] > 0 && (op.tensors[i].held == Held::rows || output == Held::rows));
  }
  return {op.rows(), any ? op.ranks : 1};
}

// A product of routed rows leaves them for the caller, by choice.
bool leaves_choices(const Operator& op, const OperatorSegment& segment) {
  return segment.product && segment.product->is_routed() && segment.router_weights < 0 &&
         op.output_held(segment.result).has_value();
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
  if (schedule.split == 1) return {{op.rows(), 1}, {}, false, {{op, 0, {op.rows(), 1}}}};
  RowParts all;
  all.rows_each = tensors_of_rows(op);
  all.owners = owners_of(op, all.rows_each);
  all.share_partitions =
      std::any_of(op.segments.begin(), op.segments.end(),
                  [&](const OperatorSegment& segment) { return leaves_choices(op, segment); });
  const std::vector<int64_t> cuts = Cutter(op, schedule, machine, all.owners).cuts();
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const int64_t rows = rows_between(all.owners, cuts[i], cuts[i + 1]);
    all.parts.push_back({with_rows(op, rows), cuts[i], {rows, all.owners.ranks}});
  }
  return all;
}

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
  try {
    const RowShards owners = owners_of(op, tensors_of_rows(op));
    for (const OperatorSegment& segment : op.segments) {
      const bool adds_choices = segment.product && segment.product->only_moves() &&
                                segment.router_weights >= 0 && takes_choices(op, segment);
      if (!adds_choices || owners.ranks == 1) continue;
      return fmt::format(
          "split={} of {}, which the caller has by choice and nobody multiplies: there is nothing "
          "to hide a part behind, take split=1",
          split, op.tensor(segment.input).name);
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

const Tensor* lies_apart_in_parts(const Operator& op) {
  if (owners_of(op, tensors_of_rows(op)).ranks == 1) return nullptr;
  for (const OperatorSegment& segment : op.segments) {
    if (!segment.product || !segment.product->is_routed()) continue;
    if (leaves_choices(op, segment)) return &op.tensor(segment.result);
    for (const int id : {segment.input, segment.ids, segment.router_weights}) {
      if (id < 0 || op.tensor(id).held == Held::rows) continue;
      // What a stage makes for others is each part's own.
      if (op.tensor(id).stage >= 0 && !op.output_held(id)) continue;
      return &op.tensor(id);
    }
  }
  return nullptr;
}

void part_by_source(const Operator& op, int split, const Segment& product, Schedule& schedule) {
  if (why_no_source(op, split, product, schedule).empty()) return;
  schedule.granularity = Granularity::chunk;
}

std::string why_no_source(const Operator& op, int split, const Segment& product,
                          const Schedule& schedule) {
  if (split == 1 || !product.is_routed() || schedule.granularity == Granularity::chunk) return {};
  if (!why_no_split(op, split).empty()) return {};  // says why
  const Tensor* const apart = lies_apart_in_parts(op);
  if (apart == nullptr) return {};
  return fmt::format(
      "granularity={} with parts of rows, of which {} has all, and a part has some of each rank's: "
      "take granularity=chunk or split=1",
      to_string(schedule.granularity), apart->name);
}

}  // namespace stretto
