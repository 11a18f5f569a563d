#include "sim/costs.h"

#include <algorithm>
#include <cmath>

#include "core/ceil_div.h"
#include "plan/placed.h"
#include "plan/tile_task.h"
#include "sim/calibration.h"
#include "sim/tile_cycles.h"

namespace stretto::sim {
namespace {

// The MMA of Hopper's warp group is 64 rows high and takes columns by eights; a pipeline stage of
// the GEMM kernel holds 128 bytes of K. A kernel that stores tiles in parts stores whole 128 bytes
// of their rows, so all its tiles are multiples of 64 columns wide.
constexpr int64_t kMmaRows = 64, kMmaCols = 8, kPartCols = 64, kStageBytes = 128;

double best_rate(const RateCurve& curve) {
  double best = 0;
  for (const RateCurve::Point& point : curve.points) best = std::max(best, point.gb_per_s);
  return best;
}

// Rates were measured of a pair and of all GPUs of a node. For numbers between, the logarithm of
// the rate goes with that of the number of peers.
class Between {
 public:
  Between(int ranks, const Machine& machine) {
    const int most = std::max(2, machine.ranks_per_node - 1),
              peers = std::clamp(ranks - 1, 1, most);
    share_ = std::log(peers) / std::log(most);
  }
  double operator()(double of_pair, double of_all) const {
    return of_pair * std::pow(of_all / of_pair, share_);
  }

