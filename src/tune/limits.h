// Bounds of what is read from a tuning file.
#pragma once

#include <cstddef>

namespace stretto {

inline constexpr size_t kMostTuningBytes = size_t{16} << 20;
inline constexpr size_t kMostTunedOperators = 10'000;
inline constexpr size_t kMostMeasured = 1'000;               // schedules of one operator
inline constexpr size_t kMostTunedGraph = size_t{32} << 10;  // characters of a caller's own
inline constexpr size_t kMostTuningText = 200, kMostScheduleText = 2'000;
inline constexpr double kLeastTimeUs = 0.01, kMostTimeUs = 1e9;
// A runner that sees no run end in 60 s takes it for hung.
inline constexpr int kMostTurnMs = 10'000;

}  // namespace stretto
