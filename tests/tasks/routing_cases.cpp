#include "routing_cases.h"

#include <cmath>
#include <random>
#include <utility>

#include "stretto/device/make_partition.h"

namespace stretto::device {
namespace {

Case made(std::string name, int tokens, int top_k, int experts, auto id_of) {
  Case one{std::move(name), tokens, top_k, experts, {}};
  for (int c = 0; c < tokens * top_k; ++c) one.ids.push_back(id_of(c));
  return one;
}

}  // namespace

std::vector<Case> cases() {
  std::mt19937 dice(7);
  const auto uniform = [&](int experts) {
    return [&dice, experts](int) { return static_cast<int64_t>(dice() % unsigned(experts)); };
  };
  const auto zipf = [&](int experts) {
    return [&dice, experts](int) {
      const double x = double(dice()) / 4294967296.0;
      return static_cast<int64_t>(std::pow(experts + 1.0, x) - 1);
    };
  };
  return {
      made("no tokens", 0, 2, 8, [](int) { return 0; }),
      made("one token, one expert", 1, 1, 1, [](int) { return 0; }),
      made("uniform", 300, 3, 24, uniform(24)),
      made("zipf", 257, 8, 64, zipf(64)),
      made("one hot", 100, 2, 16, [](int) { return 5; }),
      made("one choice each", 16, 1, 16, [](int c) { return c; }),
      made("all dropped", 40, 2, 4, [](int) { return -1; }),
      made("some dropped", 40, 2, 4, [&](int) { return int64_t(dice() % 5) - 1; }),
      made("bad ids", 40, 2, 4, [&](int) { return int64_t(dice() % 9) - 3; }),
      made("far out of range", 9, 1, 4,
           [](int c) { return c % 3 == 0   ? INT32_MAX
                              : c % 3 == 1 ? INT32_MIN
                                           : 2; }),
      made("an expert twice", 30, 4, 4, [](int c) { return c % 4 / 2; }),
      made("fewer choices than experts", 3, 1, 100, [](int c) { return 40 * c; }),
  };
}

Made expected(const Case& of, int first, int experts, int entry_rows, int spare) {
  const int entries = most_entries(of.tokens * of.top_k, experts, entry_rows) + spare;
  Made to{std::vector<int32>(size_t(entries) * size_t(entry_rows), -1),
          std::vector<int32>(size_t(entries), -1), std::vector<int32>(of.ids.size(), -1),
          std::vector<int32>(size_t(experts), 0)};
  to.bad_ids = 0;
  for (const int64_t id : of.ids) to.bad_ids += id < -1 || id >= of.experts ? 1 : 0;
  int entry = 0;
  for (int e = 0; e < experts; ++e) {
    int& rows = to.rows_of_expert[size_t(e)];
    for (size_t c = 0; c < of.ids.size(); ++c) {
      if (of.ids[c] != first + e) continue;
      const int row = entry * entry_rows + rows++;
      to.row_of_choice[c] = row;
      to.tokens[size_t(row)] = static_cast<int32>(c) / of.top_k;
    }
    for (const int begin = entry; entry < begin + (rows + entry_rows - 1) / entry_rows; ++entry) {
      to.expert_of_entry.at(size_t(entry)) = e;
    }
  }
  return to;
}

}  // namespace stretto::device
