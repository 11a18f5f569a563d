#include "sync/alike_signals.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/counting_sort.h"
#include "sync/lane_writer.h"

namespace stretto {
namespace {

class AlikeWriter {
 public:
  AlikeWriter(Draft& draft, const SignalGroups& groups, const AlikeRanks& alike)
      : draft_(draft),
        groups_(groups),
        ranks_(static_cast<size_t>(alike.ranks())),
        lanes_each_(draft.plan.lanes.size() / ranks_),
        per_rank_(alike.count() / ranks_) {
    declare_arrays();
    number_groups();
    collect_ends(alike);
  }

  void write() {
    const Sorted<Wait> waits(waits_, per_rank_, [](const Wait& one) { return one.index; });
    Sorted<Notify> notifies(notifies_, per_rank_, [](const Notify& one) { return one.index; });
    // Destinations in turn, beginning with the next rank, so that no rank hears from all at once.
    for (size_t index = 0; index < per_rank_; ++index) {
      const std::span<Notify> of_one = notifies.bucket(index);
      if (of_one.size() < 2) continue;
      std::sort(of_one.begin(), of_one.end(), [](const Notify& a, const Notify& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.group < b.group;
      });
    }
    LaneWriter lanes(draft_.plan);
    for (size_t rank = 0; rank < ranks_; ++rank) write_rank(rank, waits, notifies, lanes);
    lanes.finish();
    draft_.program.clear();  // its positions are no longer those of the lanes
    draft_.ranks_are_alike = true;
  }

 private:
  // A wait stands beside an instruction of any rank, known by its index among its rank's.
  struct Wait {
    uint32_t index, place;  // of a group in the own rank's memory
  };
  struct Notify {
    uint32_t index, group;
    uint32_t distance;  // from the rank to the one whose counter it is
  };

  // An array of counters for each buffer, in the order of groups.
  void declare_arrays() {
    std::vector<std::optional<uint16_t>> arrays(draft_.plan.buffers.size());
    std::vector<SignalArray>& signals = draft_.plan.signals;
    signals_.reserve(groups_.all().size());
    for (const SignalGroups::Group& group : groups_.all()) {
      std::optional<uint16_t>& array = arrays[group.buffer];
      if (!array) {
        const Buffer& buffer = draft_.plan.buffers[group.buffer];
        array = static_cast<uint16_t>(signals.size());
        signals.push_back({buffer.name, 0, buffer.copies});
      }
      signals_.push_back({*array, signals[*array].count++});
    }
  }

  void number_groups() {
    const size_t count = groups_.all().size();
    by_place_.reserve(ranks_ * count);
    place_of_.resize(ranks_ * count);
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<uint32_t> places = groups_.places_on(static_cast<int>(rank));
      by_place_.insert(by_place_.end(), places.begin(), places.end());
      for (uint32_t place = 0; place < count; ++place) {
        place_of_[rank * count + places[place]] = place;
      }
    }
  }

  void collect_ends(const AlikeRanks& alike) {
    const std::vector<SignalGroups::Group>& groups = groups_.all();
    for (uint32_t i = 0; i < groups.size(); ++i) {
      for (const uint32_t at : groups_.acquires(groups[i])) {
        waits_.push_back({alike.index_of(at), i});
      }
      for (const uint32_t at : groups_.releases(groups[i])) {
        const auto from = static_cast<uint32_t>(alike.rank_of(at));
        const uint32_t distance = from == 0 ? 0 : static_cast<uint32_t>(ranks_) - from;
        notifies_.push_back({alike.index_of(at), i, distance});
      }
    }
  }

  void write_rank(size_t rank, const Sorted<Wait>& waits, const Sorted<Notify>& notifies,
                  LaneWriter& lanes) const {
    const std::vector<SignalGroups::Group>& groups = groups_.all();
    size_t first = 0;  // index of the lane's first instruction
    for (size_t i = 0; i < lanes_each_; ++i) {
      Lane& lane = draft_.plan.lanes[rank * lanes_each_ + i];
      const size_t end = first + lane.instrs.size();
      lanes.write(
          lane, waits.count(first, end) + notifies.count(first, end),
          [&](size_t pos, std::vector<Instr>& instrs) {
            for (const Wait& wait : waits.bucket(first + pos)) {
              const uint32_t group = by_place_[rank * groups.size() + wait.place];
              append_wait(instrs, signals_[wait.place], groups[group].num_releases, 0);
            }
          },
          [&](size_t pos, std::vector<Instr>& instrs) {
            for (const Notify& notify : notifies.bucket(first + pos)) {
              const size_t beyond = rank + notify.distance;
              const size_t to = beyond < ranks_ ? beyond : beyond - ranks_;
              const uint32_t place = place_of_[to * groups.size() + notify.group];
              append_notify(instrs, signals_[place], static_cast<uint16_t>(to));
            }
          });
      first = end;
    }
  }

  Draft& draft_;
  const SignalGroups& groups_;
  const size_t ranks_, lanes_each_, per_rank_;
  std::vector<SignalRef> signals_;             // by place
  std::vector<uint32_t> by_place_, place_of_;  // by rank: group by place, place by group
  std::vector<Wait> waits_;
  std::vector<Notify> notifies_;
};

}  // namespace

void write_alike_signals(Draft& draft, const SignalGroups& groups, const AlikeRanks& alike) {
  AlikeWriter(draft, groups, alike).write();
}

}  // namespace stretto
