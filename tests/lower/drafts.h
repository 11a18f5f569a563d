// Drafts as lowering leaves them before signals are placed, for small machines, and all the
// schedules that an operator can have there.
#pragma once

#include <string>
#include <vector>

#include "stretto/lower.h"

namespace stretto {

// `ranks_per_node` 0: all ranks in one node.
Machine small_machine(int ranks, int sms = 8, int ranks_per_node = 0);

// The draft after the step of that name.
Draft draft_after(const Segment& op, const Schedule& schedule, const Machine& machine,
                  std::string_view step = "drop_idle_lanes");

// Every legal combination of granularity, order, mover, sync and reduction, with several chunks,
// groups and SM budgets. Tiles, swizzle, partials and reuse vary from one to the next.
std::vector<Schedule> legal_schedules(const Segment& op, const Machine& machine);

// A schedule text with a preset's name or canonical keys; see parse_schedule.
Draft draft_of(const std::string& op, const std::string& schedule, const Machine& machine);

// Tasks of one kind in program order, with their lanes.
struct Task {
  const Lane* lane = nullptr;
  const Instr* instr = nullptr;
  size_t at = 0;  // position in the program
};
std::vector<Task> tasks_of(const Draft& draft, Opcode op);
std::vector<Task> tasks_of(const Draft& draft, Opcode op, int rank);

// By name: buffer of the draft's plan.
uint16_t buffer_of(const Draft& draft, std::string_view name);

}  // namespace stretto
