// Graphs that name kernels of a user's own, and their plans, for tests of several rooms.
#pragma once

#include <string>

#include "stretto/lower.h"

namespace stretto {

// Their kernel is called KERNEL.
inline constexpr const char* kRingGraph =
    "graph ring m\n"
    "kernel KERNEL all-reduce \"KERNEL.h\" slots=2*ranks signals=16\n"
    "input x [m, 32] whole\n"
    "input w [64, 32] rows\n"
    "input v [48, 64] cols\n"
    "a = gemm x w\n"
    "y = gemm a v\n"
    "output y whole\n";
inline constexpr const char* kGatherGraph =
    "graph gathered m\n"
    "kernel KERNEL gather \"KERNEL.h\" slots=2*ranks signals=ranks\n"
    "input x [m, 32] rows\n"
    "input w [64, 32] rows\n"
    "y = gemm x w\n"
    "output y cols\n";
inline constexpr const char* kScatterGraph =
    "graph scattered m\n"
    "kernel KERNEL reduce-scatter \"KERNEL.h\" slots=2*ranks signals=ranks\n"
    "input x [m, 64] cols\n"
    "input w [32, 64] cols\n"
    "y = gemm x w\n"
    "output y rows\n";
// A gather by NCCL, then a reduce-scatter.
inline constexpr const char* kMixedGraph =
    "graph mixed m\n"
    "kernel to_owners reduce-scatter \"to_owners.h\" slots=2*ranks signals=ranks\n"
    "input x [m, 32] rows\n"
    "input w [64, 32] rows\n"
    "input v [32, 64] cols\n"
    "u = gemm x w\n"
    "d = gemm u v\n"
    "output d rows\n";

inline Operator operator_of(std::string graph, int64_t rows, int ranks, DType dtype = DType::bf16,
                            const std::string& kernel = "") {
  constexpr std::string_view kName = "KERNEL";
  for (size_t at = 0; (at = graph.find(kName)) != std::string::npos;) {
    graph.replace(at, kName.size(), kernel);
  }
  return make_graph(parse_graph(graph), {{"m", rows}}, ranks, dtype);
}

inline Plan plan_by_kernel(const char* graph, const std::string& kernel, int64_t rows, int ranks,
                           DType dtype = DType::bf16) {
  const Operator op = operator_of(graph, rows, ranks, dtype, kernel);
  const Machine machine = default_machine(ranks);
  return lower(op, parse_schedules("sequential,kernel=" + kernel, op, machine), machine);
}

}  // namespace stretto
