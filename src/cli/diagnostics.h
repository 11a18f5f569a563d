// The checker's findings as text.
#pragma once

#include <string>

#include "stretto/check.h"

namespace stretto::cli {

// Each diagnostic as its kind, its sentence and its hint; at most `limit`, then how many are left.
std::string print_diagnostics(const CheckReport& report, size_t limit);

}  // namespace stretto::cli
