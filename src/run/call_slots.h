// Which calls' addresses GPU memory has at hand: a slot for each set of them.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::optional<Found> find(const Key& key, bool is_captured);
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
