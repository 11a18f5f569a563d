// Operators and machines that the schedule tests share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/error.h"
#include "stretto/schedule.h"

namespace stretto {

inline Segment gemm_rs(int ranks = 8) { return {kGemmRs, 2048, 1024, 4096, ranks, DType::bf16}; }
inline Segment gemm_ar(int ranks = 8) { return {kGemmAr, 2048, 1024, 4096, ranks, DType::bf16}; }
inline Segment ag_gemm(int ranks = 8) { return {kAgGemm, 2048, 1024, 4096, ranks, DType::bf16}; }

inline Segment gemm_a2a(int ranks = 8) { return {kGemmA2a, 2048, 1024, 4096, ranks, DType::bf16}; }
inline Segment a2a_gemm(int ranks = 8) { return {kA2aGemm, 2048, 1024, 4096, ranks, DType::bf16}; }

// Only what schedules look at.
inline Machine machine_of(int nodes = 1) {
  Machine machine;
  machine.name = "test8";
  machine.nodes = nodes;
  machine.ranks_per_node = 8;
  machine.sms = 132;
  machine.nccl_sms = 16;
  return machine;
}

// What parse_schedule says against a text; "accepted" when nothing.
inline std::string refusal(std::string_view text, const Segment& op = gemm_rs()) {
  try {
    parse_schedule(text, op, machine_of());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

// Why a schedule cannot serve, all at once.
inline std::vector<std::string> reasons(std::string_view text, const Segment& op = gemm_rs(),
                                        const Machine& machine = machine_of()) {
  return legal(op, parse_schedule(text, op, machine), machine);
}

}  // namespace stretto
