#include "tasks/weighted_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tasks/rows.h"
#include "tasks/tables.h"

namespace stretto::tasks {

TaskFault fault_in_sums(std::span<const Region> reads) {
  if (reads.size() != 3) {
    return {"three regions: WEIGHTS, ROWS and Y", nullptr, fmt::format("{}", reads.size())};
  }
  if (reads[1].cols() != 1 || reads[1].rows() != reads[0].elements()) {
    return {fmt::format("a row for each of {} weights", reads[0].elements()), &reads[1]};
  }
  return {};
}

TaskShares shares_of_sums(const KindOperands& of) {
  const double all = static_cast<double>(of.reads[2].rows());
  return {std::min(1.0, static_cast<double>(of.reads[0].elements()) / all), 1};
}

int64_t row_by_table(const Work& work, int64_t token, int64_t slot) {
  return number_in(work.reads[1], token * work.reads[0].cols + slot);
}

void weigh_rows(const Work& work, bool leaves_others, RowOfSlot row_of) {
  const Operand &weights = work.reads[0], &y = work.reads[2];
  std::vector<float>& line = work.scratch.line;
  std::vector<float>& sums = work.scratch.sums;
  std::vector<float> of_row(static_cast<size_t>(weights.cols));
  for (int64_t row = 0; row < work.rows; ++row) {
    widen(weights.view.dtype, weights.row(row), of_row.data(), of_row.size());
    sums.assign(static_cast<size_t>(work.cols), 0.0f);
    bool any = false;
    for (int64_t slot = 0; slot < weights.cols; ++slot) {
      const int64_t from = row_of(work, work.first + row, slot);
      if (from < 0 || from >= y.rows) continue;
      any = true;
      const float* const values = wide_row(y, from, line);
      const float weight = of_row[static_cast<size_t>(slot)];
      for (size_t col = 0; col < sums.size(); ++col) {
        sums[col] = std::fma(weight, values[col], sums[col]);
      }
    }
    if (any || !leaves_others) {
      round_row(work, row, sums.data());
    } else {
      leave_undefined(work, row);
    }
  }
}

void describe_sums(const RoutedFields& fields) {
  const std::span<const Region> reads = fields.of.reads;
  fields.routed.top_k = cols_of(reads[0]);
  fields.routed.weights = fields.types[0];
  fields.routed.table_rows = rows_of(reads[2]);
  if (reads[1].cols() == 1) return;
  fields.routed.entries = 1;
  describe_own_experts(fields, fields.rank);
}

std::string why_no_sums(const KernelOperands& on) {
  if (!on.reads[0].is_whole_rows) return "GPUs weigh with all weights of a token";
  if (on.of.reads[1].cols() == 1 && on.reads[1].dtype == DType::i64) {
    return "GPUs read ROWS of 32 bits: give i32";
  }
  return "";
}

bool pass_sums(const KernelOperands& on) { return on.of.reads[0].cols() <= kTermsOfPass; }

}  // namespace stretto::tasks
