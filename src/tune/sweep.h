// Schedules of one operator, each once, and only those that can serve it.
#pragma once

#include <algorithm>
#include <vector>

#include "stretto/schedule.h"
#include "stretto/tune.h"

namespace stretto {

struct SweptTile {
  int m, n;
};

inline constexpr SweptTile kSweptTiles[] = {{128, 256}, {128, 224}, {128, 192}, {128, 160},
                                            {128, 128}, {64, 256},  {64, 192}};

// Ranges of K that are worth a look, and the shortest one.
inline constexpr int kSplits[] = {2, 3, 4, 6, 8};
inline constexpr int64_t kShortestRange = 1024;

class Sweep {
 public:
  Sweep(const Segment& op, const Machine& machine, RowCount rows = RowCount::fixed)
      : op_(op), machine_(machine), rows_(rows) {}

  const std::vector<Schedule>& schedules() const { return schedules_; }

  void add(Schedule schedule);
  // `base` with each tile shape and number of communication SMs.
  void add_sizes(const Schedule& base);
  // Throws UsageError with the presets' reasons when nothing that was added can serve.
  void require_some() const;

 private:
  const Segment& op_;
  const Machine& machine_;
  RowCount rows_;
  std::vector<Schedule> schedules_;
};

// The fused preset with its tiles in the order that was found best.
Schedule fused_tiles(const Segment& op, const Machine& machine);
// The presets, `sequential` first, then points of the fused one.
void add_usual(Sweep& sweep, const Segment& op, const Machine& machine);
// The tile and the communication SMs of `schedule`.
void set_size(Schedule& schedule, const SweptTile& tile, int comm_sms);

void sort_by_prediction(std::vector<Candidate>& candidates);

}  // namespace stretto
