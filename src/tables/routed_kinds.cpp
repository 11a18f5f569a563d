#include "tables/routed_kinds.h"

#include <algorithm>
#include <iterator>

#include "gpu/device_types.h"
#include "stretto/device/mover_routed.h"
#include "stretto/error.h"

namespace stretto::cuda {

using device::RoutedKind;

namespace {

uint32_t rows(const Region& region) { return static_cast<uint32_t>(region.rows()); }
uint32_t cols(const Region& region) { return static_cast<uint32_t>(region.cols()); }

void own_experts(const RoutedFields& of, int rank) {
  of.routed.own_experts = static_cast<uint32_t>(of.shares.size(rank));
  of.routed.first_expert = static_cast<uint32_t>(of.shares.begin(rank));
}

// `counts`: of the rank's experts, and one more.
void partition(const RoutedFields& of, int32_t counts) {
  const int32_t own = counts - 1;
  of.task.rows = rows(of.reads[0]);
  of.routed.top_k = cols(of.reads[0]);
  own_experts(of, of.rank);
  of.routed.own_experts = static_cast<uint32_t>(own);
  if (own == of.shares.all) of.routed.first_expert = 0;
  of.routed.workers = device::partition_workers(own);
}

void entries(const RoutedFields& of) {
  of.routed.table_rows = rows(of.writes[0]);
  of.routed.entries = rows(of.writes[1]);
}

void route(const RoutedFields& of) {
  partition(of, of.writes[3].rows());
  entries(of);
}

void count_choices(const RoutedFields& of) {
  partition(of, of.writes[0].cols());
  of.routed.table_rows = of.routed.entries = 1;
}

void place_choices(const RoutedFields& of) {
  partition(of, of.reads[1].cols());
  of.routed.table_rows = static_cast<uint32_t>(of.instr.count(1));
  of.routed.entries = 1;
  of.routed.parts = rows(of.reads[1]);
  of.routed.part = static_cast<uint32_t>(of.reads[2].row0 - of.reads[1].row0);
}

void fill_entries(const RoutedFields& of) {
  partition(of, of.reads[0].cols());
  entries(of);
  of.task.rows = rows(of.reads[1]);
  of.routed.parts = rows(of.reads[0]);
  of.routed.part = static_cast<uint32_t>(of.instr.count(1));
}

device::MoverType type_of(const RoutedFields& of, const Region& region) {
  return device_type<device::MoverType>(of.plan.buffers[region.buffer].dtype);
}

void weigh(const RoutedFields& of) {
  of.routed.top_k = cols(of.reads[0]);
  of.routed.weights = type_of(of, of.reads[0]);
  of.routed.table_rows = rows(of.reads[2]);
  if (of.reads[1].cols() == 1) return;
  of.routed.entries = 1;
  own_experts(of, of.rank);
}

void dispatch(const RoutedFields& of) {
  of.routed.top_k = cols(of.reads[1]);
  own_experts(of, of.writes[0].rank);
}

void permute(const RoutedFields& of) {
  of.routed.top_k = static_cast<uint32_t>(of.instr.count(0));
  of.routed.table_rows = rows(of.reads[1]);
  of.routed.own_experts = of.rows_by_choice;
}

void sum_counts(const RoutedFields& of) {
  of.routed.parts = static_cast<uint32_t>(of.instr.count(0));
}

void merge(const RoutedFields& of) { of.routed.top_k = cols(of.reads[0]); }

void look_up(const RoutedFields& of) {
  const int64_t each = of.instr.count(0);
  of.routed.entries = static_cast<uint32_t>(of.reads[1].rows() / each);
  of.routed.table_rows = static_cast<uint32_t>(each);
  of.routed.top_k = cols(of.reads[0]) / of.routed.entries;
}

void scores(const RoutedFields& of) {
  of.routed.experts = cols(of.reads[0]);
  of.routed.top_k = cols(of.writes[0]);
}

void top_k(const RoutedFields& of) {
  scores(of);
  of.routed.entries = static_cast<uint32_t>(of.instr.count(0));
  of.routed.own_experts = static_cast<uint32_t>(of.instr.count(1));
  of.routed.weights = type_of(of, of.reads.back());
}

void gate(const RoutedFields& of) {
  scores(of);
  of.routed.own_experts = static_cast<uint32_t>(of.instr.count(0));
  of.task.epsilon = of.instr.attribute();
}

void slice_ids(const RoutedFields& of) {
  of.routed.top_k = cols(of.writes[0]);
  of.routed.own_experts = static_cast<uint32_t>(of.instr.count(1));
}

void slice_weights(const RoutedFields& of) {
  of.routed.top_k = cols(of.writes[0]);
  of.routed.own_experts = static_cast<uint32_t>(of.instr.count(0));
}

using enum RoutedMoves;

constexpr RoutedRow kRoutedRows[] = {
    {Opcode::route, RoutedKind::route, 0, nothing, route},
    {Opcode::count_choices, RoutedKind::count_choices, 0, nothing, count_choices},
    {Opcode::place_choices, RoutedKind::place_choices, 0, nothing, place_choices},
    {Opcode::fill_entries, RoutedKind::fill_entries, 0, nothing, fill_entries},
    {Opcode::weigh, RoutedKind::weigh, 2, all_sources, weigh},
    {Opcode::combine, RoutedKind::combine, 2, all_sources, weigh},
    {Opcode::dispatch, RoutedKind::dispatch, 0, one_source, dispatch},
    {Opcode::permute, RoutedKind::permute, 1, all_sources, permute},
    {Opcode::sum_counts, RoutedKind::sum_counts, 0, nothing, sum_counts},
    {Opcode::merge, RoutedKind::merge, 1, all_sources, merge},
    {Opcode::embed, RoutedKind::embed, 1, all_sources, look_up},
    {Opcode::embed_mean, RoutedKind::embed_mean, 1, all_sources, look_up},
    {Opcode::top_k, RoutedKind::top_k, 0, nothing, top_k},
    {Opcode::biased_top_k, RoutedKind::biased_top_k, 0, nothing, top_k},
    {Opcode::softmax_gate, RoutedKind::softmax_gate, 0, nothing, gate},
    {Opcode::sigmoid_gate, RoutedKind::sigmoid_gate, 0, nothing, gate},
    {Opcode::slice_ids, RoutedKind::slice_ids, 0, nothing, slice_ids},
    {Opcode::slice_weights, RoutedKind::slice_weights, 0, nothing, slice_weights},
    {Opcode::reduce, RoutedKind::reduce, 0, all_sources, nullptr},
};

const RoutedRow* find_row(Opcode op) {
  const auto found = std::find_if(std::begin(kRoutedRows), std::end(kRoutedRows),
                                  [&](const RoutedRow& row) { return row.op == op; });
  return found == std::end(kRoutedRows) ? nullptr : found;
}

}  // namespace

const RoutedRow& routed_row_of(Opcode op) {
  const RoutedRow* const found = find_row(op);
  STRETTO_ASSERT(found != nullptr, "no kind of task that the kernel of rows has");
  return *found;
}

bool is_routed_move(Opcode op) { return find_row(op) != nullptr; }

}  // namespace stretto::cuda
