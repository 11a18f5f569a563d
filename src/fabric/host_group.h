// The processes of a job, and the one collective that all others are made of.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/error.h"

namespace stretto::fabric {

inline constexpr size_t kMaxMessageBytes = size_t{1} << 20;

class HostGroup {
 public:
  virtual ~HostGroup() = default;

  virtual int rank() const = 0;  // of this process
  virtual int size() const = 0;

  // Every process's bytes, by rank. All processes make the same calls in the same order; `what`
  // says which, in a user's words. Throws SystemError naming the ranks that are late, gone or at
  // something else; the group can be used again unless a process is gone. `patience_s`: how long
  // the others have from now on, where that is less than what the group was made with; 0: that.
  std::vector<std::string> all_gather(std::string_view what, std::string_view mine,
                                      double patience_s = 0) {
    has_failed_ = true;
    std::vector<std::string> all = gather(what, mine, patience_s);
    has_failed_ = false;
    return all;
  }
  // Whether some process did not come to the last call: it may never come to another.
  bool has_failed() const { return has_failed_; }

  void barrier(std::string_view what) { all_gather(what, {}); }

  // Throws UsageError naming the ranks whose text is not that of rank 0.
  void require_same(std::string_view what, std::string_view mine);

  // Runs a local step on every process. When it throws on some, it throws on all: there its own
  // error, elsewhere one that names the first such rank and its reason. Whoever catches a
  // UsageError to go on without the step can: it is one on all processes, or on none.
  template <typename Step>
  void together(std::string_view what, Step step) {
    StepError mine;
    try {
      step();
    } catch (const UsageError& error) {
      mine = {std::current_exception(), true, error.what()};
    } catch (const std::exception& error) {
      mine = {std::current_exception(), false, error.what()};
    }
    settle(what, mine);
  }

 private:
  struct StepError {
    std::exception_ptr error;  // null: the step was done
    bool is_refusal = false;   // a UsageError
    std::string reason;
  };
  virtual std::vector<std::string> gather(std::string_view what, std::string_view mine,
                                          double patience_s) = 0;
  void settle(std::string_view what, const StepError& mine);

  bool has_failed_ = false;
};

// How long a process whose run has failed, in a wait that may take `timeout_ns`, waits for others
// to come to the end of theirs: as long as they may take to find out too, in seconds. A rank that
// does not come then is the reason.
constexpr double patience_after_failure(uint64_t timeout_ns) {
  constexpr double kTimeouts = 4, kToTellS = 2;
  return kTimeouts * static_cast<double>(timeout_ns) / 1e9 + kToTellS;
}

// Text from another process, fit for one line of a message: printable ASCII, at most `limit` bytes.
std::string one_line(std::string_view text, size_t limit);

// One process that holds every rank.
std::unique_ptr<HostGroup> solo_group();

}  // namespace stretto::fabric
