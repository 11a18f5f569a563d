// What the costs of single instructions take from the whole plan: which sums stay where they are
// from one range of K to the next, what tiles share, and what power leaves.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "plan/fused_faults.h"
#include "plan/placed.h"
#include "plan/region_numbers.h"
#include "sim/calibration.h"
#include "sim/costs.h"
#include "sim/input_traffic.h"

namespace stretto::sim {
namespace {

// What power leaves of the rate of a GEMM of this length.
double power_share(std::span<const PowerPoint> points, double us) {
  if (us <= points.front().us) return points.front().share;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const PowerPoint &from = points[i], &to = points[i + 1];
    if (us >= to.us) continue;
    const double along = std::log(us / from.us) / std::log(to.us / from.us);
    return from.share + along * (to.share - from.share);
  }
  return points.back().share;
}

}  // namespace

void Costs::feed_power() {
  const auto ranks = static_cast<size_t>(plan_.ranks());
  std::vector<double> tiles(ranks, 0), busy_us(ranks, 0);
  const auto for_each_gemm = [&](const auto& visit) {
    for (const Lane& lane : plan_.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (is_product(instr.op) && !is_empty(instr)) visit(lane.rank, instr);
      }
    }
  };
  for_each_gemm([&](uint16_t rank, const Instr& instr) { tiles[rank] += !instr.fused; });
  for (const double count : tiles) {
    const double waves = std::max(1.0, std::ceil(count / machine_.sms));
    busy_.push_back(count / (waves * machine_.sms));
  }
  std::vector<double> least_us(ranks, 0);  // as a library's kernels would take
  for_each_gemm([&](uint16_t rank, const Instr& instr) {
    busy_us[rank] += mma_us(instr);
    least_us[rank] += instr.kind()->cost.flops(plan_.reads(instr), plan_.writes(instr),
                                               rows_of_task(plan_, instr)) /
                      (machine_.gemm_tflops * 1e6);
  });
  for (size_t rank = 0; rank < ranks; ++rank) {
    const double us = busy_us[rank] / machine_.sms,
                 rests_us = collectives_us(static_cast<int>(rank));
    const double rested =
        rests_us > 0 ? std::min(1.0, rests_us / (rests_us + us) / kEnoughRest) : 0;
    power_.push_back((1 - rested) * power_share(kPower, us) +
                     rested * power_share(kRestedPower, us));
    const bool is_beside = rests_us == 0 && plan_.ranks() > 1;
    library_power_.push_back(is_beside ? power_share(kBesidePower, least_us[rank])
                                       : power_share(kLibraryPower, least_us[rank]));
  }
  slow_by_reads();
}

double Costs::collectives_us(int rank) const {
  double us = 0;
  for (const Lane& lane : plan_.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::nccl) continue;
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::collective) continue;
      const Plan::Joined joined = plan_.joined_by(instr, rank);
      us += collective_launch_us(instr, joined) + collective_us(instr, joined);
    }
  }
  return us;
}

// Weights whose products are terms of a sum, which others add up.
void Costs::find_terms() {
  makes_terms_.assign(plan_.buffers.size(), false);
  for (const OperatorSegment& segment : plan_.op.segments) {
    if (!segment.product || !segment.product->makes_terms()) continue;
    for (const int weight : segment.weights) {
      const auto buffer = plan_.find_buffer(plan_.op.tensor(weight).name);
      if (buffer) makes_terms_[*buffer] = true;
    }
  }
}

// Tiles that read much from memory, kernel by kernel: what one reads leaves the others their power.
void Costs::slow_by_reads() {
  if (plan_.library_gemms) return;
  const std::vector<std::vector<double>> read = bytes_from_memory(
      plan_, machine_.l2_bytes(), [&](const Instr& instr) { return part_of(instr).k; });
  std::vector<std::vector<double>> busy_us(read.size());
  const auto for_each_tile = [&](const auto& visit) {
    for (const Lane& lane : plan_.lanes) {
      size_t behind = 0;
      for (const Instr& instr : lane.instrs) {
        behind += instr.op == Opcode::boundary;
        if (instr.op != Opcode::gemm || makes_terms(instr) || plan_.library_at(behind)) continue;
        visit(lane.rank, behind, instr);
      }
    }
  };
  for (size_t rank = 0; rank < read.size(); ++rank) busy_us[rank].resize(read[rank].size(), 0);
  for_each_tile([&](uint16_t rank, size_t behind, const Instr& instr) {
    busy_us[rank][behind] += mma_us(instr);
  });
  for_each_tile([&](uint16_t rank, size_t behind, const Instr& instr) {
    const double us = busy_us[rank][behind] / machine_.sms / power_[rank];
    // A short run is over before power is short.
    const double hot = (1 - power_[rank]) / (1 - kPower[std::size(kPower) - 1].share);
    const double of_memory = read[rank][behind] / us / (machine_.hbm_gb_per_s * 1e3);
    const double more =
        hot * kPowerOfReads * std::clamp(of_memory - kReadsForFree, 0.0, kMostReads);
    if (more > 0) slowed_by_reads_[instr] = 1 + more;
  });
}

