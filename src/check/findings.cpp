#include "check/findings.h"

#include <fmt/format.h>

namespace stretto::checker {

void Findings::give(CheckReport& report) {
  for (size_t i = 0; i < diagnostics_.size(); ++i) {
    if (more_[i] > 0) diagnostics_[i].message += fmt::format(" (and {} more like this)", more_[i]);
  }
  report.diagnostics = std::move(diagnostics_);
  report.truncated = truncated_;
}

}  // namespace stretto::checker
