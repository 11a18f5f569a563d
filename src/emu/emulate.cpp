#include "stretto/emulate.h"

#include <fmt/format.h>
#include <unistd.h>

#include "emu/execution.h"
#include "emu/reference_caller.h"
#include "emu/tensor_caller.h"
#include "op/call_rows.h"
#include "stretto/error.h"

namespace stretto {
namespace {

double memory_limit(const EmulateOptions& options) {
  if (options.max_bytes > 0) return static_cast<double>(options.max_bytes);
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page_bytes <= 0) return 4e9;
  return 0.75 * static_cast<double>(pages) * static_cast<double>(page_bytes);
}

void refuse_too_large(const Plan& plan, const EmulateOptions& options) {
  // Read outputs wait for the slowest rank: those of two runs at least, in any case of all.
  double outputs = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (const OperatorOutput& output : plan.op.outputs) {
      const Slice slice = slice_of(plan.op, output.tensor, output.held, rank);
      outputs += static_cast<double>(slice.rows()) * static_cast<double>(slice.cols()) *
                 static_cast<double>(num_bytes(plan.op.dtype)) * options.runs;
    }
  }
  double needed = emu::Memory::data_bytes(plan) + emu::Signals::bytes_needed(plan) + outputs +
                  static_cast<double>(emu::kMaxInFlightBytes);
  const double limit = memory_limit(options);
  if (needed <= limit) needed += emu::Memory::record_bytes(plan);
  if (needed <= limit) return;
  throw UsageError(fmt::format(
      "emulating this plan takes about {:.1f} GiB of memory, and the limit is {:.1f} GiB; smaller "
      "sizes or fewer ranks would fit",
      needed / (1 << 30), limit / (1 << 30)));
}

}  // namespace

EmulateResult emulate(const Plan& plan, const EmulateOptions& options) {
  if (options.runs < 1 || options.runs > kMaxRuns) {
    throw UsageError(fmt::format("expected 1 to {} runs, found {}", kMaxRuns, options.runs));
  }
  validate(plan);
  const bool is_special = options.fill == Fill::specials || options.fill == Fill::subnormals;
  // What follows a product has a reference of bounds, which say nothing of infinities.
  if (is_special && (plan.op.only_product() == nullptr || plan.op.stages.size() > 1)) {
    throw UsageError(
        fmt::format("fill {} is for operators of one product alone: take random or integers",
                    to_string(options.fill)));
  }
  if (options.routing.table) {
    const std::string why = why_not_routing_of(*options.routing.table, plan.op);
    if (!why.empty()) throw UsageError(why);
  }
  refuse_too_large(plan, options);
  return emu::Execution(plan, options,
                        [&](emu::Memory& memory, emu::Faults& faults) {
                          return std::make_unique<emu::ReferenceCaller>(plan, options, memory,
                                                                        faults);
                        })
      .run();
}

EmulateResult execute(const Plan& plan, std::span<const std::vector<CallTensor>> tensors,
                      const EmulateOptions& options) {
  EmulateOptions once = options;
  once.runs = 1;
  validate(plan);
  if (tensors.size() != static_cast<size_t>(plan.ranks())) {
    throw UsageError(fmt::format("tensors of {} ranks are given; the plan has {}", tensors.size(),
                                 plan.ranks()));
  }
  std::vector<std::vector<CallTensor>> resolved;
  std::vector<PlacedTensor> placed;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<CallTensor>& of_rank =
        resolved.emplace_back(resolve_call(plan.op, tensors[static_cast<size_t>(rank)]));
    const std::vector<CallerTensor> known = caller_tensors(plan.op);
    for (size_t i = 0; i < known.size(); ++i) {
      const Slice slice = slice_of(plan.op, known[i].tensor, known[i].held, rank);
      require_place(of_rank[i], slice.rows(), slice.cols());
      if (of_rank[i].row_stride == 0) of_rank[i].row_stride = slice.cols();
      const auto element = static_cast<uint64_t>(num_bytes(plan.op.tensor(known[i].tensor).dtype));
      placed.push_back({plan.op.tensor(known[i].tensor).name,
                        {of_rank[i].address, static_cast<uint64_t>(of_rank[i].row_stride) * element,
                         static_cast<uint64_t>(slice.cols()) * element, slice.rows()},
                        known[i].is_output,
                        rank});
    }
  }
  require_apart(placed);
  refuse_too_large(plan, once);
  return emu::Execution(plan, once,
                        [&](emu::Memory& memory, emu::Faults& faults) {
                          return std::make_unique<emu::TensorCaller>(plan, resolved, memory,
                                                                     faults);
                        })
      .run();
}

}  // namespace stretto
