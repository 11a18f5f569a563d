#include "schedule/rows_with_tiles.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto {
namespace {

// Products before segment `at`.
size_t products_before(const Operator& op, size_t at) {
  return static_cast<size_t>(
      std::count_if(op.segments.begin(), op.segments.begin() + static_cast<std::ptrdiff_t>(at),
                    [](const OperatorSegment& one) { return one.product.has_value(); }));
}

// A norm, or an add and the norm of it, of what the product makes.
bool are_normed_sums(const Operator& op, const OperatorSegment& product,
                     const OperatorSegment& rows) {
  const Stage& last = op.stage(rows.stages.back());
  if (last.kind != StageKind::norm || rows.stages.size() > 2) return false;
  const Stage& first = op.stage(rows.stages.front());
  if (rows.stages.size() == 1) return last.in[0] == product.result;
  return first.kind == StageKind::add && last.in[0] == first.out &&
         std::count(first.in.begin(), first.in.end(), product.result) == 1;
}

std::string why_no_sums(const OperatorSegment& product, const Schedule& schedule, DType dtype) {
  const auto take = [&](std::string_view what) {
    return fmt::format(
        "mover=epilogue of rows behind {}, whose lanes then take them: take {} there, or leave the "
        "rows out",
        product.name, what);
  };
  const Segment& of = *product.product;
  if (of.ranks == 1 || !of.is_dense() || of.teams > 1 || !of.makes_terms() ||
      of.exchanges_output()) {
    return "mover=epilogue of rows that are no sums of all ranks: leave it out";
  }
  if (schedule.mover != Mover::epilogue || schedule.granularity != Granularity::tile ||
      schedule.comm_sms != 0) {
    return take("granularity=tile,mover=epilogue,comm-sms=0");
  }
  if (schedule.sync != Sync::flag) return take("sync=flag");
  if (schedule.gemm != GemmBy::tiles) return take("gemm=tiles");
  if (schedule.rows != RowCount::fixed) return take("rows=fixed");
  if (schedule.partials != dtype) return take(fmt::format("partials={}", to_string(dtype)));
  return {};
}

}  // namespace

bool takes_rows_with_tiles(const OperatorSchedule& schedule, const OperatorSegment& rows) {
  return !rows.product && !rows.is_edge() &&
         std::any_of(schedule.edges.begin(), schedule.edges.end(), [&](const EdgeSchedule& one) {
           return one.name == rows.name && one.mover == Mover::epilogue;
         });
}

std::string why_no_rows_with_tiles(const Operator& op, const OperatorSchedule& schedule,
                                   const OperatorSegment& rows) {
  const auto at = static_cast<size_t>(&rows - op.segments.data());
  if (at == 0 || !op.segments[at - 1].product) {
    return "mover=epilogue of rows that no product is right before: leave it out";
  }
  const OperatorSegment& product = op.segments[at - 1];
  if (std::string why =
          why_no_sums(product, schedule.products[products_before(op, at - 1)], op.dtype);
      !why.empty()) {
    return why;
  }
  const Tensor& result = op.tensor(rows.result);
  if (!are_normed_sums(op, product, rows) || product.stages.size() > 1 ||
      result.held == Held::cols) {
    return "mover=epilogue of rows: the lanes of tiles norm sums, with or without one more that is "
           "added before: leave it out";
  }
  if (schedule.split > 1) return "mover=epilogue of rows with parts of them: take split=1";
  if (op.dtype == DType::fp32 || result.cols % 8 != 0) {
    return fmt::format(
        "mover=epilogue of rows of {} columns of {}: lanes of tiles norm a multiple of 8 columns "
        "in 16 bits",
        result.cols, to_string(op.dtype));
  }
  return {};
}

}  // namespace stretto
