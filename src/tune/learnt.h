// What making operations has measured, kept for later processes of this user.
//
// A cache: nothing fails because of its file. What cannot be read, the file or an entry, is as if
// it were not there, and a note says why.
#pragma once

#include <optional>
#include <string>

#include "stretto/tune.h"
#include "tune/usable_tuning.h"

namespace stretto {

// STRETTO_TUNING_CACHE, else a file in the user's cache folder; empty where there is none.
std::string default_learnt_file();

class LearntFile {
 public:
  // Of operators of this GPU, `measured_with` (measured_with.h) the same, by this build of Stretto:
  // others are as if they were not there. An empty path: nothing is kept for others.
  LearntFile(std::string path, std::string gpu, const std::string& measured_with = "");

  // What is known of the operator on the machine. Reads the file where it has changed: another
  // process may have measured the operator in the meantime.
  // What serves a bucket takes another time than with fixed rows, so each is kept by itself.
  std::optional<TunedSchedules> find(const Operator& op, const Machine& machine,
                                     RowCount rows = RowCount::fixed);
  // Adds it under a lock; the oldest go where there are too many, and entries of this build that
  // cannot be read. Not for long: a process that holds the lock for a second is not waited for. A
  // file with anything that this build did not learn stays as it is: it may be a sweep's.
  // What is not written is still found here; so is a caller's own graph, which files cannot name.
  void add(const Operator& op, TunedSchedules tuned, RowCount rows = RowCount::fixed);
  // For this process alone: what another time may know better.
  void keep(const Operator& op, TunedSchedules tuned, RowCount rows = RowCount::fixed);
  // Why the file was not read or written, or how much of it was passed over, a line for people;
  // empty: it was, and nothing.
  const std::string& note() const { return note_; }

 private:
  void read_again();
  const TunedSchedules* found_in(const Tuning& known, const Operator& op, const Machine& machine,
                                 const std::string& key) const;
  std::string key_of(RowCount rows) const;

  std::string path_, gpu_, key_, note_;
  UsableTuning read_;
  Tuning unwritten_;       // what is for this process alone
  std::string read_from_;  // tells the file that was read from all that took its place
};

}  // namespace stretto
