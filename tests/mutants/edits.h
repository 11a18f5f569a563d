// Edits of plans, of every kind that a slip of a pen makes: of waits and notifies, of tasks and
// their regions, of lanes, signals, boundaries and collectives. Most break a plan; some do not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/plan.h"

namespace stretto::mutants {

// X(enumerator, what it does); `choice` says which of several.
#define STRETTO_EDITS(X)                                             \
  X(delete_sync, "delete a wait or notify")                          \
  X(lower, "lower a threshold")                                      \
  X(raise, "raise a threshold")                                      \
  X(add, "notify by more")                                           \
  X(repeat, "notify or do a task twice")                             \
  X(other_signal, "wait for or notify another signal of the array")  \
  X(other_rank, "notify another rank")                               \
  X(lag, "wait with another lag")                                    \
  X(swap, "exchange an instruction with the next")                   \
  X(sooner, "move a notify before the task it follows")              \
  X(later, "move a wait behind the task it precedes")                \
  X(drop_task, "leave a task out")                                   \
  X(shrink, "take a row off a task")                                 \
  X(move_write, "write to another rank")                             \
  X(move_read, "read the rows beside")                               \
  X(grow, "add a row to a task")                                     \
  X(shift_write, "write the rows beside")                            \
  X(drop_operand, "leave out what a task reads or writes")           \
  X(swap_operands, "exchange two regions of a task")                 \
  X(drop_lane, "leave a lane out")                                   \
  X(join_lanes, "put a lane behind another of its kind")             \
  X(drop_boundary, "leave a rank's boundary out")                    \
  X(copies, "keep another number of copies of a buffer")             \
  X(signal_copies, "keep another number of copies of signals")       \
  X(merge, "make two signals one")                                   \
  X(merge_sums, "make two signals one, and wait for the sum")        \
  X(collective, "give a collective another number")                  \
  X(kernel, "give a collective to a kernel of the graph's, or back") \
  X(drop_fused, "take the word off a fused task")                    \
  X(add_fused, "say of a task that it is fused")

enum class EditKind : uint8_t {
#define STRETTO_ENUM(name, text) name,
  STRETTO_EDITS(STRETTO_ENUM)
#undef STRETTO_ENUM
};
inline constexpr EditKind kEditKinds[] = {
#define STRETTO_VALUE(name, text) EditKind::name,
    STRETTO_EDITS(STRETTO_VALUE)
#undef STRETTO_VALUE
};
std::string_view to_string(EditKind kind);

struct Edit {
  EditKind kind = EditKind::delete_sync;
  InstrRef at;  // of declarations: at.pos is the buffer or array
  uint32_t choice = 0;
};

// All of a kind.
std::vector<Edit> edits_of(const Plan& plan, EditKind kind);
void apply(Plan& plan, const Edit& edit);
// Says what an edit does to the plan, which is as before the edit.
std::string describe(const Plan& plan, const Edit& edit);

}  // namespace stretto::mutants
