// How near a measurement is to an operator, and what it says for it.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "stretto/tune.h"

namespace stretto {

// How far apart two sizes are: factors count.
inline double apart(int64_t x, int64_t y) {
  return std::abs(std::log(static_cast<double>(x) / static_cast<double>(y)));
}

// How far apart what GPUs multiply is, whatever the dimension: of as many ranks, how far apart the
// operators are.
inline double distance(const Operator& a, const Operator& b) {
  if (a.ranks == b.ranks) return apart(a.m, b.m) + apart(a.n, b.n) + apart(a.k, b.k);
  return apart(a.m, b.m) + apart(a.local_n(), b.local_n()) + apart(a.local_k(), b.local_k());
}

// How far a measurement of `a` reaches to speak for `b`.
inline double reach(const Operator& a, const Operator& b) {
  return distance(a, b) + apart(a.ranks, b.ranks);
}

// Beyond a factor of four in all a measurement is not taken as it is.
inline const double kFar = std::log(4.001);

// Beyond this the simulation by itself weighs more (near_measurements.cpp).
inline const double kSilent = std::log(20.0);

// What was measured near `op` with as many ranks, the nearest first; bf16 and fp16 run alike, and
// where both were measured its own comes first.
std::vector<const TunedOperator*> nearest_first(const Operator& op, const Machine& machine,
                                                const Tuning& tuning);

// All that says something of `op`, the nearest by reach first: inside a node with other numbers of
// ranks too. Across nodes other schedules are fast than inside one.
std::vector<const TunedOperator*> speaking_for(const Operator& op, const Machine& machine,
                                               const Tuning& tuning);

// cuBLAS, then NCCL, where it can serve: measured beside every operator.
std::optional<Schedule> library_for(const Operator& op, const Machine& machine, RowCount rows);

// Whether a run may be told its rows so.
inline bool serves_from(const Schedule& schedule, RowsFrom from) {
  return from == RowsFrom::host || schedule.gemm == GemmBy::tiles;
}

// A schedule that was measured on an operator, for `op`, where it can serve it. The order in which
// cuBLAS proposes algorithms is a shape's own: another than its first says nothing for others, and
// the first was measured beside it.
inline std::optional<Schedule> as_measured(const TunedOperator& tuned, const Measured& measured,
                                           const Operator& op, const Machine& machine,
                                           RowCount rows, RowsFrom from = RowsFrom::host) {
  Schedule schedule = parse_schedule(measured.schedule, op, machine);
  if (schedule.algorithm != 0 && tuned.op != op) return std::nullopt;
  if (schedule.partials != DType::fp32) schedule.partials = op.dtype;
  if (rows == RowCount::bucket) schedule.rows = rows;
  if (!serves_from(schedule, from) || !legal(op, schedule, machine).empty()) return std::nullopt;
  return schedule;
}

}  // namespace stretto
