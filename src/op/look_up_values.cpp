#include "op/look_up_values.h"

#include <algorithm>
#include <cmath>

#include "op/error_bound.h"

namespace stretto {
namespace {

constexpr double kFp32 = 0x1p-24;  // unit roundoff

}  // namespace

Rows look_up_rows(const Operator& op, const InputData& data, const Stage& stage, int64_t row0,
                  int64_t row1) {
  const Tensor &ids = op.tensor(stage.in[0]), &tables = op.tensor(stage.in[1]);
  row0 = std::min(row0, ids.rows);
  row1 = std::min(row1, ids.rows);
  const int64_t slots = ids.cols / tables.matrices;
  const bool is_mean = stage.kind == StageKind::embed_mean;
  Rows out(row1 - row0, tables.matrices * tables.cols);
  out.sources = {stage.out};
  std::vector<float> picks(static_cast<size_t>(ids.cols)), line(static_cast<size_t>(tables.cols));
  std::vector<double> magnitudes(line.size()), squares(line.size());
  for (int64_t row = row0; row < row1; ++row) {
    fill_tensor(op, data, stage.in[0], row, 0, picks);
    for (int64_t table = 0; table < tables.matrices; ++table) {
      double* const sums = out.values.data() + out.at(row - row0, table * tables.cols);
      std::fill(magnitudes.begin(), magnitudes.end(), 0.0);
      std::fill(squares.begin(), squares.end(), 0.0);
      double picked = 0;
      for (int64_t slot = 0; slot < slots; ++slot) {
        const auto at = static_cast<int64_t>(picks[static_cast<size_t>(table * slots + slot)]);
        if (at < 0 || at >= tables.rows) continue;
        ++picked;
        fill_tensor(op, data, stage.in[1], table * tables.rows + at, 0, line);
        for (size_t col = 0; col < line.size(); ++col) {
          sums[col] += line[col];
          magnitudes[col] += std::fabs(line[col]);
          squares[col] += double{line[col]} * line[col];
        }
      }
      // Each addition rounds; a mean's factor is rounded, and so is what it makes.
      const double divisor = is_mean && picked > 1 ? picked : 1;
      const double roundings = std::max(0.0, picked - 1) + (divisor > 1 ? 2 : 0);
      const bool is_exact = data.fill == Fill::integers && divisor == 1;
      for (size_t col = 0; col < line.size(); ++col) {
        const double sum = sums[col];
        sums[col] /= divisor;
        if (is_exact || roundings == 0) continue;
        const size_t at = out.at(row - row0, table * tables.cols + static_cast<int64_t>(col));
        const double unit = kFp32 / divisor;
        out.set_error(row - row0, at, unit * roundings * magnitudes[col],
                      unit * unit * roundings / 3 * (squares[col] + sum * sum));
      }
    }
  }
  return out;
}

}  // namespace stretto