 private:
  double share_ = 0;  // 0: a pair, 1: all
};

std::vector<double> rate_of_one(const RateCurve& of_pair, const RateCurve& of_all,
                                const Between& between, int most_blocks) {
  std::vector<double> rates(static_cast<size_t>(most_blocks) + 1);
  for (int n = 1; n <= most_blocks; ++n) {
    rates[static_cast<size_t>(n)] = between(of_pair.at(n), of_all.at(n)) / n;
  }
  return rates;
}

// How many times longer its MMAs take than by themselves when `busy` of all SMs run tiles of this
// shape: they wait for the L2 cache, or for shared memory.
double tile_slowdown(int64_t rows, int64_t cols, double busy) {
  const auto m = static_cast<double>(rows), n = static_cast<double>(cols);
  return std::max({1.0, busy * kFeedOfFullTile * (m + n) / (m * n) / kInputsOfFullTile,
                   kSharedMoves * shared_memory_cycles(m, n) / mma_cycles(m, n)});
}

// How long a tile takes by two limits, neither of which it reaches all the time where they are
// alike.
double by_both(double a_us, double b_us) {
  const double longer = std::max(a_us, b_us), shorter = std::min(a_us, b_us);
  return longer + kBothLimits * std::max(0.0, 2 * shorter - longer);
}

}  // namespace

double Traffic::flow_bytes() const {
  double bytes = 0;
  for (const Flow& flow : flows) bytes += flow.bytes;
  return bytes;
}

Costs::Costs(const Plan& plan, const Machine& machine)
    : plan_(plan),
      machine_(machine),
      kernels_(plan),
      chosen_(plan),
      link_rate_(machine.link_gb_per_s),
      slowed_by_reads_(plan),
      library_us_(plan),
      follows_(plan),
      parts_(plan) {
  const Between between(plan.ranks(), machine);
  push_one_ = rate_of_one(machine.push_by_blocks, machine.push_all_by_blocks, between, machine.sms);
  push_many_ =
      rate_of_one(machine.push_by_blocks, machine.push_multi_by_blocks, between, machine.sms);
  all_copies_rate_ =
      between(best_rate(machine.copy_engine_by_bytes), machine.copy_engine_all_gb_per_s);
  if (plan.ranks() == 2) {
    link_rate_ = std::max({link_rate_, all_copies_rate_, best_rate(machine.push_by_blocks)});
  }
  // What a stream pays to await a copy engine is about a launch.
  starts_itself_ = plan.any_library() && !kernels_.has_stream(LaneKind::copy);
  forks_ = plan.library_gemms && kernels_.has_stream(LaneKind::comm);
  find_sent();
  find_next_kernels();
  find_mma_cols();
  find_parts();
  find_terms();
  share_inputs();
  feed_power();
  find_products();
}

bool Costs::stores_parts(const Instr& task) const {
  return task.num_writes > 1 && plan_.writes(task)[0].rows() < rows_of_task(plan_, task);
}

void Costs::find_mma_cols() {
  const bool any_parts = std::any_of(plan_.lanes.begin(), plan_.lanes.end(), [&](const Lane& lane) {
    size_t boundaries = 0;
    return std::any_of(lane.instrs.begin(), lane.instrs.end(), [&](const Instr& instr) {
      boundaries += instr.op == Opcode::boundary;
      return instr.op == Opcode::gemm && !plan_.library_at(boundaries) && stores_parts(instr);
    });
  });
  mma_cols_ = any_parts ? kPartCols : kMmaCols;
}

double Costs::mma_us(const Instr& instr) const {
  const std::span<const Region> reads = plan_.reads(instr);
  const Region& b = reads.back();
  const int64_t rows = rows_of_task(plan_, instr);
  const int64_t cols = instr.kind()->cols(reads, plan_.writes(instr));
  const DType dtype = plan_.buffers[b.buffer].dtype;
  // Two products side by side are as wide a tile.
  const bool is_whole = is_routed_product(instr.op);
  const int64_t wide =
      round_up(is_whole ? cols : std::max<int64_t>(cols, part_of(instr).columns), mma_cols_);
  const double macs = static_cast<double>(round_up(rows, kMmaRows)) *
                      static_cast<double>(round_up(cols, mma_cols_)) *
                      static_cast<double>(round_up(b.cols(), kStageBytes / num_bytes(dtype)));
  const double tflops = dtype == DType::fp32 ? machine_.fp32_tflops : machine_.gemm_tflops;
  const double mma_us = 2 * macs * machine_.sms / (tflops * 1e6);
  if (dtype == DType::fp32) return mma_us;
  return mma_us * tile_slowdown(round_up(rows, kMmaRows), wide, busy_[b.rank]);
}

double Costs::start_us(const Instr& instr) const {
  const TaskKind* const kind = instr.kind();
  if (kind == nullptr || kind->cost.start_us == nullptr) return 0;
  const int* const blocks = kernels_.partition_blocks(instr);
  return kind->cost.start_us(plan_.operands_of(instr), blocks != nullptr ? *blocks : 0);
}

// Which entries of a partition have rows is a run's: in the simulation, those that experts fill
// which are all as likely.
bool Costs::is_empty(const Instr& instr) const {
  if (plan_.partitions.empty() || instr.num_writes == 0) return false;
  const Region& write = plan_.writes(instr)[0];
  const Partition* const of = plan_.partition_of(write);
  return of != nullptr && of->expected > 0 && !of->is_expected(write.row0);
}

// What follows a product of routed rows takes its tile from the registers, and leaves it there to
// be stored.
bool Costs::follows_entry(const Instr& instr) const {
  return instr.num_writes > 0 && instr.kind() != nullptr && instr.kind()->follows_in_registers() &&
         plan_.partition_of(plan_.writes(instr)[0]) != nullptr;
}

TaskShares Costs::shares_of(const Instr& instr) const {
  const TaskKind* const kind = instr.kind();
  if (kind == nullptr || kind->cost.shares == nullptr) return {};
  return kind->cost.shares(plan_.operands_of(instr));
}

double Costs::gemm_us(const Instr& instr) const {
  if (const double* const us = library_us_.find(instr)) return *us;
  if (is_empty(instr)) return kEmptyEntryUs;
  const int rank = plan_.reads(instr).back().rank;
  const auto r = static_cast<size_t>(rank);
  const Region& to = plan_.writes(instr)[0];
  double other_us = instr.fused ? 0 : machine_.tile_overhead_us;
  const Region& b = plan_.reads(instr).back();
  const Part part = part_of(instr);
  // It moves this share of the inputs of its lane's tile.
  const double share =
      static_cast<double>(b.cols()) / part.k * static_cast<double>(b.rows()) / part.columns;
  if (leaves_sums(instr)) {
    other_us += move_us(region_bytes(to), memory_rate(blocks_at_once_[r]));
  }
  const double picked = instr.kind()->cost.times;
  const double* const reads = slowed_by_reads_.find(instr);
  const double slowed = picked * (reads != nullptr ? *reads : 1);
  const double bound_us = by_both(slowed * mma_us(instr) / power_[r], share * inputs_us_[r]);
  return std::max(bound_us, stages_us(instr)) + other_us;
}

double Costs::follow_us(const Instr& instr) const {
  const double ps = instr.kind()->cost.in_registers_ps;
  return static_cast<double>(plan_.reads(instr)[0].elements()) * ps * 1e-6;
}

double Costs::slowdown_when_late(const Instr& instr, double late_us) const {
  if (late_us <= 0 || instr.op != Opcode::gemm || makes_terms(instr)) return 1;
  if (library_us_.find(instr) != nullptr) return 1;
  const Region& tile = plan_.reads(instr).back();
  const Buffer& b = plan_.buffers[tile.buffer];
  const double of_k = part_of(instr).k;  // by the lane
  const double tiles = blocks_at_once_[static_cast<size_t>(tile.rank)];
  const double read = std::min<double>(b.rows, tiles * tile.rows()) * of_k *
                      static_cast<double>(num_bytes(b.dtype));  // by a wave
  const double whole_us = mma_us(instr) * of_k / std::max(1, tile.cols());
  const double behind = late_us / whole_us * read / (machine_.l2_bytes() / 2);
  return 1 + kReadAnew * std::clamp(2 * behind - 1, 0.0, 1.0);
}

double Costs::stages_us(const Instr& instr) const {
  const Region& b = plan_.reads(instr).back();
  const DType dtype = plan_.buffers[b.buffer].dtype;
  if (dtype == DType::fp32) return 0;
  const int64_t bytes = b.cols() * num_bytes(dtype);
  return kStageUs * static_cast<double>(round_up(bytes, kStageBytes) / kStageBytes);
}

double Costs::region_bytes(const Region& region) const {
  return static_cast<double>(region.elements()) *
         static_cast<double>(num_bytes(plan_.buffers[region.buffer].dtype));
}

void Costs::traffic_of(const Instr& instr, int rank, Traffic& traffic) const {
  traffic.flows.clear();
  traffic.local_bytes = 0;
  if (is_empty(instr) || follows_entry(instr)) return;
  const auto self = static_cast<uint16_t>(rank);
  const TaskShares shares = shares_of(instr);
  for (const Region& write : plan_.writes(instr)) {
    const double bytes = shares.written * region_bytes(write);
    if (write.rank == self) {
      traffic.local_bytes += bytes;
    } else if (!write.empty()) {
      traffic.flows.push_back({self, write.rank, bytes});
    }
  }
  const bool ends = ends_tile(instr);
  const TaskCost& cost = instr.kind()->cost;
  const bool multiplies = cost.rate == Rate::mmas;
  if (ends || multiplies) traffic.local_bytes = 0;
  if (multiplies || (ends && !is_sum(instr.op))) return;
  std::span<const Region> reads = plan_.reads(instr);
  if (ends) reads = reads.subspan(parts_.find(instr)->in_registers);
  if (instr.fused && is_norm(instr.op)) reads = reads.subspan(1);
  for (const Region& read : reads) {
    if (read.rank == self) {
      traffic.local_bytes += region_bytes(read) * (&read == &reads.back() ? shares.read : 1);
    } else if (!read.empty()) {
      traffic.flows.push_back({read.rank, self, region_bytes(read)});
    }
  }
  traffic.local_bytes *= cost.times;
}

double Costs::bytes_read(const Instr& instr) const {
  double bytes = 0;
  for (const Region& read : plan_.reads(instr)) bytes += region_bytes(read);
  return bytes;
}

bool Costs::is_short_copy(const Instr& instr) const {
  return only_moves(instr) && bytes_read(instr) <= kShortCopyBytes;
}

double Costs::bytes_sent(const Instr& instr, int rank) const {
  double bytes = 0;
  for (const Region& write : plan_.writes(instr)) {
    if (write.rank != rank) bytes += region_bytes(write);
  }
  return bytes * shares_of(instr).written;
}

double Costs::row_fill(const Instr& instr) const {
  const Region& write = plan_.writes(instr).front();
  const int64_t bytes = write.cols() * num_bytes(plan_.buffers[write.buffer].dtype);
  return static_cast<double>(bytes) / static_cast<double>(round_up(bytes, kWarpBytes));
}

double Costs::push_rate(int blocks, size_t peers) const {
  const std::vector<double>& rates = peers > 1 ? push_many_ : push_one_;
  return rates[std::min(static_cast<size_t>(std::max(blocks, 1)), rates.size() - 1)];
}

double Costs::memory_rate(int blocks, double share) const {
  return std::min(share * machine_.block_hbm_gb_per_s, machine_.hbm_gb_per_s / std::max(blocks, 1));
}

double Costs::copy_rate(double bytes) const { return machine_.copy_engine_by_bytes.at(bytes); }

double Costs::signal_us(int from, int to) const {
  if (from == to) return machine_.local_signal_us;
  const bool near = machine_.same_node(from, to);
  return machine_.release_us + (near ? machine_.signal_us : machine_.network_latency_us);
}

}  // namespace stretto::sim
