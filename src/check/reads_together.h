// Many reads of one region, of which one asks again and again whether all come after a write, or
// before one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "check/accesses.h"
#include "check/execution.h"

namespace stretto::checker {

class ReadsTogether {
 public:
  // Of run 0; `reads` are indices in `accesses`, ascending.
  ReadsTogether(const Plan& plan, const Execution& execution, std::span<const Access> accesses,
                std::span<const uint32_t> reads);

  // Whose lanes read; nothing: those of several ranks.
  std::optional<uint16_t> rank() const { return rank_; }
  // Tasks, where one that reads the region several times counts once.
  size_t num_tasks() const { return num_tasks_; }

  bool are_after(Event write);
  bool are_before(Event write) const;

 private:
  // What each of some lanes has done.
  struct Mark {
    uint32_t lane = 0, seq = 0;
  };
  using Marks = std::vector<Mark>;  // ascending lane
  static Marks::iterator find(Marks& marks, uint32_t lane);

  const Execution& execution_;
  std::optional<uint16_t> rank_;
  size_t num_tasks_ = 0;
  std::vector<Event> begins_;  // of each lane's first read, which knows the least
  Marks ends_;                 // of each lane's last read
  Marks known_;                // of lanes asked for: the last event that all reads know
};

}  // namespace stretto::checker
