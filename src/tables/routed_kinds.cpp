#include "tables/routed_kinds.h"

#include <algorithm>
#include <iterator>

#include "stretto/error.h"

namespace stretto::cuda {

using device::RoutedKind;

namespace {

constexpr RoutedRow kRoutedRows[] = {
    {Opcode::route, RoutedKind::route, 0},
    {Opcode::count_choices, RoutedKind::count_choices, 0},
    {Opcode::place_choices, RoutedKind::place_choices, 0},
    {Opcode::fill_entries, RoutedKind::fill_entries, 0},
    {Opcode::weigh, RoutedKind::weigh, 2},
    {Opcode::combine, RoutedKind::combine, 2},
    {Opcode::dispatch, RoutedKind::dispatch, 0},
    {Opcode::permute, RoutedKind::permute, 1},
    {Opcode::sum_counts, RoutedKind::sum_counts, 0},
    {Opcode::merge, RoutedKind::merge, 1},
    {Opcode::embed, RoutedKind::embed, 1},
    {Opcode::embed_mean, RoutedKind::embed_mean, 1},
    {Opcode::top_k, RoutedKind::top_k, 0},
    {Opcode::biased_top_k, RoutedKind::biased_top_k, 0},
    {Opcode::softmax_gate, RoutedKind::softmax_gate, 0},
    {Opcode::sigmoid_gate, RoutedKind::sigmoid_gate, 0},
    {Opcode::slice_ids, RoutedKind::slice_ids, 0},
    {Opcode::slice_weights, RoutedKind::slice_weights, 0},
    {Opcode::reduce, RoutedKind::reduce, 0},
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
