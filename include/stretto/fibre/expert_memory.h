// The memory that dispatch and combine of tokens to experts need on every rank, beside a call's own
// input and output: what ranks send each other, and what dispatch leaves for the experts and for
// combine. The same in every call. Sizes are for the grid of the world's shape.
#pragma once

#include "stretto/device/lang/kernels/combine.h"
#include "stretto/device/lang/kernels/dispatch.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

struct ExpertMemory {
  // Takes memory for a shape that why_illegal() accepts.
  ExpertMemory(World& world, const device::ExpertShape& of)
      : shape(of),
        ranks(static_cast<device::uint32>(world.shape().ranks)),
        blocks(static_cast<device::uint32>(world.shape().blocks)),
        sent(uint64_t{2} * ranks * of.max_tokens),
        slots(world.symmetric<device::Vec16>("slots", sent * token_vectors(of))),
        scale_slots(world.symmetric<float>("scale_slots", sent * token_scales(of) + 1)),
        entry_slots(world.symmetric<device::Vec16>("entry_slots", sent * of.top_k)),
        counts(world.symmetric<device::uint32>("counts", count_words(of, ranks))),
        parts(world.symmetric<device::uint64>("parts", 2 * device::part_records(ranks, blocks))),
        signals(
            world.symmetric<device::uint64>("signals", device::expert_signals(ranks, blocks), 0)),
        sum_slots(world.symmetric<device::Vec16>("sum_slots", sent * of.hidden / 8)),
        sum_signals(world.symmetric<device::uint64>("sum_signals",
                                                    device::expert_signals(ranks, blocks), 0)),
        token_slots(world.local<device::uint32>("token_slots", ranks * of.max_tokens)),
        part_list(world.local<device::uint64>("part_list", device::part_records(ranks, blocks))),
        agreed(world.local<device::uint32>("agreed", device::kSameWords)),
        entry_rows(world.local<device::uint32>("entry_rows", sent / 2 * of.top_k)),
        entry_weights(world.local<float>("entry_weights", sent / 2 * of.top_k)),
        received(world.local<device::uint32>("received", ranks)),
        expert_offsets(world.local<device::uint32>("expert_offsets", of.experts / ranks + 1)),
        expert_counts(world.local<device::uint32>("expert_counts", of.experts / ranks)),
        rows(world.local<device::Vec16>("rows", of.max_rows * token_vectors(of))),
        row_scales(world.local<float>("row_scales", of.max_rows * token_scales(of) + 1)),
        problems(world.local<device::uint32>("problems", device::kProblems, 0)),
        calls(world.local<device::uint64>("calls", blocks, 0)),
        sum_calls(world.local<device::uint64>("sum_calls", blocks, 0)) {}

  // Local memory has how many tokens, in one word; tokens x hidden in bf16; tokens x top_k.
  device::DispatchArgs<Block> dispatch_args(int rank, const Buffer<device::uint32>& tokens,
                                            const Buffer<device::Vec16>& input,
                                            const Buffer<device::int32>& ids,
                                            const Buffer<float>& weights) const {
    auto args = common_args<device::DispatchArgs<Block>>(rank, tokens);
    args.input = input.at(rank);
    args.ids = ids.at(rank);
    args.weights = weights.at(rank);
    args.slots = slots.at(rank);
    args.scale_slots = scale_slots.at(rank);
    args.entry_slots = entry_slots.at(rank);
    args.counts = counts.at(rank);
    args.parts = parts.at(rank);
    args.signals = signals.at(rank);
    args.received = received.at(rank);
    args.expert_offsets = expert_offsets.at(rank);
    args.expert_counts = expert_counts.at(rank);
    args.rows = rows.at(rank);
    args.row_scales = row_scales.at(rank);
    args.problems = problems.at(rank);
    args.calls = calls.at(rank);
    return args;
  }

  // `results`: what the experts make of `rows`, max_rows x hidden in bf16.
  device::CombineArgs<Block> combine_args(int rank, const Buffer<device::uint32>& tokens,
                                          const Buffer<device::Vec16>& results,
                                          const Buffer<device::Vec16>& output) const {
    auto args = common_args<device::CombineArgs<Block>>(rank, tokens);
    args.rows = results.at(rank);
    args.output = output.at(rank);
    args.slots = sum_slots.at(rank);
    args.signals = sum_signals.at(rank);
    args.calls = sum_calls.at(rank);
    return args;
  }

  device::ExpertShape shape;
  device::uint32 ranks, blocks;
  uint64_t sent;  // slots: for each token of each rank, two by call
  // What ranks send each other in dispatch, and in combine.
  Buffer<device::Vec16> slots;
  Buffer<float> scale_slots;
  Buffer<device::Vec16> entry_slots;
  Buffer<device::uint32> counts;
  Buffer<device::uint64> parts, signals;
  Buffer<device::Vec16> sum_slots;
  Buffer<device::uint64> sum_signals;
  // What dispatch leaves for combine.
  Buffer<device::uint32> token_slots;
  Buffer<device::uint64> part_list;
  Buffer<device::uint32> agreed;
  Buffer<device::uint32> entry_rows;
  Buffer<float> entry_weights;
  // What the experts receive.
  Buffer<device::uint32> received, expert_offsets, expert_counts;
  Buffer<device::Vec16> rows;
  Buffer<float> row_scales;
  Buffer<device::uint32> problems;
  Buffer<device::uint64> calls, sum_calls;

 private:
  // What combine takes from dispatch, and what both are told.
  template <class Args>
  Args common_args(int rank, const Buffer<device::uint32>& tokens) const {
    Args args{};
    args.shape = shape;
    args.device_tokens = tokens.at(rank);
    args.token_slots = token_slots.at(rank);
    args.part_list = part_list.at(rank);
    args.agreed = agreed.at(rank);
    args.entry_rows = entry_rows.at(rank);
    args.entry_weights = entry_weights.at(rank);
    return args;
  }
};

}  // namespace stretto::fibre
