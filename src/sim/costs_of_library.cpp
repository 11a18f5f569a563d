// What a library takes for the products that a plan's gemms make up.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/ceil_div.h"
#include "op/expert_tiles.h"
#include "op/few_rows_tiles.h"
#include "plan/placed.h"
#include "plan/sent_terms.h"
#include "plan/tile_task.h"
#include "sim/calibration.h"
#include "sim/costs.h"
#include "sim/library_product.h"
#include "sim/tile_cycles.h"

namespace stretto::sim {

namespace {

// Rows of one matrix that are multiplied by columns of as much of K, of whatever weights: those
// that lie behind one another are one product.
struct Multiplied {
  std::set<std::pair<int32_t, int32_t>> rows;
  std::set<std::tuple<uint16_t, int32_t, int32_t>> columns;
};

// The gemms of a rank's compute lanes between two boundaries.
struct Kernel {
  std::map<uint32_t, std::vector<const Instr*>> by_lane;
  std::map<std::tuple<uint16_t, int32_t, int32_t, int32_t>, Multiplied> multiplied;
  // Of experts: their inputs, whose bytes and those of their results are read and stored; each
  // block of a partition is a launch, which reads weights anew.
  std::set<std::tuple<int32_t, uint16_t, int32_t, int32_t, int32_t, int32_t>> inputs;
  double bytes = 0, weight_bytes = 0, stored_bytes = 0;
  double macs = 0, most_macs = 0;  // of all lanes, and of one
  bool is_of_experts = false;
};

void add_product(const Plan& plan, const Instr& gemm, Kernel& kernel) {
  const std::span<const Region> reads = plan.reads(gemm);
  const Region& b = reads.back();
  for (const Region& a : reads.first(reads.size() - 1)) {
    if (a.empty()) continue;
    Multiplied& made = kernel.multiplied[{a.buffer, a.col0, b.col0, b.col1}];
    made.rows.emplace(a.row0, a.row1);
    made.columns.emplace(b.buffer, b.row0, b.row1);
  }
}

// By buffer. Where it has several, each is one.
std::set<uint16_t> weights_of_first_product(const Plan& plan) {
  std::set<uint16_t> buffers;
  for (const OperatorSegment& segment : plan.op.segments) {
    if (!segment.product) continue;
    for (const int weight : segment.weights) {
      if (const auto buffer = plan.find_buffer(plan.op.tensor(weight).name))
        buffers.insert(*buffer);
    }
    break;
  }
  return buffers;
}

// Whether a product by this buffer stands beside another, with whose columns its own become one.
bool is_joined(const Plan& plan, uint16_t weights) {
  return std::any_of(
      plan.op.segments.begin(), plan.op.segments.end(), [&](const OperatorSegment& segment) {
        if (!segment.product || segment.weights.size() != 2) return false;
        return std::any_of(segment.weights.begin(), segment.weights.end(), [&](int weight) {
          return plan.find_buffer(plan.op.tensor(weight).name) == weights;
        });
      });
}

// A call each for rows that do not lie behind the others.
std::vector<LibraryProduct> products_of(const Kernel& kernel) {
  std::vector<LibraryProduct> products;
  for (const auto& [place, made] : kernel.multiplied) {
    int64_t columns = 0;
    for (const auto& [buffer, first, last] : made.columns) columns += last - first;
    const int64_t k = std::get<3>(place) - std::get<2>(place);
    int64_t end = -1;
    for (const auto& [first, last] : made.rows) {
      if (first != end) products.push_back({0, columns, k});
      products.back().rows += last - first;
      end = last;
    }
  }
  return products;
}

double macs_of(const Plan& plan, const Instr& gemm) {
  return gemm.kind()->cost.flops(plan.reads(gemm), plan.writes(gemm), rows_of_task(plan, gemm)) / 2;
}

// Of the rows of entries that are filled where experts are all as likely, the share that the kernel
// of experts multiplies, which takes rows in units.
double share_of_entries(const Plan& plan, const ChosenExperts& chosen, int rank, const Region& to) {
  const int16_t number = plan.buffers[to.buffer].partition;
  if (number < 0) return 1;
  const Partition& partition = plan.partitions[static_cast<size_t>(number)];
  const double filled = double{1} * partition.expected * partition.blocks * partition.rows;
  const ChosenExperts::Rows rows = chosen.rows_of(rank, number);
  const double multiplied = rows.choices + rows.experts * kUnitOfExperts / 2;
  return filled > 0 && multiplied > 0 ? std::min(1.0, multiplied / filled) : 1;
}

// Of the blocks of a partition, the one that an entry is of.
int32_t block_of(const Plan& plan, const Region& to) {
  const int16_t number = plan.buffers[to.buffer].partition;
  if (number < 0) return 0;
  const Partition& partition = plan.partitions[static_cast<size_t>(number)];
  return to.row0 / partition.rows / partition.entries_of_block();
}

int ranges_of_few_rows(int columns, const Machine& machine) {
  return machine.sms >= 2 * ceil_div(columns, kFewRowsColumns) ? 2 : 1;
}

// Weights of a kernel of few rows, round by round: what gives them gives all blocks so much, an SM
// takes so much of weights and tokens together, and a block that takes K whole needs its stages.
double weights_us(int64_t rows, int columns, int64_t k, const Machine& machine) {
  const int ranges = ranges_of_few_rows(columns, machine);
  const double each = 2.0 * static_cast<double>(k) / ranges;  // bytes of a column or row of a block
  const int64_t blocks = int64_t{ceil_div(columns, kFewRowsColumns)} * ranges;
  const int64_t at_once = int64_t{machine.sms} * kFewRowsBlocks;
  const int64_t tokens = round_up(rows, int64_t{8});
  const double stages_us =
      ranges > 1 ? 0
                 : static_cast<double>(ceil_div(k, kStageOfK)) *
                       (kFewRowsStageUs + kFewRowsStageOfRowUs * static_cast<double>(tokens));
  const double read_us =
      reread_us(static_cast<double>(blocks) * each * kFewRowsColumns, kFewRowsReads, machine);
  double us = 0;
  for (int64_t left = blocks; left > 0; left -= at_once) {
    const int64_t now = std::min(left, at_once);
    const double of_sm = static_cast<double>(ceil_div(now, int64_t{machine.sms})) * each *
                         static_cast<double>(kFewRowsColumns + tokens);
    us += std::max({read_us * static_cast<double>(now) / static_cast<double>(blocks),
                    move_us(of_sm, kFewRowsOfSm), stages_us});
    if (left > at_once) us += kFewRowsRoundUs;
  }
  return us;
}

}  // namespace

double Costs::picked_times(int rank, const Instr& gemm) const {
  const Region& stack = plan_.reads(gemm).back();
  const ChosenExperts::Rows rows =
      chosen_.rows_of(rank, plan_.buffers[plan_.writes(gemm)[0].buffer].partition);
  const double columns = static_cast<double>(gemm.count(0)) * part_of(gemm).columns / stack.rows();
  const auto experts = std::max<int64_t>(1, std::llround(rows.experts));
  const ExpertLoad load{.rows = std::llround(rows.choices / static_cast<double>(experts)),
                        .experts = experts,
                        .columns = std::llround(columns),
                        .k = stack.cols(),
                        .joins = is_joined(plan_, stack.buffer)};
  return gathers_times(load, machine_.sms);
}

// Between two boundaries there may be nothing; where rows choose experts, also kernels that prepare
// tokens and add up.
void Costs::find_next_kernels() {
  if (!plan_.any_library()) return;
  std::vector<RankKernels::Stretch> stretches = kernels_.stretches();
  // No kernel delivers, but what a run awaits ahead of that takes as long as the start of one, as
  // at every boundary that tasks follow (engine_joins.cpp).
  for (const Lane& lane : plan_.lanes) {
    if (lane.kind != LaneKind::compute) continue;
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      boundaries += instr.op == Opcode::boundary;
      if (instr.op != Opcode::deliver) continue;
      if (stretches.size() <= boundaries) stretches.resize(boundaries + 1);
      stretches[boundaries].has_kernels = true;
    }
  }
  bool any_tiles = !plan_.partitions.empty();
  for (size_t at = 0; at < stretches.size(); ++at) {
    any_tiles |= stretches[at].multiplies && !plan_.library_at(at);
  }
  if (!any_tiles && starts_itself_) {
    for (size_t at = 0; at < stretches.size(); ++at) {
      if (stretches[at].has_kernels && !stretches[at].multiplies) passes_behind_.insert(at);
    }
    next_is_library_.assign(stretches.size(), true);
    return;
  }
  if (plan_.library_gemms && plan_.partitions.empty()) return;
  next_is_library_.assign(stretches.size(), false);
  bool is_library = false;
  for (size_t at = stretches.size(); at-- > 0;) {
    if (stretches[at].has_kernels) {
      is_library = stretches[at].multiplies && plan_.library_at(at).has_value();
    }
    next_is_library_[at] = is_library;
  }
}

