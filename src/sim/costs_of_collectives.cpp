// What collectives cost: NCCL's, and those of the device language.
#include <algorithm>
#include <cmath>

#include "op/few_rows_tiles.h"
#include "plan/chosen_operands.h"
#include "sim/calibration.h"
#include "sim/costs.h"

namespace stretto::sim {
namespace {

// Shares of nccl_launch_us, the ranks that were measured as a straight line between.
NcclStart nccl_start(int ranks) {
  NcclStart before = kNcclStart[0];
  for (const NcclStart& start : kNcclStart) {
    if (ranks <= start.ranks) {
      const int span = std::max(1, start.ranks - before.ranks);
      const double along = static_cast<double>(std::max(ranks, before.ranks) - before.ranks) / span;
      return {ranks, std::lerp(before.few_bytes, start.few_bytes, along),
              std::lerp(before.many_bytes, start.many_bytes, along)};
    }
    before = start;
  }
  return before;
}

}  // namespace

double Costs::collective_launch_us(const Instr& instr, const Plan::Joined& joined) const {
  if (left_behind(instr)) return machine_.signal_us + kReceiveUs;
  if (instr.kernel() > 0) {
    const bool is_said = plan_.op.kernels[instr.kernel() - 1].us > 0;
    return is_said ? 0 : machine_.chained_launch_us + machine_.signal_us;
  }
  if (!plan_.low_latency_collectives) {
    return nccl_start(joined.count).few_bytes * machine_.nccl_launch_us;
  }
  const bool is_early = form_of(instr.collective).adds && by_library_[plan_.reads(instr)[0].buffer];
  // The data is its own signal.
  return machine_.chained_launch_us + machine_.signal_us - (is_early ? kSumsEarlyUs : 0);
}

double Costs::best_link_rate(double bytes) const {
  double best = std::max(link_rate_, machine_.nccl_by_bytes.at(bytes));
  for (const RateCurve::Point& point : machine_.nccl_by_bytes.points) {
    if (point.x <= bytes) best = std::max(best, point.gb_per_s);
  }
  return best;
}

// Rows on the link, and in memory those that experts have or get, a token's row for each choice
// here where they lie by choice, and slots, which are written, read and poisoned: of sums those of
// own tokens from each other rank. Weights of own tokens are a hop ahead of the sums that they are
// for.
double Costs::chosen_us(const Instr& instr) const {
  const ChosenOperands of = chosen_operands(plan_, instr);
  const int ranks = plan_.ranks();
  const auto reads = plan_.reads(instr);
  const bool sums = form_of(instr.collective).adds;
  const double row =
      static_cast<double>(of.cols) *
      static_cast<double>(num_bytes(plan_.buffers[reads[sums ? 2 : 0].buffer].dtype));
  const double goes = share_that_goes(of, ranks) * static_cast<double>(of.tokens);
  const double rows = of.by_choice || reads.size() == 4
                          ? share_of_choices(of, ranks) * static_cast<double>(of.tokens * of.top_k)
                          : goes;
  const double link_us =
      move_us(goes / ranks * (ranks - 1) * row, kOfLinkByIds * machine_.link_gb_per_s);
  // Rows and sums have slots, and rows cross first.
  if (of.round_trip) {
    const double memory_us =
        move_us((3.0 * of.tokens / ranks + 8 * goes) * row, machine_.hbm_gb_per_s);
    return std::max(2 * link_us, memory_us) + machine_.signal_us;
  }
  const double own = static_cast<double>(of.tokens) / ranks;
  const double slots = sums ? 3 * goes / ranks * (ranks - 1) + own : 4 * goes;
  const double memory_us =
      move_us((rows + slots) * row, (sums ? kOfMemoryByIds : 1) * machine_.hbm_gb_per_s);
  const bool awaits = sums && reads[0].rows() < of.tokens;
  return std::max(link_us, memory_us) + (awaits ? machine_.signal_us : 0);
}

double Costs::collective_us(const Instr& instr, const Plan::Joined& joined) const {
  if (form_of(instr.collective).goes_by_ids()) return chosen_us(instr);
  if (instr.kernel() > 0 && plan_.op.kernels[instr.kernel() - 1].us > 0) {
    return plan_.op.kernels[instr.kernel() - 1].us;
  }
  double read = 0, written = 0;
  for (const Region& region : plan_.reads(instr)) read += region_bytes(region);
  for (const Region& region : plan_.writes(instr)) written += region_bytes(region);
  const double share = static_cast<double>(joined.count - 1) / joined.count;
  double bytes = 0;  // out of one GPU
  switch (instr.collective) {
    case CollectiveKind::all_gather:
      bytes = share * written;
      break;
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::all_to_all:
      bytes = share * read;
      break;
    case CollectiveKind::all_reduce:
      bytes = 2 * share * read;
      break;
    case CollectiveKind::all_reduce_norm:
      read = region_bytes(plan_.reads(instr)[0]);
      bytes = 2 * share * read;
      break;
    case CollectiveKind::dispatch:
    case CollectiveKind::combine:
    case CollectiveKind::dispatch_all:
    case CollectiveKind::combine_all:
      break;
  }
  if (bytes <= 0) return 0;
  // All in one hop; who receives reads and poisons the slots of all ranks, and writes sums. Of few
  // rows it does so while the product still waits for weights.
  if (const std::optional<double> behind = left_behind(instr)) {
    const bool to_owners = form_of(instr.collective).groups_reads;
    const double out = to_owners ? bytes : read * (joined.count - 1);
    const double part = to_owners ? read / joined.count : read;
    const bool streams = plan_.buffers[plan_.reads(instr)[0].buffer].rows <= kRowsThatStream;
    const double received_us =
        (streams ? *behind : 1) * move_us((2.0 * joined.count + 1) * part, machine_.hbm_gb_per_s);
    const double us = std::max(move_us(out * *behind, machine_.link_gb_per_s), received_us);
    return std::max(0.0, us - kFewRowsSendUs);
  }
  if (plan_.low_latency_collectives) {
    const double two_hops = move_us(bytes, machine_.link_gb_per_s) + machine_.signal_us;
    if (!form_of(instr.collective).adds || form_of(instr.collective).groups_reads) {
      return two_hops - machine_.signal_us;
    }
    return std::min(two_hops, move_us(read * (joined.count - 1), machine_.link_gb_per_s));
  }
  // Nobody knows how it moves them: as few bytes as can be, in two hops where they are added for
  // all.
  if (instr.kernel() > 0) {
    const bool two_hops = instr.collective == CollectiveKind::all_reduce;
    return move_us(bytes, machine_.link_gb_per_s) + (two_hops ? machine_.signal_us : 0);
  }
  double rate = machine_.nccl_by_bytes.at(bytes);
  const bool goes_once = instr.collective == CollectiveKind::all_gather ||
                         instr.collective == CollectiveKind::reduce_scatter;
  if (joined.count == 2 && goes_once) rate *= kNcclOfPair;
  const NcclStart start = nccl_start(joined.count);
  const double protocol_us = (start.many_bytes - start.few_bytes) * machine_.nccl_launch_us *
                             std::clamp(std::log2(bytes / kNcclFewBytes), 0.0, 1.0);
  const int nodes =
      machine_.node_of(joined.first + joined.count - 1) - machine_.node_of(joined.first) + 1;
  if (nodes == 1) return protocol_us + move_us(bytes, rate);
  // Rings cross from node to node on every GPU's network port at once, and one hop more a node.
  rate = std::min(rate, machine_.network_gb_per_s * machine_.ranks_per_node);
  return protocol_us + move_us(bytes, rate) + machine_.network_latency_us * (nodes - 1);
}

}  // namespace stretto::sim
