// Operators asked for as if nothing of their model had been measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "leave_one_out.h"
#include "stretto/tune.h"

namespace stretto {

// The hidden size of the model whose linear it is; models of one are taken away together, whatever
// their rows, ranks and linears.
inline int64_t width_of(const Segment& op) { return op.makes_terms() ? op.n : op.k; }

inline const Without kItsModel = {"its model", [](const Segment& one, const Segment& asked) {
                                    return width_of(one) == width_of(asked);
                                  }};

// How much longer choices took than the best that was measured, as shares.
struct Regrets {
  std::vector<double> all;
  int unknown = 0;  // choices that nobody has measured

  void add(double us, double best_us) {
    if (us == 0) {
      ++unknown;
    } else {
      all.push_back(us / best_us - 1);
    }
  }
  double at(double share) const {
    std::vector<double> sorted = all;
    std::sort(sorted.begin(), sorted.end());
    const auto place = static_cast<size_t>(share * static_cast<double>(sorted.size()));
    return sorted[std::min(place, sorted.size() - 1)];
  }
  double median() const { return at(0.5); }
  double worst() const { return at(1); }
  double share_within(double within) const {
    const auto inside =
        std::count_if(all.begin(), all.end(), [&](double one) { return one <= within; });
    return static_cast<double>(inside) / static_cast<double>(all.size());
  }
};

}  // namespace stretto
