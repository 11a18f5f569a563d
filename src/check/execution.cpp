#include "check/execution.h"

#include <algorithm>

#include "stretto/error.h"

namespace stretto::checker {
namespace {

// The plan's lanes, one of the caller for each rank, and one for each joint.
std::vector<uint16_t> lane_ranks(const Plan& plan, const Joints& joints) {
  std::vector<uint16_t> ranks;
  ranks.reserve(plan.lanes.size() + static_cast<size_t>(plan.ranks()) + joints.count());
  for (const Lane& lane : plan.lanes) ranks.push_back(lane.rank);
  for (int rank = 0; rank < plan.ranks(); ++rank) ranks.push_back(static_cast<uint16_t>(rank));
  for (uint32_t joint = 0; joint < joints.count(); ++joint) ranks.push_back(joints.rank(joint));
  return ranks;
}

}  // namespace

Execution::Execution(const Plan& plan, const InstrIndex& index, const Counters& counters, int runs)
    : plan_(plan),
      index_(index),
      counters_(counters),
      runs_(runs),
      numbers_(plan, index),
      joints_(plan, index, counters, numbers_),
      joint_events_(joints_.count() * static_cast<size_t>(runs)),
      clocks_(lane_ranks(plan, joints_), plan.ranks()),
      lanes_(plan.lanes.size()),
      values_(counters.size() * static_cast<size_t>(runs), 0),
      least_(values_.size(), kNobodyWaits),
      compute_lanes_(static_cast<size_t>(plan.ranks()), 0),
      rank_lanes_(static_cast<size_t>(plan.ranks()), 0),
      at_boundary_(static_cast<size_t>(plan.ranks())),
      at_end_(static_cast<size_t>(plan.ranks())) {
  for (const Lane& lane : plan.lanes) {
    ++rank_lanes_[lane.rank];
    if (lane.kind == LaneKind::compute) ++compute_lanes_[lane.rank];
  }
}

void Execution::run() {
  for (uint32_t lane = static_cast<uint32_t>(lanes_.size()); lane-- > 0;) ready_.push_back(lane);
  while (!ready_.empty()) {
    const uint32_t lane = ready_.back();
    ready_.pop_back();
    advance(lane);
  }
}

void Execution::advance(uint32_t l) {
  LaneState& lane = lanes_[l];
  const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
  for (; lane.pos < instrs.size(); ++lane.pos) {
    const Instr& instr = instrs[lane.pos];
    const uint32_t at = index_.of(l, lane.pos);
    switch (instr.form()) {
      case OpForm::wait:
        if (!pass_wait(l)) return;
        break;
      case OpForm::notify:
        notify(l, at, instr);
        break;
      case OpForm::boundary:
        reach_event(l, numbers_.of(at) - 1);
        meet(at_boundary_[plan_.lanes[l].rank], l, compute_lanes_[plan_.lanes[l].rank]);
        return;
      case OpForm::collective:
        reach_event(l, numbers_.of(at) - 1);
        meet_at_collective(l, instr);
        return;
      case OpForm::task_kind:
      case OpForm::deliver:
        append_event(l);
        if (lane.run == 0) in_order_.push_back(at);
        break;
    }
  }
  end_run(l);
}

bool Execution::pass_wait(uint32_t l) {
  const LaneState& lane = lanes_[l];
  const Instr& wait = plan_.lanes[l].instrs[lane.pos];
  if (lane.run < wait.lag) return true;
  const uint32_t c = counters_.of(index_.of(l, lane.pos));
  const Counter& counter = counters_[c];
  const int of_run = lane.run - wait.lag;
  // A threshold beyond the total is never reached; by how much does not matter.
  const int64_t target =
      of_run / counter.copies * counter.total + std::min(wait.amount, counter.total + 1);
  if (value(c, of_run) < target) {
    const size_t at = c * static_cast<size_t>(runs_) + static_cast<size_t>(of_run);
    blocked_.emplace(at, target, l);
    least_[at] = std::min(least_[at], target);
    return false;
  }
  learn(l, c, wait);
  return true;
}

// Of each other lane, the wait knows the first notify without which the counter falls short even
// when everybody else has notified all that this run and the runs before contain.
void Execution::learn(uint32_t l, uint32_t c, const Instr& wait) {
  LaneState& lane = lanes_[l];
  const Counter& counter = counters_[c];
  const int of_run = lane.run - wait.lag;
  if (const uint32_t joint = joints_.of(c); joint != Joints::kNone) {
    const Event ended =
        joint_events_[joint * static_cast<size_t>(runs_) + static_cast<size_t>(of_run)];
    if (ended.seq != 0 && counters_.is_for_all(counter, l, wait.amount)) {
      lane.news.push_back(ended);
      return;
    }
  }
  // Most waits are for all that a run notifies: then it is the last of each lane.
  if (counters_.is_for_all(counter, l, wait.amount)) {
    for (const Share& share : counters_.shares(counter)) {
      const Note& last = counters_.notes(share).back();
      lane.news.push_back(event(share.lane, index_.of(share.lane, last.pos), of_run));
    }
    return;
  }
  const int64_t rounds = of_run / counter.copies + 1;  // runs of this instance up to of_run
  const int64_t target = (rounds - 1) * counter.total + wait.amount;
  const std::span<const Share> shares = counters_.shares(counter);
  int64_t most = rounds * counter.total;
  if (wait.lag == 0) {
    // What the waiting lane itself adds later in this run cannot have come yet.
    const auto own = std::lower_bound(shares.begin(), shares.end(), l,
                                      [](const Share& s, uint32_t want) { return s.lane < want; });
    if (own != shares.end() && own->lane == l) {
      int64_t added = 0;
      for (const Note& note : counters_.notes(*own)) {
        if (note.pos < lane.pos) added = note.upto;
      }
      most -= own->sum - added;
    }
  }
  for (const Share& share : shares) {
    if (share.lane == l) continue;
    const int64_t needed = target - (most - rounds * share.sum);
    if (needed <= 0) continue;
    const int64_t round = (needed - 1) / share.sum;
    const std::span<const Note> notes = counters_.notes(share);
    const auto note = std::lower_bound(notes.begin(), notes.end(), needed - round * share.sum,
                                       [](const Note& n, int64_t want) { return n.upto < want; });
    const int run = of_run % counter.copies + static_cast<int>(round) * counter.copies;
    lane.news.push_back(event(share.lane, index_.of(share.lane, note->pos), run));
  }
}

void Execution::notify(uint32_t l, uint32_t at, const Instr& notify) {
  reach_event(l, numbers_.of(at));
  const uint32_t c = counters_.of(at);
  for (int run = lanes_[l].run; run < runs_; run += counters_[c].copies) {
    const size_t slot = c * static_cast<size_t>(runs_) + static_cast<size_t>(run);
    values_[slot] += notify.amount;
    if (values_[slot] < least_[slot]) continue;
    auto first = blocked_.lower_bound({slot, INT64_MIN, 0});
    auto last = first;
    for (; last != blocked_.end() && std::get<0>(*last) == slot &&
           std::get<1>(*last) <= values_[slot];
         ++last) {
      ready_.push_back(std::get<2>(*last));
    }
    const bool any_left = last != blocked_.end() && std::get<0>(*last) == slot;
    least_[slot] = any_left ? std::get<1>(*last) : kNobodyWaits;
    blocked_.erase(first, last);
  }
  if (joints_.of(c) != Joints::kNone) end_joint(c, lanes_[l].run);
}

// The lanes that add are of one rank, so all of them are in this run. What they have added of it
// is all that any wait for the whole of it learns: of each the last notify.
void Execution::end_joint(uint32_t c, int run) {
  const Counter& counter = counters_[c];
  if (value(c, run) != (run / counter.copies + 1) * counter.total) return;
  const uint32_t joint = joints_.of(c);
  Event& ended = joint_events_[joint * static_cast<size_t>(runs_) + static_cast<size_t>(run)];
  if (ended.seq != 0) return;  // by another counter
  std::vector<Event> last;
  for (const Share& share : counters_.shares(counter)) {
    last.push_back(
        event(share.lane, index_.of(share.lane, counters_.notes(share).back().pos), run));
  }
  const auto first_joint =
      static_cast<uint32_t>(plan_.lanes.size()) + static_cast<uint32_t>(plan_.ranks());
  ended = clocks_.append(first_joint + joint, last);
}

void Execution::meet(std::vector<uint32_t>& arrived, uint32_t l, size_t expected) {
  arrived.push_back(l);
  if (arrived.size() < expected) return;
  clocks_.join(arrived);
  for (uint32_t lane : arrived) {
    if (lanes_[lane].run == 0) in_order_.push_back(index_.of(lane, lanes_[lane].pos));
    ++lanes_[lane].pos;
  }
  ready_.insert(ready_.end(), arrived.begin(), arrived.end());
  arrived.clear();
}

void Execution::meet_at_collective(uint32_t l, const Instr& instr) {
  const Plan::Joined joined = plan_.joined_by(instr, plan_.lanes[l].rank);
  meet(at_collective_[{instr.id, joined.first}], l, static_cast<size_t>(joined.count));
}

void Execution::end_run(uint32_t l) {
  const uint16_t rank = plan_.lanes[l].rank;
  reach_event(l, numbers_.per_run(l));
  at_end_[rank].push_back(l);
  if (at_end_[rank].size() < rank_lanes_[rank]) return;
  clocks_.end_run(rank);
  clocks_.append(caller(rank).lane);
  for (uint32_t lane : at_end_[rank]) {
    lanes_[lane].pos = 0;
    if (++lanes_[lane].run < runs_) {
      ready_.push_back(lane);
    } else {
      ++finished_lanes_;
    }
  }
  at_end_[rank].clear();
}

void Execution::reach_event(uint32_t lane, uint32_t event) {
  const uint32_t ended = static_cast<uint32_t>(lanes_[lane].run) * numbers_.per_run(lane);
  if (clocks_.last(lane).seq < ended + event) append_event(lane);
}

void Execution::append_event(uint32_t l) {
  std::vector<Event>& news = lanes_[l].news;
  if (!news.empty()) budget_.spend(clocks_);
  // A lane's last notify tells all that its earlier ones did.
  const auto is_before = [](const Event& a, const Event& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.seq > b.seq;
  };
  if (!std::is_sorted(news.begin(), news.end(), is_before)) {
    std::sort(news.begin(), news.end(), is_before);
  }
  news.erase(std::unique(news.begin(), news.end(),
                         [](const Event& a, const Event& b) { return a.lane == b.lane; }),
             news.end());
  clocks_.append(l, news);
  news.clear();
}

}  // namespace stretto::checker
