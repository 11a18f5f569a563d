#include "stretto/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "plan/tile_task.h"
#include "sim/costs.h"
#include "sim/engine.h"
#include "stretto/error.h"

namespace stretto {
namespace {

struct BlockLanes {
  int compute = 0, comm = 0;
};

std::vector<BlockLanes> count_blocks(const Plan& plan) {
  std::vector<BlockLanes> blocks(static_cast<size_t>(plan.ranks()));
  for (const Lane& lane : plan.lanes) {
    blocks[lane.rank].compute += lane.kind == LaneKind::compute;
    blocks[lane.rank].comm += lane.kind == LaneKind::comm;
  }
  return blocks;
}

void require_room(const Plan& plan, const Machine& machine) {
  if (plan.ranks() > machine.ranks()) {
    throw UsageError(fmt::format(
        "the plan is for {} ranks but machine {} has {}: choose a machine with {} or more",
        plan.ranks(), machine.name, machine.ranks(), plan.ranks()));
  }
  const std::vector<BlockLanes> blocks = count_blocks(plan);
  for (size_t rank = 0; rank < blocks.size(); ++rank) {
    const int needed = blocks[rank].compute + blocks[rank].comm;
    if (needed <= machine.sms) continue;
    throw UsageError(fmt::format(
        "rank {} of the plan has {} compute and {} communication blocks but a GPU of machine {} "
        "has {} SMs: plan for that machine, or choose one with {} or more SMs",
        rank, blocks[rank].compute, blocks[rank].comm, machine.name, machine.sms, needed));
  }
  sim::count_counters(plan);  // before anything has one each
}

// Time of one rank's gemms when nothing else runs: dealt to all SMs as those come free.
double gemm_alone_us(const std::vector<double>& tiles, int sms) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  double end = 0;
  for (double tile_us : tiles) {
    double start = 0;
    if (free_at.size() == static_cast<size_t>(sms)) {
      start = free_at.top();
      free_at.pop();
    }
    free_at.push(start + tile_us);
    end = std::max(end, start + tile_us);
  }
  return end;
}

// Of the gemms of one rank's lanes. Tiles are dealt in the order of their lanes' programs, round by
// round; what a library multiplies is one kernel between two boundaries, behind the one before.
class RankGemms {
 public:
  explicit RankGemms(const sim::Costs& costs) : costs_(costs) {}

  void add_lane(const Plan& plan, const Lane& lane) {
    size_t round = 0, kernel = 0;
    double of_tiles = 0;
    std::vector<double> of_kernels;
    for (const Instr& instr : lane.instrs) {
      kernel += instr.op == Opcode::boundary;
      if (!is_product(instr.op)) continue;
      const double us = costs_.gemm_us(instr);
      if (plan.library_at(kernel)) {
        of_kernels.resize(kernel + 1, 0);
        of_kernels[kernel] += us;
        continue;
      }
      of_tiles += us;
      if (instr.fused) {
        rounds_[round - 1].back() += us;
        continue;
      }
      if (rounds_.size() <= round) rounds_.emplace_back();
      rounds_[round++].push_back(us);
    }
    longest_lane_ = std::max(longest_lane_, of_tiles);
    if (library_.size() < of_kernels.size()) library_.resize(of_kernels.size(), 0);
    for (size_t at = 0; at < of_kernels.size(); ++at) {
      library_[at] = std::max(library_[at], of_kernels[at]);
    }
  }

  double alone_us() const {
    std::vector<double> tiles;
    for (const auto& round : rounds_) tiles.insert(tiles.end(), round.begin(), round.end());
    // The plan's own dealing is one that all SMs can follow, so alone is never slower.
    const double dealt = std::min(gemm_alone_us(tiles, costs_.machine().sms), longest_lane_);
    return std::accumulate(library_.begin(), library_.end(), dealt);
  }

