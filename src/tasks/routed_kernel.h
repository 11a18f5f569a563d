// How the add warps of movers do a kind of task by tables of the run: what its row says of that.
// All of it follows from regions and numbers; that they lie in a plan makes no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "stretto/device/mover_task.h"
#include "stretto/device/routing.h"
#include "stretto/dtype.h"
#include "stretto/task_kind.h"

namespace stretto::tasks {

// Of a region, what kernels ask besides where it lies.
struct InBuffer {
  DType dtype;
  bool is_whole_rows;  // all columns of its buffer
};

struct KernelOperands {
  KindOperands of;
  std::span<const InBuffer> reads, writes;
};

// The fields of the two halves that a mover's table has of a task.
struct RoutedFields {
  const KindOperands& of;
  std::span<const device::MoverType> types;  // of the reads
  device::ExpertShares shares;               // of the experts that the task counts
  int rank;
  float attribute;
  uint32_t rows_by_choice;  // where a permute hands over rows by choice
  device::MoverTask& task;
  device::RoutedTask& routed;
};

// Which regions hold what is moved, in vectors where all of them and the results allow it.
enum class RoutedMoves : uint8_t { nothing, one_source, all_sources };

struct RoutedKernel {
  device::RoutedKind kind;
  size_t source = 0;  // the first of the reads that rows are moved from
  RoutedMoves moves = RoutedMoves::nothing;
  bool stores_by_choice = false;  // where rows are handed over by choice, it stores them so
  // What distinguishes the kind's fields. Null: nothing does.
  void (*describe)(const RoutedFields& fields) = nullptr;
  // Why no mover does it, besides what none does of any kind. Null: nothing speaks against it.
  std::string (*why_not)(const KernelOperands& on) = nullptr;
  // Whether the kernel of passes does it too. Null: never.
  bool (*passes)(const KernelOperands& on) = nullptr;
};

inline uint32_t rows_of(const Region& region) { return static_cast<uint32_t>(region.rows()); }
inline uint32_t cols_of(const Region& region) { return static_cast<uint32_t>(region.cols()); }

// The experts that a rank has.
void describe_own_experts(const RoutedFields& fields, int rank);

// What a row has of terms is looked up by the lanes of a warp, in a pass.
inline constexpr int64_t kTermsOfPass = 32;

}  // namespace stretto::tasks
