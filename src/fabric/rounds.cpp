#include "fabric/rounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric/frame.h"

namespace stretto::fabric {
namespace {

constexpr Deadline kFarDay = Deadline::max();

}  // namespace

void Rounds::join(int rank, uint64_t pid) {
  Member& joining = members_[static_cast<size_t>(rank)];
  joining.joined = true;
  joining.pid = pid;
}

Rounds::Replies Rounds::arrive(int rank, uint64_t sequence, std::string_view what, double timeout_s,
                               std::string_view bytes) {
  const auto [at, is_new] = rounds_.try_emplace(sequence);
  Round& round = at->second;
  if (is_new) {
    round.what = what;
    round.timeout_s = timeout_s;
    round.deadline = after(timeout_s);
    round.arrived.resize(members_.size());
    round.answered.resize(members_.size());
    round.bytes.resize(members_.size());
  }
  // Who has less patience has a reason, which holds for all; but those that join have each waited
  // for others already.
  const bool all_joined =
      std::all_of(members_.begin(), members_.end(), [](const Member& one) { return one.joined; });
  if (all_joined && after(timeout_s) < round.deadline) {
    round.timeout_s = timeout_s;
    round.deadline = after(timeout_s);
  }
  const auto self = static_cast<size_t>(rank);
  if (round.what != what && round.failure.empty()) {
    const auto other = std::find(round.arrived.begin(), round.arrived.end(), true);
    round.failure = fmt::format("ranks are at different steps: rank {} at {}, rank {} at {}",
                                other - round.arrived.begin(), round.what, rank, what);
  }
  round.arrived[self] = true;
  round.bytes[self] = bytes;
  return settle(sequence);
}

Rounds::Replies Rounds::lose(int rank, bool in_good_order) {
  Member& lost = members_[static_cast<size_t>(rank)];
  if (!lost.gone.empty()) return {};
  lost.gone = in_good_order ? fmt::format("rank {} has left the job", rank)
                            : fmt::format("the process of rank {} (pid {}) ended", rank, lost.pid);
  return settle_all();
}

Rounds::Replies Rounds::expire(std::string_view hint) {
  for (auto& [sequence, round] : rounds_) {
    if (!round.failure.empty() || left_ms(round.deadline) > 0) continue;
    round.failure = missing(round, hint);
  }
  return settle_all();
}

Rounds::Replies Rounds::refuse(const std::string& reason) {
  if (refusal_.empty()) refusal_ = reason;
  return settle_all();
}

Deadline Rounds::next_deadline() const {
  Deadline next = kFarDay;
  for (const auto& [sequence, round] : rounds_) {
    if (round.failure.empty()) next = std::min(next, round.deadline);
  }
  return next;
}

std::string Rounds::missing(const Round& round, std::string_view hint) const {
  std::vector<std::string> never, late;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (round.arrived[rank]) continue;
    (members_[rank].joined ? late : never).push_back(std::to_string(rank));
  }
  const auto ranks = [](const std::vector<std::string>& list) {
    constexpr size_t kNamed = 8;
    const std::vector<std::string> named(
        list.begin(), list.begin() + static_cast<long>(std::min(list.size(), kNamed)));
    return fmt::format(
        "{} {}{}", list.size() == 1 ? "rank" : "ranks", fmt::join(named, ", "),
        list.size() > kNamed ? fmt::format(" and {} more", list.size() - kNamed) : "");
  };
  if (!never.empty()) {
    return fmt::format("{} did not join the job within {:g} s{}", ranks(never), round.timeout_s,
                       hint);
  }
  return fmt::format("{} did not come to {} within {:g} s", ranks(late), round.what,
                     round.timeout_s);
}

Rounds::Replies Rounds::settle(uint64_t sequence) {
  const auto at = rounds_.find(sequence);
  Round& round = at->second;
  bool complete = true;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (round.arrived[rank]) continue;
    complete = false;
    if (round.failure.empty() && !members_[rank].gone.empty()) {
      round.failure = fmt::format("{} before {}", members_[rank].gone, round.what);
    }
  }
  if (!complete && round.failure.empty()) round.failure = refusal_;
  if (!complete && round.failure.empty()) return {};

  FrameWriter body;
  body.number(sequence);
  if (round.failure.empty()) {
    for (const std::string& bytes : round.bytes) body.text(bytes);
  } else {
    body.text(round.failure);
  }
  const std::string frame = body.frame(round.failure.empty() ? FrameType::all : FrameType::failed);
  Replies replies;
  bool all_answered = true;
  for (size_t rank = 0; rank < members_.size(); ++rank) {
    if (round.arrived[rank] && !round.answered[rank]) {
      replies.push_back({static_cast<int>(rank), frame});
      round.answered[rank] = true;
    }
    all_answered = all_answered && (round.answered[rank] || !members_[rank].gone.empty());
  }
  if (all_answered) rounds_.erase(at);
  return replies;
}

Rounds::Replies Rounds::settle_all() {
  std::vector<uint64_t> open;
  for (const auto& [sequence, round] : rounds_) open.push_back(sequence);
  Replies all;
  for (const uint64_t sequence : open) {
    Replies replies = settle(sequence);
    all.insert(all.end(), replies.begin(), replies.end());
  }
  return all;
}

}  // namespace stretto::fabric
