#include "measure/turns.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace stretto::runtime {

std::vector<size_t> turns_of_round(size_t count, int round) {
  std::vector<size_t> turns(count);
  std::iota(turns.begin(), turns.end(), size_t{0});
  std::mt19937 random(static_cast<uint32_t>(round));
  // Not std::shuffle, whose order each standard library chooses.
  for (size_t i = count; i > 1; --i) std::swap(turns[i - 1], turns[random() % i]);
  return turns;
}

void take_turns(size_t count, int rounds, const std::function<void(size_t who)>& take,
                const std::function<bool()>& goes_on) {
  for (int round = 0; round < rounds; ++round) {
    for (const size_t who : turns_of_round(count, round)) take(who);
    if (!goes_on()) return;
  }
}

}  // namespace stretto::runtime