// Of the products that the kernel of few rows multiplies: what is sent behind them, that of the
// last wave where they wait for weights; of collectives whose data is its own signal: what is
// gathered, and what cuBLAS has multiplied.
void Costs::find_sent() {
  left_behind_.assign(plan_.buffers.size(), std::nullopt);
  gathered_.assign(plan_.buffers.size(), false);
  by_library_.assign(plan_.buffers.size(), false);
  if (!plan_.low_latency_collectives) return;
  times_sent_ = times_sent(plan_);
  const int at_once = machine_.sms * kFewRowsBlocks * kFewRowsColumns;
  const auto behind = [&](const Region& a, uint16_t to) {
    const int64_t rows = plan_.buffers[a.buffer].rows, columns = plan_.buffers[to].cols;
    if (rows <= kRowsThatStream)
      return 1.0 / static_cast<double>(ceil_div(columns, int64_t{at_once}));
    return few_rows_tile(rows, columns, a.cols(), times_sent_[to], machine_.sms).behind;
  };
  for (const Lane& lane : plan_.lanes) {
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      boundaries += instr.op == Opcode::boundary;
      const bool gathers =
          instr.op == Opcode::collective && instr.collective == CollectiveKind::all_gather;
      const bool multiplies = instr.op == Opcode::gemm && plan_.library_at(boundaries).has_value();
      if (!gathers && !multiplies) continue;
      const bool is_few_rows = multiplies && plan_.few_rows_at(boundaries);
      for (const Region& to : plan_.writes(instr)) {
        if (gathers) gathered_[to.buffer] = true;
        if (is_few_rows) left_behind_[to.buffer] = behind(plan_.reads(instr)[0], to.buffer);
        if (multiplies && !is_few_rows) by_library_[to.buffer] = true;
      }
    }
  }
}

