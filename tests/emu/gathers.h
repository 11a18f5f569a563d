// All-gathers of awkward shapes under many schedules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stretto::emu {

struct GatherShape {
  int64_t m, n, k;   // n: of a rank
  const char* tile;  // "16x32"
};

// On 1 to 8 ranks of 9 SMs, so that there are several waves, in each dtype: every schedule of every
// shape is proved, exact on integers and within the bound on random data.
void expect_gathers_are_right(
    const std::vector<GatherShape>& shapes,
    const std::function<std::vector<std::string>(const GatherShape&)>& schedules);

}  // namespace stretto::emu
