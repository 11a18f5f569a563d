// The processes of a job, and the one collective that all others are made of.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::fabric {

inline constexpr size_t kMaxMessageBytes = size_t{1} << 20;

class HostGroup {
 public:
  virtual ~HostGroup() = default;

  virtual int rank() const = 0;  // of this process
  virtual int size() const = 0;

  // Every process's bytes, by rank. All processes make the same calls in the same order; `what`
  // says which, in a user's words. Throws SystemError naming the ranks that are late, gone or at
  // something else; the group can be used again unless a process is gone.
  virtual std::vector<std::string> all_gather(std::string_view what, std::string_view mine) = 0;

  void barrier(std::string_view what) { all_gather(what, {}); }

  // Throws UsageError naming the ranks whose text is not that of rank 0.
  void require_same(std::string_view what, std::string_view mine);

  // Runs a local step on every process. When it throws on some, it throws on all: there its own
  // error, elsewhere a SystemError that names the first such rank and its reason.
  template <typename Step>
  void together(std::string_view what, Step step) {
    std::exception_ptr mine;
    std::string reason;
    try {
      step();
    } catch (const std::exception& error) {
      mine = std::current_exception();
      reason = error.what();
    }
    settle(what, mine, reason);
  }

 private:
  void settle(std::string_view what, std::exception_ptr mine, std::string_view reason);
};

// Text from another process, fit for one line of a message: printable ASCII, at most `limit` bytes.
std::string one_line(std::string_view text, size_t limit);

// One process that holds every rank.
std::unique_ptr<HostGroup> solo_group();

}  // namespace stretto::fabric
