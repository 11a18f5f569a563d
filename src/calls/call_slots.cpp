#include "calls/call_slots.h"

namespace stretto::runtime {

void CallSlots::add(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    fresh_.push_back(slots_.size());
    slots_.emplace_back();
  }
}

std::optional<CallSlots::Found> CallSlots::find(const Key& key, bool is_captured,
                                                const std::function<bool(size_t)>& may_take) {
  const auto known = by_key_.find(key);
  if (known != by_key_.end()) {
    Slot& slot = slots_[known->second];
    if (!slot.is_captured && is_captured) used_.erase(slot.place);
    if (!slot.is_captured && !is_captured) used_.splice(used_.begin(), used_, slot.place);
    slot.is_captured = slot.is_captured || is_captured;
    return Found{known->second, false, false};
  }
  Found found{0, true, false};
  if (!fresh_.empty()) {
    found.slot = fresh_.back();
    fresh_.pop_back();
  } else if (!is_captured && !used_.empty() && may_take(used_.back())) {
    found.slot = used_.back();
    used_.pop_back();
    found.had_other = true;
    if (slots_[found.slot].key) by_key_.erase(*slots_[found.slot].key);
  } else {
    return std::nullopt;
  }
  Slot& slot = slots_[found.slot];
  slot.key = key;
  slot.is_captured = is_captured;
  if (!is_captured) slot.place = used_.insert(used_.begin(), found.slot);
  by_key_.emplace(key, found.slot);
  return found;
}

void CallSlots::forget(size_t slot) {
  Slot& gone = slots_[slot];
  by_key_.erase(*gone.key);
  if (!gone.is_captured) used_.erase(gone.place);
  gone = {};
  gone.place = used_.insert(used_.end(), slot);
}

}  // namespace stretto::runtime
