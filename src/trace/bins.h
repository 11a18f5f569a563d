// Time cut into equal columns; each collects the time that something was busy in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

class Bins {
 public:
  Bins(size_t columns, double total_us)
      : width_us_(total_us / static_cast<double>(columns)), busy_us_(columns, 0) {}

  void add(double start, double end) {
    const size_t last = busy_us_.size() - 1;
    const auto column = [&](double time) {
      return std::min(last, static_cast<size_t>(std::max(0.0, time / width_us_)));
    };
    for (size_t i = column(start); i <= column(end); ++i) {
      const double low = std::max(start, static_cast<double>(i) * width_us_);
      const double high = std::min(end, static_cast<double>(i + 1) * width_us_);
      busy_us_[i] += std::max(0.0, high - low);
    }
  }
  // What other columns say, of the same run or a part of the same axis.
  void add(const Bins& other) {
    for (size_t i = 0; i < other.columns(); ++i) {
      if (other.busy_us_[i] == 0) continue;
      // Evenly over the column, as far as is known.
      const double begin = static_cast<double>(i) * other.width_us_;
      add_evenly(begin, begin + other.width_us_, other.busy_us_[i]);
    }
  }
  size_t columns() const { return busy_us_.size(); }
  // Share of the column in which `lanes` things were busy.
  double share(size_t column, int lanes) const {
    return lanes == 0 ? 0 : std::min(1.0, busy_us_[column] / (width_us_ * lanes));
  }

 private:
  void add_evenly(double begin, double end, double busy) {
    const size_t last = busy_us_.size() - 1;
    for (size_t i = std::min(last, static_cast<size_t>(begin / width_us_)); i <= last; ++i) {
      const double low = std::max(begin, static_cast<double>(i) * width_us_);
      const double high = std::min(end, static_cast<double>(i + 1) * width_us_);
      if (low >= end) break;
      if (high <= low) continue;  // by a rounding
      busy_us_[i] += busy * (high - low) / (end - begin);
    }
  }

  double width_us_;
  std::vector<double> busy_us_;
};

inline bool multiplies(Opcode op) {
  const TaskKind* const kind = kind_of(op);
  return kind != nullptr && kind->worker == Worker::gemm_kernel;
}

}  // namespace stretto
