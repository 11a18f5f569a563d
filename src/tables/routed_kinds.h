// Kinds of tasks of rows that choose experts, and sums beside them, which add warps of movers do by
// tables of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stretto/device/mover_task.h"
#include "stretto/device/routing.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// A task as its row describes it: what the plan says, and the fields of the two halves that a
// mover's table has of it.
struct RoutedFields {
  const Plan& plan;
  const Instr& instr;
  std::span<const Region> reads, writes;
  device::ExpertShares shares;  // of the experts that the instruction counts
  int rank;
  uint32_t rows_by_choice;  // where a permute hands over rows by choice
  device::MoverTask& task;
  device::RoutedTask& routed;
};

// Which regions hold what is moved, in vectors where all of them and the results allow it.
enum class RoutedMoves : uint8_t { nothing, one_source, all_sources };

// What the kernel of rows has for a kind of task: the first of its regions that rows are moved
// from, and what distinguishes the kind's fields. Null: nothing does.
struct RoutedRow {
  Opcode op;
  device::RoutedKind kind;
  size_t source;
  RoutedMoves moves;
  void (*describe)(const RoutedFields& of);
};

// Of a kind that there is.
const RoutedRow& routed_row_of(Opcode op);
// Whether the add warps do such tasks by tables of the run, in plans with tables.
bool is_routed_move(Opcode op);

// Why no mover does it; empty when one does.
std::string why_no_routed_task(const Plan& plan, const Instr& instr);

}  // namespace stretto::cuda
