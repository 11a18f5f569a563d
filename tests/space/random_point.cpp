#include "space/random_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace stretto {
namespace {

using Random = std::mt19937_64;

int between(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}
bool one_in(Random& random, int count) { return between(random, 1, count) == 1; }

template <typename T>
T any_of(Random& random, std::initializer_list<T> values) {
  return *(values.begin() + between(random, 0, static_cast<int>(values.size()) - 1));
}

#define STRETTO_VALUE(name, ...) STRETTO_VALUE_OF::name,
template <typename Enum>
Enum any_value(Random& random);
#define STRETTO_ANY(Enum, TABLE)                         \
  template <>                                            \
  Enum any_value<Enum>(Random & random) {                \
    using STRETTO_VALUE_OF = Enum;                       \
    return any_of<Enum>(random, {TABLE(STRETTO_VALUE)}); \
  }
STRETTO_ANY(Granularity, STRETTO_GRANULARITIES)
STRETTO_ANY(Order, STRETTO_ORDERS)
STRETTO_ANY(Mover, STRETTO_MOVERS)
STRETTO_ANY(Sync, STRETTO_SYNCS)
STRETTO_ANY(Reduction, STRETTO_REDUCTIONS)
STRETTO_ANY(CollectivesBy, STRETTO_COLLECTIVES_BY)
STRETTO_ANY(Reuse, STRETTO_REUSES)
STRETTO_ANY(OwnRows, STRETTO_OWN_ROWS)
STRETTO_ANY(Start, STRETTO_STARTS)
STRETTO_ANY(DType, STRETTO_DTYPES)
#undef STRETTO_ANY
#undef STRETTO_VALUE

Segment random_operator(Random& random) {
  Segment op;
  op.kind = any_of<ProductKind>(random, {kAgGemm, kGemmRs, kGemmAr});
  op.ranks = between(random, 1, 9);
  op.dtype = any_value<DType>(random);
  op.m = one_in(random, 4) ? between(random, 1, op.ranks + 1) : between(random, 1, 150);
  op.n = between(random, 1, one_in(random, 3) ? 90 : 12);
  op.k = one_in(random, 4) ? between(random, 1, 5 * kSplitStep) : between(random, 1, 12);
  (op.makes_terms() ? op.k : op.n) *= op.ranks;
  if (one_in(random, 30)) ++(op.makes_terms() ? op.k : op.n);
  return op;
}

}  // namespace

Machine random_machine(Random& random, int ranks) {
  Machine machine = default_machine(ranks);
  machine.ranks_per_node = between(random, 1, ranks);
  machine.nodes = (ranks + machine.ranks_per_node - 1) / machine.ranks_per_node;
  if (one_in(random, 10)) machine.nodes += between(random, -1, 2);
  if (machine.nodes > 1 && machine.network_gb_per_s == 0) {
    machine.network_gb_per_s = 40;
    machine.network_latency_us = 5;
  }
  machine.sms = one_in(random, 3) ? 132 : between(random, 2, 12);
  machine.nccl_sms = between(random, 1, std::min(16, machine.sms - 1));
  return machine;
}

namespace {

int random_tile_side(Random& random) {
  return one_in(random, 40) ? between(random, 0, 20) : 8 * between(random, 1, 9);
}

size_t random_count(Random& random) { return static_cast<size_t>(between(random, 1, 4)); }

}  // namespace

void change_one(Random& random, const Machine& machine, Schedule& s) {
  switch (between(random, 0, 14)) {
    case 0:
      s.granularity = any_value<Granularity>(random);
      break;
    case 1:
      s.order = any_value<Order>(random);
      break;
    case 2:
      s.mover = any_value<Mover>(random);
      break;
    case 3:
      s.sync = any_value<Sync>(random);
      break;
    case 4:
      s.reduction = any_value<Reduction>(random);
      break;
    case 5:
      s.reuse = any_value<Reuse>(random);
      break;
    case 6:
      s.partials = one_in(random, 3) ? any_value<DType>(random) : DType::fp32;
      break;
    case 7:
      s.swizzle = between(random, one_in(random, 10) ? 0 : 1, 6);
      break;
    case 8:
      s.granularity = Granularity::chunk;
      s.chunks = between(random, one_in(random, 10) ? 0 : 1, 7);
      if (one_in(random, 2)) s.groups.assign(random_count(random), between(random, 1, 3));
      break;
    case 9:
      s.granularity = Granularity::waves;
      s.groups.assign(random_count(random), between(random, 1, 3));
      break;
    case 10:
      s.comm_sms = between(random, 0, machine.sms);
      break;
    case 11:
      s.own = any_value<OwnRows>(random);
      break;
    case 12:
      s.start = any_value<Start>(random);
      break;
    case 13:
      if (s.mover != Mover::nccl && !one_in(random, 10)) break;
      s.collectives = any_value<CollectivesBy>(random);
      break;
    default:
      s.comm_sms = std::min(machine.nccl_sms, machine.sms - 1);
  }
}

Point random_point(Random& random) {
  Point point;
  point.op = random_operator(random);
  point.machine = random_machine(random, point.op.ranks);
  const std::span<const Preset> all = presets();
  const Preset& preset =
      all[static_cast<size_t>(between(random, 0, static_cast<int>(all.size()) - 1))];
  point.schedule = preset.make(point.op, point.machine);
  point.schedule.tile_m = random_tile_side(random);
  point.schedule.tile_n = random_tile_side(random);
  point.schedule.swizzle = between(random, 1, 4);
  if (one_in(random, 4)) point.schedule.rows = RowCount::bucket;
  const int64_t steps = point.op.k / (point.op.makes_terms() ? point.op.ranks : 1) / kSplitStep + 1;
  if (steps > 1 || one_in(random, 40)) {
    point.schedule.split_k = between(random, one_in(random, 10) ? 0 : 1, static_cast<int>(steps));
  }
  if (point.op.makes_terms() ? one_in(random, 40) : steps > 1 && one_in(random, 2)) {
    point.schedule.k_phases = between(random, one_in(random, 20) ? 0 : 1, static_cast<int>(steps));
    if (one_in(random, 2)) point.schedule.split_k = 1;
  }
  if (one_in(random, 2)) point.schedule.reuse = any_value<Reuse>(random);
  if (one_in(random, point.op.makes_terms() ? 40 : 8)) {
    point.schedule.granularity = Granularity::tile;
    point.schedule.mover = Mover::comm_blocks;
    point.schedule.comm_sms = one_in(random, 10) ? 1 : 2 * between(random, 1, 2);
    point.schedule.split_k = 1;
    point.schedule.cluster = one_in(random, 20) ? between(random, 0, 4) : 2;
    if (!one_in(random, 4)) point.schedule.sync = Sync::flag;
  }
  for (int changes = between(random, 0, 6); changes > 0; --changes) {
    change_one(random, point.machine, point.schedule);
  }
  if (one_in(random, point.schedule.gemm == GemmBy::library ? 2 : 40)) {
    const int most = one_in(random, 10) ? kMostAlgorithms : kMostAlgorithms - 1;
    point.schedule.algorithm = between(random, 0, most);
  }
  return point;
}

std::string to_string(const Point& point) {
  return fmt::format("{}\n{}\n{} nodes of {} ranks with {} SMs, {} of them NCCL's",
                     to_string(point.op), to_string(point.schedule), point.machine.nodes,
                     point.machine.ranks_per_node, point.machine.sms, point.machine.nccl_sms);
}

}  // namespace stretto
