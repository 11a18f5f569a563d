// Which calls' addresses GPU memory has at hand: a slot for each set of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

namespace stretto::runtime {

// Slots are taken again, the one first that was not asked for the longest; but those that graphs
// were captured with stay, since nobody knows when they are launched.
class CallSlots {
 public:
  // What a call is known by: its addresses, strides and rows.
  using Key = std::vector<uint64_t>;
  struct Found {
    size_t slot = 0;
    bool is_new = false;     // its memory has another call's addresses, or none
    bool had_other = false;  // another call's
  };

  void add(size_t count);
  // Nothing where every slot is a graph's; and for a graph, which may take none that another call
  // has had, where none is fresh: more are to be added.
  // `may_take`: whether a slot of another call may be written now; where the one that was not asked
  // for the longest may not, more are to be added, too.
  std::optional<Found> find(
      const Key& key, bool is_captured,
      const std::function<bool(size_t slot)>& may_take = [](size_t) { return true; });
  // The slot has nothing: it could not be written. Calls that are not captured may take it.
  void forget(size_t slot);
  size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    std::optional<Key> key;
    bool is_captured = false;
    std::list<size_t>::iterator place = {};  // in used_
  };
  std::vector<Slot> slots_;
  std::vector<size_t> fresh_;  // that no call has had
  std::list<size_t> used_;     // that no graph has, the last asked for first
  std::map<Key, size_t> by_key_;
};

}  // namespace stretto::runtime
