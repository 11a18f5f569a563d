// Checker: proves a plan's synchronisation free of races and deadlocks, and that what GPUs enqueue
// for it keeps to it, or says what is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/plan.h"

namespace stretto {

// X(enumerator, text name, meaning)
#define STRETTO_DIAGNOSTICS(X)                                                                     \
  X(read_before_write, "read-before-write", "a read that is not ordered after the write it needs") \
  X(overwrite_unread, "overwrite-unread", "a write that is not ordered after a read of old data")  \
  X(unordered_writes, "unordered-writes", "two writes of one place without an order")              \
  X(never_written, "never-written", "a read of a place that nothing writes")                       \
  X(unwritten_output, "unwritten-output", "part of the operator's output that no task writes")     \
  X(undelivered_output, "undelivered-output",                                                      \
    "a remote write of an output that may come after the run")                                     \
  X(deadlock, "deadlock", "lanes that wait for each other")                                        \
  X(unreachable_threshold, "unreachable-threshold", "a wait for more than one run notifies")       \
  X(early_threshold, "early-threshold", "a wait that can pass before all it stands for")           \
  X(out_of_bounds, "out-of-bounds", "a region outside its buffer")                                 \
  X(not_resident, "not-resident", "blocks that wait for each other but cannot all be resident")    \
  X(wrong_input, "wrong-input", "an input that is not what the operator takes")                    \
  X(wrong_access, "wrong-access", "a task that touches memory its lane cannot reach")              \
  X(mismatched_collective, "mismatched-collective",                                                \
    "ranks disagree about a collective or boundary")                                               \
  X(misplaced_instruction, "misplaced-instruction",                                                \
    "an instruction that no kernel or step of a program has, or two")                              \
  X(program_order, "program-order", "what a program may do in another order than its plan")        \
  X(lost_wait, "lost-wait", "a wait that nothing in a program makes or stands for")                \
  X(lost_notify, "lost-notify", "a notify that nothing in a program makes, though it is awaited")  \
  X(enqueue_order, "enqueue-order", "steps in an order in which their events are not there yet")   \
  X(early_read, "early-read", "a kernel that reads what the one ahead of it may not have stored")  \
  X(program_deadlock, "program-deadlock", "streams of programs that wait for each other")          \
  X(program_not_resident, "program-not-resident", "kernels side by side that do not fit together")

enum class DiagnosticKind : uint8_t {
#define STRETTO_ENUM(name, text, meaning) name,
  STRETTO_DIAGNOSTICS(STRETTO_ENUM)
#undef STRETTO_ENUM
};
std::string_view to_string(DiagnosticKind kind);

struct Diagnostic {
  DiagnosticKind kind;
  std::optional<InstrRef> where;  // lane and position in it; none when no lane is at fault
  std::optional<InstrRef> other;  // the second party, where there is one
  int tile = -1;                  // of the task, or -1
  std::string signal;             // "slots.5@3", or empty
  std::string message;            // one sentence with rank, lane, instruction, tile, signal
  std::string hint;               // what would be right
  // What else message and hint name: further instructions, at most kMostNamed of them, and the
  // declaration that does not fit.
  std::vector<InstrRef> also = {};
  std::optional<uint16_t> buffer = {}, signals = {};
};
inline constexpr size_t kMostNamed = 8;

struct CheckOptions {
  size_t max_diagnostics = 100;  // stop after so many; the report says that it stopped
  bool fragment = false;         // part of a plan: it need not have its operator's tensors
  // Of a run of fewer rows (Plan::run_of): the plan that it is one of is checked as well, and with
  // it the program that ranks enqueue for the run. Else nobody knows that plan here, and the run is
  // proved as it is enqueued alone.
  bool has_whole_plan = false;
};

struct CheckReport {
  std::vector<Diagnostic> diagnostics;
  bool truncated = false;
  size_t tasks = 0, waits = 0, notifies = 0, pairs_proved = 0;  // what was examined
  int epochs = 0;                                               // runs unrolled
  // Why no GPU runs it, that it has faults itself or that its program is the one of a plan that is
  // checked beside it: the first of all reasons that the command and who runs plans would give.
  // Empty when what ranks enqueue for it was proved too, and GPUs run it.
  std::string no_program;
  bool clean() const { return diagnostics.empty() && !truncated; }
};

CheckReport check(const Plan& plan, const CheckOptions& options = {});

// Whether blocks that wait could keep out what they wait for on GPUs of so many SMs, which need not
// be the plan's: a diagnostic for each rank; empty when they cannot. Quick; part of check(), for
// the plan's own SMs.
std::vector<Diagnostic> why_not_resident(const Plan& plan, int sms);

}  // namespace stretto
