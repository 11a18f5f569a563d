// The rounds of a job's collective: who has come, who is missing, how each round ended.
//
// A round ends in one way for all: everybody's bytes, or one reason why not. So processes that see
// a failure take the same way out and meet again at the next round.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/socket.h"

namespace stretto::fabric {

class Rounds {
 public:
  explicit Rounds(int size) : members_(static_cast<size_t>(size)) {}

  struct Reply {
    int rank;
    std::string frame;
  };
  using Replies = std::vector<Reply>;

  int size() const { return static_cast<int>(members_.size()); }
  bool has_joined(int rank) const { return member(rank).joined; }
  void join(int rank, uint64_t pid);
  // A rank has come to a round, which ends `timeout_s` later at most; while ranks join, when the
  // first to come says.
  Replies arrive(int rank, uint64_t sequence, std::string_view what, double timeout_s,
                 std::string_view bytes);
  // Its process ended, or has left the job in good order: rounds without it cannot end well.
  Replies lose(int rank, bool in_good_order);
  // Ends rounds whose deadline has passed. `hint` is added to the reason, for ranks that never
  // came.
  Replies expire(std::string_view hint);
  // Ends this and all later rounds.
  Replies refuse(const std::string& reason);
  // When expire() has something to do; a far day when never.
  Deadline next_deadline() const;

 private:
  struct Member {
    bool joined = false;
    uint64_t pid = 0;
    std::string gone;  // why it will not come any more
  };
  struct Round {
    std::string what;
    double timeout_s = 0;
    Deadline deadline;
    std::vector<bool> arrived, answered;
    std::vector<std::string> bytes;
    std::string failure;
  };

  const Member& member(int rank) const { return members_[static_cast<size_t>(rank)]; }
  Replies settle(uint64_t sequence);
  Replies settle_all();
  std::string missing(const Round& round, std::string_view hint) const;

  std::vector<Member> members_;
  std::map<uint64_t, Round> rounds_;  // not yet answered to all
  std::string refusal_;
};

}  // namespace stretto::fabric
