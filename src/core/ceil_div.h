// Quotients of sizes that count what is begun as a whole one.
#pragma once

#include <cstdint>

namespace stretto {

constexpr int64_t ceil_div(int64_t size, int64_t by) { return (size + by - 1) / by; }

constexpr int64_t round_up(int64_t size, int64_t unit) { return ceil_div(size, unit) * unit; }

}  // namespace stretto
