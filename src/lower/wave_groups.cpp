#include "lower/wave_groups.h"

#include <algorithm>

namespace stretto {
namespace {

constexpr size_t kMaxChosen = 5;
constexpr int kFirstShare = 16, kLastShare = 10;  // 1/16 and 1/10 of the waves

std::vector<int> choose(int waves) {
  const int last = waves == 1 ? 0 : (waves + kLastShare - 1) / kLastShare;
  int left = waves - last;
  std::vector<int> groups;
  for (int size = (waves + kFirstShare - 1) / kFirstShare; left > 0; size *= 2) {
    const bool is_last = groups.size() + 2 == kMaxChosen;
    groups.push_back(is_last ? left : std::min(size, left));
    left -= groups.back();
  }
  if (last > 0) groups.push_back(last);
  return groups;
}

}  // namespace

std::vector<int> wave_groups(const Schedule& schedule, int waves) {
  if (schedule.groups.empty()) return choose(waves);
  std::vector<int> groups;
  int left = waves;
  for (const int size : schedule.groups) {
    if (left == 0) break;
    groups.push_back(std::min(size, left));
    left -= groups.back();
  }
  if (left > 0) groups.push_back(left);
  return groups;
}

}  // namespace stretto
