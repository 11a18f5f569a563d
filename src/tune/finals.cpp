// Who may be the fastest is measured again, without the others.
//
// What keeps a GPU at its power limit is slower behind some contestants than behind others, by up
// to a tenth. In a few rounds of many contestants the fastest is then one that had luck.
#include <algorithm>
#include <cmath>

#include "stretto/tune.h"

namespace stretto {
namespace {

constexpr size_t kMost = 8;
constexpr double kSteady = 0.05;  // of the time, between the fastest and the slowest round
constexpr int kFewestRounds = 9, kFewestLong = 5;
constexpr double kLongTurnUs = 100e3;  // half of it is longer than a GPU keeps its highest clock

const Measured* find(const std::vector<Measured>& all, const std::string& schedule) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Measured& one) { return one.schedule == schedule; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Measured> finalists(std::vector<Measured> measured) {
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Measured& a, const Measured& b) { return a.time_us < b.time_us; });
  std::erase_if(measured, [fastest = measured.empty() ? 0 : measured.front().time_us](
                              const Measured& one) { return one.low_us > fastest; });
  if (measured.size() < 2) return {};
  measured.resize(std::min(measured.size(), kMost));
  return measured;
}

Turns turns_of_finals(const std::vector<Measured>& finalists, Turns sweep) {
  double sum = 0;
  for (const Measured& one : finalists) sum += (one.high_us - one.low_us) / one.time_us;
  if (sum <= kSteady * static_cast<double>(finalists.size())) {
    return {std::max(kFewestRounds, 2 * sweep.rounds), sweep.turn_us};
  }
  return {std::max(kFewestLong, sweep.rounds), std::max(kLongTurnUs, sweep.turn_us)};
}

std::vector<Measured> with_finals(std::vector<Measured> measured,
                                  const std::vector<Measured>& finals) {
  if (measured.empty() || finals.empty()) return measured;
  double change = 0, count = 0;  // of the logarithm of a time
  for (const Measured& one : finals) {
    if (const Measured* before = find(measured, one.schedule)) {
      change += std::log(one.time_us / before->time_us);
      count += 1;
    }
  }
  const auto is_faster = [](const Measured& a, const Measured& b) { return a.time_us < b.time_us; };
  const auto fastest = [&](const std::vector<Measured>& all) {
    return std::min_element(all.begin(), all.end(), is_faster)->time_us;
  };
  const double mean = count > 0 ? std::exp(change / count) : 1;
  const double factor = std::max(mean, fastest(finals) / fastest(measured));
  for (Measured& one : measured) {
    if (const Measured* last = find(finals, one.schedule)) {
      one = *last;
    } else {
      one.time_us *= factor;
      one.low_us *= factor;
      one.high_us *= factor;
    }
  }
  return measured;
}

}  // namespace stretto
