#include "run/workspace.h"

#include <fmt/format.h>

#include <algorithm>

#include "run/plan_runner.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

// As many operations as a layer of a model has between ranks.
constexpr size_t kMostRecent = 4;

// Behind a run of the same plan its own proof is enough. Behind another's that is a fence all ranks
// have ended what came before it, and what it still does itself lies elsewhere.
bool goes_behind(const WorkspaceUse& before, const WorkspaceUse& next) {
  return before.user == next.user || (before.is_fence && !before.place.overlaps(next.place));
}

}  // namespace

// The first byte that goes: where the plan before ends, the front, or behind one of `recent`.
size_t WorkspaceRooms::beside(std::span<const WorkspaceBytes> recent, size_t num_bytes) const {
  std::vector<size_t> places = {next_, 0};
  for (const WorkspaceBytes& one : recent) places.push_back(one.end);
  for (; !recent.empty(); recent = recent.first(recent.size() - 1)) {
    for (const size_t at : places) {
      const auto is_in_the_way = [&](const WorkspaceBytes& one) {
        return one.overlaps({at, at + num_bytes});
      };
      if (at <= largest_ && num_bytes <= largest_ - at &&
          std::none_of(recent.begin(), recent.end(), is_in_the_way)) {
        return at;
      }
    }
  }
  return num_bytes <= largest_ - next_ ? next_ : 0;
}

PlaceInWorkspace WorkspaceRooms::place(size_t num_bytes, std::span<const WorkspaceBytes> recent) {
  const bool is_side_by_side =
      size_.growth == WorkspaceGrowth::doubles && num_bytes > size_.num_bytes;
  const size_t room = is_side_by_side ? 2 * num_bytes : num_bytes;
  if (room <= largest_) return place_inside(num_bytes, recent);
  if (size_.growth == WorkspaceGrowth::none) {
    throw UsageError(fmt::format(
        "a plan needs {} bytes between ranks, and the context's workspace has {}: make it larger, "
        "let it grow, or let each operation have its own",
        num_bytes, size_.num_bytes));
  }
  PlaceInWorkspace found;
  largest_ = found.new_piece = is_side_by_side ? std::max(room, 2 * largest_) : room;
  next_ = num_bytes;
  return found;
}

PlaceInWorkspace WorkspaceRooms::place_inside(size_t num_bytes,
                                              std::span<const WorkspaceBytes> recent) {
  PlaceInWorkspace found;
  found.at = beside(recent, num_bytes);
  next_ = found.at + num_bytes;
  return found;
}

Workspace::Workspace(fabric::Fabric& fabric, const WorkspaceSize& size)
    : fabric_(fabric), rooms_(size) {
  if (size.num_bytes > 0) grow(size.num_bytes);
}

void Workspace::grow(size_t num_bytes) {
  regions_.push_back(std::make_unique<fabric::Region>(fabric_.allocate(num_bytes, "a workspace")));
}

WorkspacePlace Workspace::take(size_t num_bytes) {
  std::vector<WorkspaceBytes> in_last;
  for (const WorkspacePlace& one : recent_) {
    if (!regions_.empty() && one.region == regions_.back().get()) in_last.push_back(one.bytes);
  }
  WorkspaceRooms rooms = rooms_;
  PlaceInWorkspace found = rooms.place(num_bytes, in_last);
  if (found.new_piece > 0) {
    try {
      grow(found.new_piece);
    } catch (const SystemError&) {  // on all ranks
      rooms = rooms_;
      if (!rooms.fits(num_bytes)) throw;
      found = rooms.place_inside(num_bytes, in_last);
    }
  }
  rooms_ = rooms;
  // Each rank finds others' memory by its own answer.
  fabric_.group().require_same("where a plan lies in the workspace",
                               fmt::format("byte {} of piece {}", found.at, regions_.size()));
  return {regions_.back().get(), {found.at, found.at + num_bytes}};
}

const PlanRunner* Workspace::failed_fence() const {
  const auto found = std::find_if(fences_.begin(), fences_.end(),
                                  [](const PlanRunner* runner) { return runner->is_told(); });
  return found == fences_.end() ? nullptr : *found;
}

size_t Workspace::num_bytes() const {
  size_t all = 0;
  for (const auto& region : regions_) all += region->num_bytes();
  return all;
}

bool WorkspaceTurns::needs_fence(const WorkspaceUse& next,
                                 const std::optional<uint64_t>& capture) const {
  if (capture) {
    // What ran before a graph is launched is not known; inside it, it is.
    return !captured_last_ || *capture != capture_ || !goes_behind(*captured_last_, next);
  }
  return knows_nothing_ || (last_ && !goes_behind(*last_, next)) ||
         (captured_last_ && !goes_behind(*captured_last_, next)) ||
         !std::all_of(last_of_captures_.begin(), last_of_captures_.end(),
                      [&](const WorkspaceUse& one) { return goes_behind(one, next); });
}

void WorkspaceTurns::forget() {
  knows_nothing_ = true;
  leave_capture();
  recent_.clear();
}

void WorkspaceTurns::leave_capture() {
  if (!captured_last_) return;
  const uint64_t user = captured_last_->user;
  std::erase_if(last_of_captures_, [=](const WorkspaceUse& one) { return one.user == user; });
  last_of_captures_.push_back(*captured_last_);
  captured_last_.reset();
}

std::vector<WorkspacePlace> WorkspaceTurns::recent() const {
  std::vector<WorkspacePlace> places;
  for (const WorkspaceUse& one : recent_) places.push_back(one.place);
  return places;
}

void WorkspaceTurns::note(const WorkspaceUse& next, const std::optional<uint64_t>& capture) {
  std::erase_if(recent_, [&](const WorkspaceUse& one) { return one.user == next.user; });
  recent_.push_front(next);
  if (recent_.size() > kMostRecent) recent_.pop_back();
  if (!capture) {
    last_ = next;
    knows_nothing_ = false;
    return;
  }
  if (*capture != capture_) leave_capture();
  capture_ = *capture;
  captured_last_ = next;
}

}  // namespace stretto::runtime
