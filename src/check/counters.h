// The counters that a plan's waits and notifies name, and who adds to each in one run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "check/findings.h"
#include "check/instr_index.h"
#include "stretto/plan.h"

namespace stretto::checker {

struct Note {
  uint32_t pos = 0;  // of a notify in its lane
  int64_t upto = 0;  // what the lane has added in its run, this notify included
};

// What one lane adds to one counter in one run.
struct Share {
  uint32_t lane = 0;
  int64_t sum = 0;
  uint32_t first_note = 0, num_notes = 0;
};

struct Counter {
  SignalRef signal;
  uint16_t rank = 0;
  uint8_t copies = 1;
  int64_t total = 0;         // of one run
  int64_t most_awaited = 0;  // the highest threshold
  uint32_t first_share = 0, num_shares = 0;
  uint32_t first_wait = 0, num_waits = 0;
};

class Counters {
 public:
  // Throws UsageError when a counter's sums could overflow.
  Counters(const Plan& plan, const InstrIndex& index);

  size_t size() const { return counters_.size(); }
  const Counter& operator[](uint32_t counter) const { return counters_[counter]; }
  // The counter that a wait or notify names.
  uint32_t of(uint32_t instr) const { return of_[instr]; }

  // Ascending lane.
  std::span<const Share> shares(const Counter& counter) const {
    return std::span(shares_).subspan(counter.first_share, counter.num_shares);
  }
  // In lane order.
  std::span<const Note> notes(const Share& share) const {
    return std::span(notes_).subspan(share.first_note, share.num_notes);
  }
  // Whether a wait for `amount` by a lane is for all that a run notifies, none of it by that lane.
  bool is_for_all(const Counter& counter, uint32_t lane, int64_t amount) const;
  // Instructions that wait for it.
  std::span<const uint32_t> waits(const Counter& counter) const {
    return std::span(waits_).subspan(counter.first_wait, counter.num_waits);
  }

 private:
  std::vector<Counter> counters_;
  std::vector<Share> shares_;
  std::vector<Note> notes_;
  std::vector<uint32_t> waits_;
  std::vector<uint32_t> of_;  // by instruction
};

// Reports waits for more than one run ever notifies.
void check_thresholds(const Plan& plan, const InstrIndex& index, const Counters& counters,
                      Findings& findings);

}  // namespace stretto::checker
