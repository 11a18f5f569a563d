// The day on which something was measured, as results and tuning files have it.
#pragma once

#include <string>

namespace stretto {

std::string today();  // "2026-11-23", UTC

}  // namespace stretto