double Costs::few_rows_us(const Instr& gemm, int columns, double read_us,
                          double multiply_us) const {
  const Region& from = plan_.reads(gemm)[0];
  const auto to = plan_.writes(gemm)[0].buffer;
  const int64_t rows = plan_.buffers[from.buffer].rows;
  const bool streams = rows <= kRowsThatStream;
  if (streams) {
    read_us = weights_us(rows, columns, from.cols(), machine_);
  } else {
    const FewRowsTile tile =
        few_rows_tile(rows, columns, from.cols(), times_sent_[to], machine_.sms);
    const double cycles = tile.cycles * (tile.sends_beside ? kFewRowsBeside : 1);
    const double cycles_us =
        kFewRowsClock * machine_.gemm_tflops * 1e6 / (kFlopOfCycle * machine_.sms);
    // Neither hides all of the other where both take about as long (18 shapes of one H200).
    multiply_us =
        std::cbrt(std::pow((cycles - kFewRowsRoundCycles) / cycles_us, 3) + std::pow(read_us, 3));
  }
  const bool splits = streams && ranges_of_few_rows(columns, machine_) > 1;
  const double early = gathered_[from.buffer] ? kFewRowsEarlyUs : kFewRowsChainedUs;
  return kFewRowsStartUs - early + std::max(read_us, multiply_us) + (splits ? kFewRowsSplitUs : 0) +
         kFewRowsSendUs;
}

