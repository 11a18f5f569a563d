// How long texts may be that several rooms read and write.
#pragma once

#include <cstddef>

namespace stretto {

// A schedule's, in whatever form: longer than any worth writing, and what a plan keeps.
inline constexpr size_t kMaxScheduleLength = 8192;

}  // namespace stretto
