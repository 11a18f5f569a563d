// The checker's findings as text.
#pragma once

#include <string>

#include "cli/plan_file.h"
#include "stretto/check.h"

namespace stretto::cli {

// Each diagnostic as its kind, its sentence and its hint; at most `limit`, then how many are left.
// Of those that differ in numbers only three are printed and the others counted. Of a plan from a
// file (null: it is from none) the sentence begins with the file and the line, and all else that it
// names follows with a line of its own.
std::string print_diagnostics(const CheckReport& report, const PlanFile* file, size_t limit);

}  // namespace stretto::cli