// Its kernels fill the SMs that movers leave whatever the shape is. The lanes share out the time by
// their tiles.
void Costs::find_products() {
  if (!plan_.any_library()) return;
  std::map<std::pair<uint16_t, size_t>, Kernel> kernels;
  const auto ranks = static_cast<size_t>(plan_.ranks());
  std::vector<int> movers(ranks, 0);
  std::vector<size_t> last(ranks, 0);  // by rank: boundaries before its last gemms
  const auto macs_here = [&](uint16_t rank, const Instr& gemm) {
    const double picked = gathers_rows(gemm.op) ? picked_times(rank, gemm) : 1;
    return picked * macs_of(plan_, gemm) *
           share_of_entries(plan_, chosen_, rank, plan_.writes(gemm)[0]);
  };
  std::vector<Region> inputs;
  for (uint32_t l = 0; l < plan_.lanes.size(); ++l) {
    const Lane& lane = plan_.lanes[l];
    if (lane.kind == LaneKind::comm && !lane.instrs.empty()) ++movers[lane.rank];
    if (lane.kind != LaneKind::compute) continue;
    size_t boundaries = 0;
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::boundary) ++boundaries;
      if (!is_product(instr.op)) continue;
      const bool by_library = plan_.library_at(boundaries).has_value();
      if (is_empty(instr)) {
        // Its kernel deals out tiles of rows that there are.
        if (by_library) library_us_[instr] = 0;
        continue;
      }
      last[lane.rank] = std::max(last[lane.rank], boundaries);
      if (!by_library) continue;
      Kernel& kernel = kernels[{lane.rank, boundaries}];
      kernel.by_lane[l].push_back(&instr);
      if (!is_routed_product(instr.op)) {
        add_product(plan_, instr, kernel);
        continue;
      }
      kernel.is_of_experts = true;
      inputs.clear();
      add_inputs_of_entry(instr, inputs);
      // Of two products beside one another one result is stored.
      const Region& to = plan_.writes(instr)[0];
      if (!instr.fused) {
        const double stored = static_cast<double>(to.elements()) * num_bytes(plan_.op.dtype) *
                              share_of_entries(plan_, chosen_, lane.rank, to);
        kernel.bytes += stored;
        kernel.stored_bytes += stored;
      }
      for (const Region& read : inputs) {
        const bool is_new = kernel.inputs
                                .emplace(block_of(plan_, to), read.buffer, read.row0, read.row1,
                                         read.col0, read.col1)
                                .second;
        if (!is_new) continue;
        kernel.bytes += region_bytes(read);
        const bool is_weights = read.buffer == plan_.reads(instr).back().buffer;
        if (is_weights) kernel.weight_bytes += region_bytes(read);
      }
    }
  }
  // Most ranks have the same.
  std::map<std::tuple<LibraryProduct, double, double>, double> known_us;
  std::vector<std::set<uint16_t>> begun(ranks);  // weights of the first product, then of others'
  for (std::set<uint16_t>& weights : begun) weights = weights_of_first_product(plan_);
  const auto is_behind_another = [&](uint16_t rank, const Kernel& kernel) {
    const Instr& gemm = *kernel.by_lane.begin()->second.front();
    return begun[rank].insert(plan_.reads(gemm).back().buffer).second;
  };
  for (auto& [place, kernel] : kernels) {
    // A gather's last is beside nobody.
    const bool is_alone = place.second == last[place.first] && !plan_.op.ends_with_terms();
    const double sms = machine_.sms - (is_alone ? 0 : movers[place.first]);
    for (const auto& [lane, gemms] : kernel.by_lane) {
      double macs = 0;
      for (const Instr* gemm : gemms) macs += macs_here(place.first, *gemm);
      kernel.macs += macs;
      kernel.most_macs = std::max(kernel.most_macs, macs);
    }
    const bool is_fp32 = plan_.op.dtype == DType::fp32;
    const double multiply_us = 2 * kernel.macs * machine_.sms / sms /
                               ((is_fp32 ? machine_.fp32_tflops : machine_.gemm_tflops) * 1e6) /
                               power_[place.first];
    const bool is_few_rows = plan_.few_rows_at(place.second);
    double us = 0;
    int64_t columns = 0;
    for (const LibraryProduct& one : products_of(kernel)) {
      columns = one.columns;
      kernel.bytes += static_cast<double>((one.rows + one.columns) * one.k) *
                      static_cast<double>(num_bytes(plan_.op.dtype));
      if (is_fp32 || is_few_rows) continue;
      const double power = library_power_[place.first];
      double& alone_us = known_us[{one, sms, power}];
      if (alone_us == 0) alone_us = sim::library_us(one, sms, power, machine_);
      us += alone_us;
    }
    if (is_few_rows) {
      us = few_rows_us(*kernel.by_lane.begin()->second.front(), static_cast<int>(columns),
                       move_us(kernel.bytes, kFewRowsRead * machine_.hbm_gb_per_s),
                       multiply_us / kFewRowsRate);
    } else if (kernel.is_of_experts || is_fp32) {
      const double rate = (kernel.is_of_experts ? kExpertsRead : 1) * machine_.hbm_gb_per_s;
      // Multiplying does not hide all of reading weights, nor of storing (op/expert_tiles.h, 500
      // times of one H200).
      const bool of_experts = kernel.is_of_experts;
      const double rate_us = std::hypot(
          multiply_us / (of_experts ? kExpertsRate : kFp32Rate), move_us(kernel.weight_bytes, rate),
          move_us(kernel.stored_bytes, kExpertsStored * machine_.hbm_gb_per_s));
      us = (of_experts ? kExpertsStartUs : kFp32StartUs) +
           std::max(rate_us, move_us(kernel.bytes, rate));
    } else if (gathered_[plan_.reads(*kernel.by_lane.begin()->second.front())[0].buffer]) {
      us -= kLibraryEarlyUs;
    } else if (is_behind_another(place.first, kernel)) {
      us += kLibraryBehindUs;
    }
    for (const auto& [lane, gemms] : kernel.by_lane) {
      for (const Instr* gemm : gemms) {
        library_us_[*gemm] = us * macs_here(place.first, *gemm) / kernel.most_macs;
      }
    }
  }
}

}  // namespace stretto::sim
