// Arguments of the kernels that take tokens to experts and back.
#include <fmt/format.h>

#include "lang/argument_checks.h"
#include "lang/lang_arguments.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

using device::GpuBlock;

void check_shape(const char* kernel, const device::ExpertShape& shape, uint32_t tokens, int ranks) {
  if (const char* why = why_illegal(shape, static_cast<uint32_t>(ranks))) {
    throw UsageError(fmt::format("{}: {}", kernel, why));
  }
  if (tokens > shape.max_tokens) {
    throw UsageError(
        fmt::format("{}: {} tokens, but max_tokens is {}", kernel, tokens, shape.max_tokens));
  }
}

// What a call of dispatch or combine may have: where the device says how many, any number.
template <class Args>
uint64_t most_tokens(const Args& args) {
  return args.device_tokens != nullptr ? args.shape.max_tokens : args.tokens;
}
uint64_t words_if(const uint32_t* memory) { return memory != nullptr ? 4 : 0; }

}  // namespace

void check_arguments(const device::DispatchArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "dispatch";
  const auto num = static_cast<uint32_t>(call.ranks);
  const auto grid = static_cast<uint32_t>(call.blocks);
  const device::ExpertShape& shape = args.shape;
  check_shape(kName, shape, args.tokens, call.ranks);
  const uint64_t tokens = most_tokens(args);
  const uint64_t local = shape.experts / num;
  const uint64_t entries = uint64_t{num} * shape.max_tokens * shape.top_k;
  const uint64_t slots = uint64_t{2} * num * shape.max_tokens;
  const uint64_t rows = shape.max_rows;
  check_memory(kName,
               {{"device_tokens", args.device_tokens, words_if(args.device_tokens), 0, 4},
                {"input", args.input, tokens * shape.hidden * 2},
                {"ids", args.ids, tokens * shape.top_k * 4, 0, 4},
                {"weights", args.weights, tokens * shape.top_k * 4, 0, 4},
                symmetric({"slots", args.slots, slots * token_vectors(shape) * 16}),
                symmetric({"scale_slots", args.scale_slots, slots * token_scales(shape) * 4, 0, 4}),
                symmetric({"entry_slots", args.entry_slots, 2 * entries * 16}),
                symmetric({"counts", args.counts, count_words(shape, num) * 4, 0, 4}),
                symmetric({"parts", args.parts, 2 * device::part_records(num, grid) * 8, 0, 8}),
                symmetric({"signals", args.signals, device::expert_signals(num, grid) * 8, 0, 8}),
                {"token_slots", args.token_slots, slots / 2 * 4, 0, 4},
                {"received", args.received, uint64_t{num} * 4, 0, 4},
                {"part_list", args.part_list, device::part_records(num, grid) * 8, 0, 8},
                {"agreed", args.agreed, device::kSameWords * 4, 0, 4},
                {"entry_rows", args.entry_rows, entries * 4, 0, 4},
                {"entry_weights", args.entry_weights, entries * 4, 0, 4},
                {"expert_offsets", args.expert_offsets, (local + 1) * 4, 0, 4},
                {"expert_counts", args.expert_counts, local * 4, 0, 4},
                {"rows", args.rows, rows * token_vectors(shape) * 16},
                {"row_scales", args.row_scales, rows * token_scales(shape) * 4, 0, 4},
                {"problems", args.problems, device::kProblems * 4, 0, 4},
                {"calls", args.calls, uint64_t{grid} * 8, 0, 8}},
               call.heap);
}

void check_arguments(const device::CombineArgs<GpuBlock>& args, const LangCall& call) {
  constexpr const char* kName = "combine";
  const auto num = static_cast<uint32_t>(call.ranks);
  const auto grid = static_cast<uint32_t>(call.blocks);
  const device::ExpertShape& shape = args.shape;
  check_shape(kName, shape, args.tokens, call.ranks);
  const uint64_t token_bytes = uint64_t{shape.hidden} * 2;
  const uint64_t slots = uint64_t{num} * shape.max_tokens;
  check_memory(kName,
               {{"device_tokens", args.device_tokens, words_if(args.device_tokens), 0, 4},
                {"rows", args.rows, shape.max_rows * token_bytes},
                {"token_slots", args.token_slots, slots * 4, 0, 4},
                {"part_list", args.part_list, device::part_records(num, grid) * 8, 0, 8},
                {"agreed", args.agreed, device::kSameWords * 4, 0, 4},
                {"entry_rows", args.entry_rows, slots * shape.top_k * 4, 0, 4},
                {"entry_weights", args.entry_weights, slots * shape.top_k * 4, 0, 4},
                symmetric({"slots", args.slots, 2 * slots * token_bytes}),
                symmetric({"signals", args.signals, device::expert_signals(num, grid) * 8, 0, 8}),
                {"output", args.output, most_tokens(args) * token_bytes},
                {"calls", args.calls, uint64_t{grid} * 8, 0, 8}},
               call.heap);
}

}  // namespace stretto::cuda