// What tiles have in registers, as the plan's words say.
void Costs::find_parts() {
  holds_ranges_.assign(plan_.buffers.size(), false);
  for (const auto& [l, tile] : LaneTiles(plan_).tiles) {
    const std::vector<Instr>& instrs = plan_.lanes[l].instrs;
    const auto b_of = [&](uint32_t at) { return plan_.reads(instrs[at]).back(); };
    // Of the whole tile: what its first product has of K and, with the second one, of columns.
    Part part{0, b_of(tile.gemm).rows() * (tile.followed.has_two() ? 2 : 1)};
    for (uint32_t at = tile.sum.of_ranges != 0 ? tile.begin : tile.gemm; at <= tile.gemm; ++at) {
      if (is_product(instrs[at].op)) part.k += b_of(at).cols();
    }
    if (const uint32_t sum = tile.sum.of_ranges; sum != 0) {
      const auto reads = plan_.reads(instrs[sum]);
      holds_ranges_[reads[0].buffer] = true;
      part.in_registers = static_cast<uint32_t>(reads.size()) - tile.sum.others;
      parts_[instrs[sum]] = part;
      for (uint32_t at = tile.begin; at <= tile.gemm; ++at) {
        if (instrs[at].op == Opcode::gemm) parts_[instrs[at]] = part;
      }
    }
    for (uint32_t at = tile.followed.made; at < tile.followed.last; ++at) {
      const Instr& next = instrs[at + 1];
      if (next.is_task() && next.op != Opcode::gemm) follows_[next] = 1;
    }
    if (tile.followed.has_two()) {
      for (const uint32_t at : {tile.followed.product, tile.followed.other}) {
        parts_[instrs[at]] = part;
      }
    }
  }
}

Costs::Part Costs::part_of(const Instr& gemm) const {
  if (const Part* const found = parts_.find(gemm)) return *found;
  const Region& b = plan_.reads(gemm).back();
  return {b.cols(), b.rows()};
}

void Costs::add_inputs_of_entry(const Instr& instr, std::vector<Region>& regions) const {
  const std::span<const Region> reads = plan_.reads(instr);
  const Region &write = plan_.writes(instr)[0], &stack = reads.back();
  Region rows = reads.size() == 3 ? reads[0] : reads[2];  // in place, or gathered
  rows.row0 = write.row0;
  rows.row1 = write.row1;
  regions.push_back(rows);
  const int64_t each = instr.count(0), experts = (stack.rows() - write.cols()) / each + 1;
  const double chosen = chosen_.share_of(stack.rank, stack.buffer) * static_cast<double>(experts);
  Region columns = stack;
  columns.row1 = static_cast<int32_t>(stack.row0 + std::lround(chosen * write.cols()));
  regions.push_back(columns);
}

// Tiles that share rows of A or B read them from memory once: the L2 cache serves the others.
void Costs::share_inputs() {
  std::vector<RegionNumbers> inputs(static_cast<size_t>(plan_.ranks()));
  std::vector<int64_t> tiles(inputs.size(), 0);
  std::vector<int64_t> entries(inputs.size(), 0);  // of a partition, among these
  std::vector<Region> of_entry;
  for (const Lane& lane : plan_.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (!is_product(instr.op) || is_empty(instr)) continue;
      if (instr.op != Opcode::gemm) {
        of_entry.clear();
        add_inputs_of_entry(instr, of_entry);
        for (const Region& region : of_entry) inputs[lane.rank].of(region);
        ++tiles[lane.rank];
        ++entries[lane.rank];
        continue;
      }
      const int32_t k = part_of(instr).k;
      const bool goes_on = instr.fused && plan_.reads(instr).back().cols() != k;
      for (Region read : plan_.reads(instr)) {
        if (goes_on) continue;
        read.col1 = read.col0 + k;  // of all that goes on with it too
        inputs[lane.rank].of(read);
      }
      tiles[lane.rank] += !instr.fused;
    }
  }
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    double bytes = 0;  // whole numbers, in any order
    for (uint32_t i = 0; i < inputs[rank].count(); ++i) bytes += region_bytes(inputs[rank][i]);
    const int64_t count = std::max<int64_t>(tiles[rank], 1);
    const auto at_once = static_cast<int>(std::min<int64_t>(count, machine_.sms));
    blocks_at_once_.push_back(at_once);
    const double of_entries = 2 * entries[rank] > tiles[rank] ? kStreamOfEntries : 1;
    const double rate = of_entries * kStreamOfAll * machine_.hbm_gb_per_s / at_once;
    inputs_us_.push_back(move_us(bytes / static_cast<double>(count), rate));
  }
}

}  // namespace stretto::sim
