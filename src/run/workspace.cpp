#include "run/workspace.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/error.h"

namespace stretto::runtime {
namespace {

constexpr uint64_t kNobody = ~uint64_t{0};  // no plan's

}  // namespace

size_t next_piece(const WorkspaceSize& size, size_t largest, size_t needed) {
  if (size.growth == WorkspaceGrowth::none) {
    throw UsageError(
        fmt::format("a plan needs {} bytes between ranks, and the context's workspace has {}: make "
                    "it larger, let it grow, or let each operation have its own",
                    needed, size.num_bytes));
  }
  return size.growth == WorkspaceGrowth::exact ? needed : std::max(needed, 2 * largest);
}

Workspace::Workspace(fabric::Fabric& fabric, const WorkspaceSize& size)
    : fabric_(fabric), size_(size) {
  if (size.num_bytes > 0) grow(size.num_bytes);
}

fabric::Region& Workspace::grow(size_t num_bytes) {
  regions_.push_back(std::make_unique<fabric::Region>(fabric_.allocate(num_bytes, "a workspace")));
  return *regions_.back();
}

const fabric::Region& Workspace::take(size_t num_bytes) {
  const size_t largest = regions_.empty() ? 0 : regions_.back()->num_bytes();
  if (largest >= num_bytes) return *regions_.back();
  return grow(next_piece(size_, largest, num_bytes));
}

size_t Workspace::num_bytes() const {
  size_t all = 0;
  for (const auto& region : regions_) all += region->num_bytes();
  return all;
}

bool WorkspaceTurns::needs_fence(uint64_t user, const std::optional<uint64_t>& capture) const {
  // What ran before a graph is launched is not known; inside it, it is.
  if (capture) return !is_captured_ || *capture != capture_ || captured_last_ != user;
  return is_captured_ || (last_ != 0 && last_ != user);
}

void WorkspaceTurns::forget() { last_ = kNobody; }

void WorkspaceTurns::note(uint64_t user, const std::optional<uint64_t>& capture) {
  if (!capture) {
    last_ = user;
    return;
  }
  capture_ = *capture;
  captured_last_ = user;
  is_captured_ = true;
}

}  // namespace stretto::runtime
