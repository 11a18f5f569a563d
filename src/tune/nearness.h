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

// Beyond a factor of four in all the simulation knows better than a measurement of another shape.
inline const double kFar = std::log(4.001);

// What was measured near `op`, the nearest first: with as many ranks, then, inside a node, with
// others; bf16 and fp16 run alike, and where both were measured its own comes first. Across nodes
// other schedules are fast than inside one.
std::vector<const TunedOperator*> nearest_first(const Operator& op, const Machine& machine,
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
