// How near a measurement is to an operator, and what it says for it.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "stretto/tune.h"
#include "tune/rows_in_memory.h"

namespace stretto {

// How far apart two sizes are: factors count.
inline double apart(int64_t x, int64_t y) {
  return std::abs(std::log(static_cast<double>(x) / static_cast<double>(y)));
}

// How far apart what GPUs multiply is, whatever the dimension: of as many ranks, how far apart the
// operators are.
inline double distance(const Segment& a, const Segment& b) {
  if (a.ranks == b.ranks) return apart(a.m, b.m) + apart(a.n, b.n) + apart(a.k, b.k);
  return apart(a.m, b.m) + apart(a.local_n(), b.local_n()) + apart(a.local_k(), b.local_k());
}

// Whether it was measured on another GPU than plans will run on; nobody may know.
inline bool is_of_another_gpu(const TunedSchedules& tuned, const Machine& machine) {
  return !machine.gpu.empty() && !tuned.gpu.empty() && tuned.gpu != machine.gpu;
}

// Another GPU is as far as a factor of two: what is fast on one mostly is on the next, and sooner
// so for the same sizes than for others.
inline const double kOtherGpu = std::log(2.0);

// How far a measurement reaches to speak for `op`.
inline double reach(const TunedOperator& tuned, const Segment& op, const Machine& machine) {
  const double to_gpu = is_of_another_gpu(tuned, machine) ? kOtherGpu : 0;
  return distance(tuned.op, op) + apart(tuned.op.ranks, op.ranks) + to_gpu;
}

// Beyond a factor of four in all what is measured says no more of schedules that are not simulated
// than the number of rows does (served_schedule.cpp).
inline const double kFar = std::log(4.001);

// Beyond this the simulation by itself weighs more (near_measurements.cpp).
inline const double kSilent = std::log(20.0);

// What was measured on `op` and this GPU; bf16 and fp16 run alike, and where both were measured its
// own comes first.
std::vector<const TunedOperator*> measured_on(const Segment& op, const Machine& machine,
                                              const Tuning& tuning);

// All that says something of `op`, the nearest by reach first: inside a node with other numbers of
// ranks too. Across nodes other schedules are fast than inside one. Of an operator that was
// measured on several GPUs what is nearest to this one, and where that is not known what was read
// last.
std::vector<const TunedOperator*> speaking_for(const Segment& op, const Machine& machine,
                                               const Tuning& tuning);

// "m=512 n=4096 k=1024 with 4 ranks", and the GPU where it is another.
std::string where_measured(const TunedOperator& tuned, const Machine& machine);

// cuBLAS, then NCCL, where it can serve: measured beside every operator.
std::optional<Schedule> library_for(const Segment& op, const Machine& machine);

// cuBLAS and the kernel of few rows tile products by themselves.
inline Schedule comparable(Schedule schedule) {
  if (schedule.gemm == GemmBy::tiles) return schedule;
  schedule.tile_m = schedule.tile_n = 0;
  schedule.swizzle = 0;
  return schedule;
}

// Throws UsageError where no schedule serves rows that stand in GPU memory.
void require_some_serve(bool by_some);

// A schedule that was measured on an operator, for `op`, where it can serve it. The order in which
// cuBLAS proposes algorithms is a shape's own: another than its first says nothing for others, and
// the first was measured beside it.
inline std::optional<Schedule> as_measured(const TunedOperator& tuned, const Measured& measured,
                                           const Segment& op, const Machine& machine, RowCount rows,
                                           RowsFrom from = RowsFrom::host) {
  Schedule schedule = parse_schedule(measured.schedule, op, machine);
  const bool is_itself = tuned.op == op && !is_of_another_gpu(tuned, machine);
  if (schedule.algorithm != 0 && !is_itself) return std::nullopt;
  if (schedule.partials != DType::fp32) schedule.partials = op.dtype;
  if (rows == RowCount::bucket) schedule.rows = rows;
  if (!serves_from(schedule, op, from) || !legal(op, schedule, machine).empty())
    return std::nullopt;
  return schedule;
}

}  // namespace stretto