 private:
  const sim::Costs& costs_;
  std::vector<std::vector<double>> rounds_;
  std::vector<double> library_;  // by boundaries before it: the longest lane of a library's kernel
  double longest_lane_ = 0;      // of tiles
};

// The slowest rank's.
double gemm_alone_us(const Plan& plan, const sim::Costs& costs) {
  double slowest = 0;
  for (size_t first = 0; first < plan.lanes.size();) {
    RankGemms gemms(costs);
    size_t lane = first;
    for (; lane < plan.lanes.size() && plan.lanes[lane].rank == plan.lanes[first].rank; ++lane) {
      gemms.add_lane(plan, plan.lanes[lane]);
    }
    slowest = std::max(slowest, gemms.alone_us());
    first = lane;
  }
  const double launch_us =
      costs.is_library_next(0) ? 0 : costs.machine().chained_launch_us;  // as launch_us()
  return slowest > 0 ? slowest + launch_us : 0;
}

// The slowest rank's look-ups and the like, as fast as its memory is.
double moves_alone_us(const Plan& plan, const sim::Costs& costs) {
  std::vector<double> bytes(static_cast<size_t>(plan.ranks()), 0.0);
  sim::Traffic traffic;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kind() == nullptr || !instr.kind()->cost.counts_as_product) continue;
      costs.traffic_of(instr, lane.rank, traffic);
      bytes[lane.rank] += traffic.local_bytes + traffic.flow_bytes();
    }
  }
  const double most = *std::max_element(bytes.begin(), bytes.end());
  if (most == 0) return 0;
  return sim::move_us(most, costs.machine().hbm_gb_per_s) + costs.machine().chained_launch_us;
}

// What no schedule can beat on the links: the least bytes at the best rate that movers reach.
double least_link_us(const Operator& op, const sim::Costs& costs) {
  if (op.ranks == 1) return 0;
  const Machine& machine = costs.machine();
  const double bytes = link_bytes(op);
  const double link = costs.best_link_rate(bytes);
  const int nodes = machine.node_of(op.ranks - 1) + 1;
  if (nodes == 1) return sim::move_us(bytes, link);
  // Which of a team's bytes leave its node hangs on where its ranks are.
  if (op.has_teams()) return sim::move_us(bytes, link + machine.network_gb_per_s);
  // Each node takes in each other node's share at least once (or one sum of its own), spread over
  // its GPUs' networks; and all bytes of a GPU pass its two ports.
  const double between = bytes / (op.ranks - 1) * (nodes - 1);
  return std::max(sim::move_us(between, machine.network_gb_per_s),
                  sim::move_us(bytes, link + machine.network_gb_per_s));
}

}  // namespace

Simulation simulate(const Plan& plan, const Machine& machine) {
  validate(plan);
  return simulate_lowered(plan, machine);
}

Simulation simulate_lowered(const Plan& plan, const Machine& machine) {
  require_room(plan, machine);
  const sim::Costs costs(plan, machine);
  sim::Engine engine(plan, costs, {});
  engine.run();
  sim::Engine communication(plan, costs, {.gemm_takes_time = false, .record = false});
  communication.run();

  Simulation result;
  result.total_us = engine.total_us();
  result.compute_us = gemm_alone_us(plan, costs) + moves_alone_us(plan, costs);
  result.communication_us = communication.total_us();
  result.exposed_us = std::max(0.0, result.total_us - result.compute_us);
  result.floor_us = std::max(result.compute_us, least_link_us(plan.op, costs));
  result.efficiency = result.total_us > 0 ? result.floor_us / result.total_us : 1;
  int compute_lanes = 0;
  for (const BlockLanes& blocks : count_blocks(plan)) compute_lanes += blocks.compute;
  if (compute_lanes > 0 && result.total_us > 0) {
    result.compute_occupancy = engine.gemm_busy_us() / (result.total_us * compute_lanes);
  }
  result.lanes = engine.lane_uses();
  result.links = engine.links();
  result.critical_path = engine.history().path_to(plan, engine.last_node());
  result.spans = engine.take_spans();
  return result;
}

double simulated_us(const Plan& plan, const Machine& machine) {
  require_room(plan, machine);
  const sim::Costs costs(plan, machine);
  sim::Engine engine(plan, costs, {.record = false});
  engine.run();
  return engine.total_us();
}

}  // namespace stretto
