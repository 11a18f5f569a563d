// What the costs of single instructions take from the whole plan: whether it is one kernel, which
// sums stay where they are from one range of K to the next, what tiles share, and what power
// leaves.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "sim/calibration.h"
#include "sim/costs.h"

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

// Communication lanes that only copy are blocks of the GEMM kernel.
bool Costs::is_one_kernel() const {
  if (mover_kernels_.any()) return false;
  std::vector<bool> computes(static_cast<size_t>(plan_.ranks()), false);
  const auto ends_kernel = [](const Lane& lane, const Instr& instr) {
    const TaskKind* const kind = instr.kind();
    const bool adds =
        lane.kind == LaneKind::comm && kind != nullptr && kind->worker == Worker::mover_kernel;
    return adds || instr.op == Opcode::boundary || instr.op == Opcode::collective;
  };
  for (const Lane& lane : plan_.lanes) {
    if (lane.instrs.empty()) continue;
    computes[lane.rank] = computes[lane.rank] || lane.kind == LaneKind::compute;
    if (lane.kind != LaneKind::compute && lane.kind != LaneKind::comm) return false;
    for (const Instr& instr : lane.instrs) {
      if (ends_kernel(lane, instr)) return false;
    }
  }
  return std::all_of(plan_.lanes.begin(), plan_.lanes.end(),
                     [&](const Lane& lane) { return lane.instrs.empty() || computes[lane.rank]; });
}

void Costs::feed_power() {
  const auto ranks = static_cast<size_t>(plan_.ranks());
  std::vector<double> tiles(ranks, 0), busy_us(ranks, 0);
  const auto for_each_gemm = [&](const auto& visit) {
    for (const Lane& lane : plan_.lanes) {
      for (const Instr& instr : lane.instrs) {
        if (instr.op == Opcode::gemm) visit(lane.rank, instr);
      }
    }
  };
  for_each_gemm([&](uint16_t rank, const Instr& instr) { tiles[rank] += !continues(instr); });
  for (const double count : tiles) {
    const double waves = std::max(1.0, std::ceil(count / machine_.sms));
    busy_.push_back(count / (waves * machine_.sms));
  }
  for_each_gemm([&](uint16_t rank, const Instr& instr) { busy_us[rank] += mma_us(instr); });
  const bool rests = std::any_of(plan_.lanes.begin(), plan_.lanes.end(), [](const Lane& lane) {
    return lane.kind == LaneKind::nccl && !lane.instrs.empty();
  });
  const std::span<const PowerPoint> points =
      rests ? std::span<const PowerPoint>(kRestedPower) : std::span<const PowerPoint>(kPower);
  for (const double us : busy_us) power_.push_back(power_share(points, us / machine_.sms));
}

bool Costs::adds_ranges(const Instr& instr) const {
  if (instr.op != Opcode::reduce || instr.num_reads < 2) return false;
  const std::span<const Region> reads = plan_.reads(instr);
  const Buffer& buffer = plan_.buffers[reads[0].buffer];
  return buffer.role == BufferRole::local && buffer.dtype == DType::fp32 &&
         std::all_of(reads.begin(), reads.end(),
                     [&](const Region& read) { return read.buffer == reads[0].buffer; });
}

void Costs::find_ranges() {
  holds_ranges_.assign(plan_.buffers.size(), false);
  for (const Lane& lane : plan_.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    for (size_t at = 0; at < lane.instrs.size(); ++at) {
      if (!adds_ranges(lane.instrs[at])) continue;
      holds_ranges_[plan_.reads(lane.instrs[at])[0].buffer] = true;
      keep_sums(lane, at);
    }
  }
}

// Of the gemms right before the reduce, the last that it adds, and those whose K leads up to it.
void Costs::keep_sums(const Lane& lane, size_t reduce) {
  const std::span<const Region> added = plan_.reads(lane.instrs[reduce]);
  std::vector<const Instr*> gemms;
  for (size_t at = reduce; at > 0; --at) {
    const Instr& instr = lane.instrs[at - 1];
    if (instr.op == Opcode::wait) continue;
    if (instr.op != Opcode::gemm ||
        std::find(added.begin(), added.end(), plan_.writes(instr)[0]) == added.end()) {
      break;
    }
    const int32_t k_end = plan_.reads(instr).back().col1;
    if (!gemms.empty() && k_end != plan_.reads(*gemms.back()).back().col0) break;
    gemms.push_back(&instr);
  }
  if (gemms.empty()) return;
  const Kept kept{plan_.reads(*gemms.back()).back().col0, plan_.reads(*gemms.front()).back().col1};
  for (const Instr* gemm : gemms) kept_[place_of(plan_.writes(*gemm)[0])] = kept;
}

const Costs::Kept* Costs::find_kept(const Region& sums) const {
  if (!holds_ranges_[sums.buffer]) return nullptr;
  const auto found = kept_.find(place_of(sums));
  return found == kept_.end() ? nullptr : &found->second;
}

const Costs::Kept* Costs::kept_of(const Instr& gemm) const {
  return find_kept(plan_.writes(gemm)[0]);
}

bool Costs::continues(const Instr& gemm) const {
  const Kept* kept = kept_of(gemm);
  return kept != nullptr && plan_.reads(gemm).back().col0 != kept->k_begin;
}

// Tiles that share rows of A or B read them from memory once: the L2 cache serves the others.
void Costs::share_inputs() {
  const auto before = [](const Region& a, const Region& b) {
    return std::tie(a.buffer, a.row0, a.row1, a.col0, a.col1) <
           std::tie(b.buffer, b.row0, b.row1, b.col0, b.col1);
  };
  std::vector<std::vector<Region>> inputs(static_cast<size_t>(plan_.ranks()));
  std::vector<int64_t> tiles(inputs.size(), 0);
  for (const Lane& lane : plan_.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.op != Opcode::gemm || continues(instr)) continue;
      const Kept* kept = kept_of(instr);
      for (Region read : plan_.reads(instr)) {
        if (kept != nullptr) read.col1 = kept->k_end;  // of all that goes on with it too
        inputs[lane.rank].push_back(read);
      }
      ++tiles[lane.rank];
    }
  }
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    std::vector<Region>& regions = inputs[rank];
    std::sort(regions.begin(), regions.end(), before);
    regions.erase(std::unique(regions.begin(), regions.end()), regions.end());
    double bytes = 0;
    for (const Region& region : regions) bytes += region_bytes(region);
    const int64_t count = std::max<int64_t>(tiles[rank], 1);
    const auto at_once = static_cast<int>(std::min<int64_t>(count, machine_.sms));
    blocks_at_once_.push_back(at_once);
    const double rate = kStreamOfAll * machine_.hbm_gb_per_s / at_once;
    inputs_us_.push_back(move_us(bytes / static_cast<double>(count), rate));
  }
}

}  // namespace stretto::sim
