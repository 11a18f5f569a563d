#include "schedule/routed_point.h"

#include <algorithm>
#include <cmath>

#include "op/expert_tiles.h"

namespace stretto {
namespace {

constexpr int kPushSms = 16, kLeastSumSms = 16, kMostSumSms = 32;
constexpr int kTall = 128, kLow = 64, kWide = 256, kLeastCols = 8;
// An expert's entries are half empty where it has fewer rows: then they are lower.
constexpr double kRowsOfTall = 96;
// Tiles that pick their rows while they load them take so much longer, if experts have so many
// rows; with fewer they wait for weights (docs/notes/moe.md).
constexpr double kPicking = 0.35, kRowsToPermute = 192;
constexpr double kRateOfPass = 0.67;  // of memory's
// Where nothing is multiplied, half of the SMs move rows between ranks and half inside them; few
// rows are in order sooner in low entries (docs/notes/moe.md).
constexpr int kMoveSms = 64, kLowest = 16;
// What presets take the link to hide, of what it takes in all.
constexpr double kHidden = 0.3;

// Choices of an expert, all being as likely, in a partition of so many tokens.
double rows_of_expert(const Segment& op, double tokens) {
  return tokens * static_cast<double>(op.top_k) / static_cast<double>(op.experts);
}

// An expert's last entry is half empty in the mean.
double padded(double rows, int entry_rows) {
  return rows + std::min(rows * entry_rows, entry_rows / 2.0);
}

// Partitions by source let tiles begin with the own tokens, and pad more rows. So that products of
// one partition agree, this is the same of all: columns that travel, rows, one matrix.
bool is_worth_sources(const Segment& op, const Machine& machine, int entry_rows, bool has_sums) {
  const double tflops = op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops;
  if (tflops <= 0 || machine.link_gb_per_s <= 0) return false;
  const double of_all = rows_of_expert(op, static_cast<double>(op.m));
  const double of_source = rows_of_expert(op, static_cast<double>(op.row_shards().block()));
  if (op.only_moves()) return 2 * of_source >= entry_rows;  // what is empty costs no time
  const double more = op.ranks * padded(of_source, entry_rows) / padded(of_all, entry_rows) - 1;
  const double flops = 2.0 * static_cast<double>(op.m * op.top_k) * static_cast<double>(op.n) *
                       static_cast<double>(op.k) / op.ranks;
  const double bytes = static_cast<double>(op.m) * static_cast<double>(has_sums ? op.n : op.k) *
                       static_cast<double>(num_bytes(op.dtype)) * (op.ranks - 1) / op.ranks;
  return more * flops / (tflops * 1e6) < kHidden * bytes / (machine.link_gb_per_s * 1e3);
}

void set_tile(const Segment& op, Schedule& schedule) {
  const double rows = rows_of_expert(op, static_cast<double>(op.m));
  schedule.tile_m = rows < kRowsOfTall ? kLow : kTall;
  schedule.tile_n = kWide;
  const int weights = std::max(1, op.weights);
  const int64_t cols = op.local_n() * weights;
  while (schedule.tile_n > kLeastCols * weights && schedule.tile_n >= 2 * cols) {
    schedule.tile_n /= 2;
  }
}

// Sums read each choice's row: as many SMs as read them while the others multiply.
int sms_for_sums(const Segment& op, const Machine& machine) {
  const double tflops = op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops;
  const double rate = machine.block_hbm_gb_per_s;
  if (tflops <= 0 || rate <= 0) return kPushSms;
  const double bytes = static_cast<double>(op.m * op.top_k) * static_cast<double>(op.n) *
                       static_cast<double>(num_bytes(op.dtype)) /
                       (op.kind.weight == Held::experts ? op.ranks : 1);
  const double gemm_us = flops_per_rank(op) / tflops * 1e-6;
  int sms = kLeastSumSms;
  while (sms < kMostSumSms &&
         bytes / (rate * 1e3 * sms) > gemm_us * machine.sms / std::max(1, machine.sms - sms)) {
    sms += 4;
  }
  return sms;
}

// A pass reads and writes each row once, and every column of tiles gains by it.
bool is_worth_a_pass(const Segment& op, const Machine& machine, double picking) {
  const double tflops = op.dtype == DType::fp32 ? machine.fp32_tflops : machine.gemm_tflops;
  if (tflops <= 0 || machine.hbm_gb_per_s <= 0) return false;
  if (rows_of_expert(op, static_cast<double>(op.m)) < kRowsToPermute) return false;
  const double rate = kRateOfPass * machine.hbm_gb_per_s;
  const double pass_us = 2.0 * static_cast<double>(num_bytes(op.dtype)) / rate;
  const double picking_us = picking * 2.0 * static_cast<double>(op.product_cols()) / (tflops * 1e3);
  return pass_us < picking_us;  // of a thousand elements of a row
}

// By the kernel of experts.
double picking_by_library(const Segment& op, const Machine& machine) {
  const int64_t experts = op.kind.weight == Held::experts ? op.experts / op.ranks : op.experts;
  const auto rows = std::llround(rows_of_expert(op, static_cast<double>(op.m)));
  const ExpertLoad load{.rows = rows,
                        .experts = experts,
                        .columns = op.product_cols(),
                        .k = op.k,
                        .joins = op.weights == 2};
  return gathers_times(load, machine.sms) - 1;
}

Schedule begin(const Segment& op, const Machine& machine, double picking = kPicking) {
  Schedule schedule;
  schedule.partials = op.dtype;
  set_tile(op, schedule);
  if (op.only_moves() || is_worth_a_pass(op, machine, picking)) schedule.permute = Permute::pass;
  return schedule;
}

bool has_sums(const Segment& op) {
  return op.kind.weight != Held::rows && op.kind.out != Edge::none;
}

}  // namespace

Schedule routed_sequential(const Segment& op, const Machine& machine, GemmBy gemm) {
  const bool by_library = gemm == GemmBy::library;
  Schedule schedule = begin(op, machine, by_library ? picking_by_library(op, machine) : kPicking);
  schedule.gemm = gemm;
  schedule.reduction = has_sums(op) ? Reduction::nccl : Reduction::none;
  return schedule;
}

Schedule routed_tiles(const Segment& op, const Machine& machine) {
  Schedule schedule = begin(op, machine);
  schedule.granularity = is_worth_sources(op, machine, schedule.tile_m, has_sums(op))
                             ? Granularity::chunk
                             : Granularity::whole;
  schedule.order = has_sums(op) ? Order::peer_staggered : Order::arrival;
  schedule.mover = Mover::comm_blocks;
  schedule.sync = Sync::flag;
  if (has_sums(op)) {
    schedule.reduction = op.adds_for_all() ? Reduction::two_shot : Reduction::slots;
  }
  const int sms = op.only_moves() ? kMoveSms : has_sums(op) ? sms_for_sums(op, machine) : kPushSms;
  schedule.comm_sms = std::clamp(sms, 0, std::max(0, machine.sms - 1));
  return schedule;
}

Schedule routed_few_rows(const Segment& op, const Machine& machine) {
  Schedule schedule = routed_tiles(op, machine);
  schedule.granularity = Granularity::whole;
  schedule.sync = Sync::counter;
  schedule.tile_m = kLowest;
  return schedule;
}

}  // namespace stretto
