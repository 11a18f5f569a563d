// Pooled look-ups of rows of tables. Exact results are made in look_up_values.cpp.
#include <fmt/format.h>

#include "op/stages/stage_row.h"

namespace stretto {
namespace {

// Who has a table looks up in it, and makes its columns of the result.
StageRule look_up_rule(const StageOperands& of) {
  const Tensor &ids = *of.in[0], &tables = *of.in[1];
  const DType dtype = of.dtype;
  StageRule rule{
      ids.rows, tables.matrices * tables.cols, Held::cols, {Held::cols, tables.held}, {}};
  if (!is_index(ids.dtype)) {
    rule.fault = fmt::format("{} says which rows are meant: give it as i32 or i64", ids.name);
  } else if (tables.dtype != dtype) {
    rule.fault = fmt::format("tables are of {}, and {} is {}", to_string(dtype), tables.name,
                             to_string(tables.dtype));
  } else if (tables.held != Held::experts) {
    rule.fault = fmt::format(
        "tables are dealt to ranks: give {} as [tables, rows, columns] experts", tables.name);
  } else if (const int64_t all = tables.matrices; ids.cols % all != 0) {
    const int64_t below = ids.cols / all * all;
    rule.fault = fmt::format(
        "{} has {} columns for {} tables, of which each has as many: take {}{}", ids.name, ids.cols,
        all, below > 0 ? fmt::format("{} or ", below) : std::string(), below + all);
  }
  return rule;
}

ValueSizes size_of_sums(const ValueSizes&, const ValueSizes& y, bool) { return y; }
ValueSizes size_of_means(const ValueSizes&, const ValueSizes& y, bool) {
  return {y.random, y.integer, false};
}

}  // namespace

const StageRow stages::embed{.rule = look_up_rule,
                             .task = Opcode::embed,
                             .sizes = size_of_sums,
                             .on_gpus = device::StageOf::embed,
                             .has_parameter = true,
                             .is_of_all_ranks = true};
const StageRow stages::embed_mean{.rule = look_up_rule,
                                  .task = Opcode::embed_mean,
                                  .sizes = size_of_means,
                                  .on_gpus = device::StageOf::embed_mean,
                                  .has_parameter = true,
                                  .is_of_all_ranks = true};

}  // namespace stretto
