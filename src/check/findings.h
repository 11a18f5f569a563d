// Collects diagnostics: one for each cause, however many instructions show it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "stretto/check.h"

namespace stretto::checker {

class Findings {
 public:
  explicit Findings(size_t max_diagnostics) : max_(max_diagnostics) {}

  // Adds make()'s diagnostic, unless this kind was reported for `cause` before: then it is counted
  // with that one. `cause` is any number that tells the causes of one kind apart.
  template <typename Make>
  void add(DiagnosticKind kind, uint64_t cause, const Make& make) {
    const auto [known, is_new] = by_cause_.try_emplace({kind, cause}, diagnostics_.size());
    if (!is_new) {
      ++more_[known->second];
    } else if (diagnostics_.size() < max_) {
      diagnostics_.push_back(make());
      diagnostics_.back().kind = kind;
      more_.push_back(0);
    } else {
      by_cause_.erase(known);
      truncated_ = true;
    }
  }

  bool empty() const { return diagnostics_.empty() && !truncated_; }
  // No further cause will be reported; looking for more is a waste of time.
  bool full() const { return truncated_; }

  // Moves the diagnostics into the report.
  void give(CheckReport& report);

 private:
  size_t max_;
  std::vector<Diagnostic> diagnostics_;
  std::vector<size_t> more_;  // by diagnostic: how many others have the same cause
  std::map<std::pair<DiagnosticKind, uint64_t>, size_t> by_cause_;
  bool truncated_ = false;
};

}  // namespace stretto::checker
