// Structural faults of a plan's parts. The parser reports them at their line, validate() anywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stretto/plan.h"

namespace stretto {

inline constexpr size_t kMaxNameLength = 64;
inline constexpr size_t kMostPartitions = 1024;
inline constexpr size_t kMaxOperands = 65535;  // of one kind of one task; what the fields hold

// A letter, then letters, digits and underscores; at most kMaxNameLength.
bool is_name(std::string_view text);
// Printable, without ';' (a comment) and without blanks at its ends; may be empty.
bool is_schedule_text(std::string_view text, const Operator& op);

// Each returns what is wrong as "expected ..., found ...", or an empty text.
std::string fault_in(const Buffer& buffer);
std::string fault_in(const Partition& partition);
// Its rows, and the partition that they are of.
std::string fault_in(const Plan& plan, const Buffer& buffer);
std::string fault_in(const SignalArray& signals);
// `previous`: the lane before, or null.
std::string fault_in(const Plan& plan, const Lane* previous, const Lane& lane);
std::string fault_in(const Plan& plan, const Lane& lane, const Instr& instr);
// Of all lanes, which have no other fault: where it shows first.
struct PlanFault {
  std::string what;                  // empty: there is none
  std::optional<size_t> lane = {};   // nothing: the plan as a whole
  std::optional<size_t> instr = {};  // nothing: the lane as a whole
};
PlanFault fault_in_clusters(const Plan& plan);
// Of the kernels that a library is said to multiply.
std::string fault_in_library(const Plan& plan);
// Of tasks that are said to be fused, and cannot be.
PlanFault fault_in_fused(const Plan& plan);
// Either; of a lane or instruction, without its name.
PlanFault fault_in_lanes(const Plan& plan);

}  // namespace stretto
