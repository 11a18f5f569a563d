#include "cli/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"

namespace stretto::cli {

std::string print_diagnostics(const CheckReport& report, size_t limit) {
  std::string out;
  const size_t shown = std::min(limit, report.diagnostics.size());
  for (size_t i = 0; i < shown; ++i) {
    const Diagnostic& found = report.diagnostics[i];
    out += "  " + wrap(fmt::format("{}: {}", to_string(found.kind), found.message), 2);
    if (!found.hint.empty()) out += "    hint: " + wrap(found.hint, 10);
  }
  if (shown < report.diagnostics.size() || report.truncated) {
    out += fmt::format("  ... and {}{} more\n", report.truncated ? "at least " : "",
                       report.diagnostics.size() - shown);
  }
  return out;
}

}  // namespace stretto::cli
