// Slots, greetings and counts of calls of each collective, in one symmetric heap a plan.
#include "streams/low_latency_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "core/compile_errors.h"
#include "streams/low_latency_heap.h"
#include "stretto/device/lang/edge_kernel.h"
#include "stretto/device/lang/kernels/round_trip_rows.h"
#include "stretto/device/lang/kernels/send_and_route.h"
#include "stretto/device/lang/kernels/sum_chosen_rows.h"
#include "stretto/error.h"

namespace stretto::runtime {
namespace {

using cuda::LowLatencyCall;
using device::GpuBlock;
using device::Vec16;

constexpr size_t kVectorBytes = sizeof(Vec16);
constexpr uint32_t kNegativeZeros = 0x80008000u;  // what slots hold until data has come

// SMs that a rank's blocks may take. Where ranks share a GPU those that are in a collective wait on
// theirs for one that still multiplies, and its clusters need SMs beside each other; and blocks
// with as many threads as there can be leave no room for another's on their SM.
int sms_of(const cuda::Device& device) {
  if (device.ranks() == 1) return device.num_sms();
  return std::max(1, device.num_sms() / std::max(2, device.ranks()));
}

uint64_t vectors(const LowLatencyCall& call, int64_t elements) {
  return static_cast<uint64_t>(elements * num_bytes(call.dtype)) / kVectorBytes;
}

template <class T>
T* pointer(cuda::DevicePtr address) {
  return reinterpret_cast<T*>(address);
}

// `met`: where blocks meet, and behind it what they read of each other.
device::RoutedTo<GpuBlock> routed_to(const LowLatencyCall::Routed& routed, int blocks,
                                     device::uint64* met) {
  auto* const counts = pointer<device::int32>(routed.counts);
  return {routed.first_expert,
          routed.experts,
          routed.entry_rows,
          routed.entries,
          pointer<device::int32>(routed.choices),
          pointer<device::int32>(routed.experts_of_entries),
          pointer<device::int32>(routed.rows),
          counts,
          counts + routed.experts,
          blocks,
          met,
          reinterpret_cast<device::int32*>(met + 1)};
}

}  // namespace

LowLatencyLane::LowLatencyLane(const Plan& plan, fabric::Fabric& fabric, KernelStore& kernels,
                               uint64_t timeout_ns)
    : fabric_(fabric) {
  const auto ranks = static_cast<size_t>(fabric.ranks());
  const cuda::Device& device = fabric.device(fabric.first_rank());
  const LowLatencyHeap heap = low_latency_heap(plan, fabric.first_rank(), sms_of(device));
  for (const LowLatencyHeap::Collective& one : heap.collectives) {
    Collective& made = collectives_[one.id];
    made.shape = one.shape;
    made.most = one.most;
    made.row_vectors = one.row_vectors;
    made.columns = one.columns;
  }
  group_ =
      std::make_unique<fabric::LangGroup>(fabric, heap.num_bytes, heap.most_blocks, timeout_ns);
  for (const LowLatencyHeap::Collective& one : heap.collectives) {
    if (one.kernel.empty()) continue;
    Collective& made = collectives_.at(one.id);
    made.is_own = true;
    made.sizes = one.sizes;
    made.signals =
        group_->allocate("signals of kernel " + one.kernel, one.signals * sizeof(uint64_t), 0);
  }
  for (auto& [id, made] : collectives_) {
    made.slots = group_->allocate("slots of a collective", made.shape.slot_vectors * kVectorBytes,
                                  kNegativeZeros);
    made.greetings =
        group_->allocate("greetings of a collective",
                         LowLatencyHeap::kGreetings * ranks * kVectorBytes, device::kNoGreeting);
  }
  fabric.group().together("making a plan's collectives", [&] {
    for (auto& [id, made] : collectives_) {
      for (int i = 0; i < fabric.num_local(); ++i) {
        const cuda::Device& own = fabric.device(fabric.first_rank() + i);
        own.make_current();
        made.state.emplace_back(made.state_words() * sizeof(uint64_t));
        made.kernels.push_back(&kernel_of(made, kernels, own));
      }
    }
    clear_states();
  });
}

// What is wrong with a kernel of the graph's is its author's to mend.
const cuda::LangKernel& LowLatencyLane::kernel_of(const Collective& made, KernelStore& kernels,
                                                  const cuda::Device& own) {
  const cuda::LowLatencyShape& of = made.shape;
  if (!made.is_own) return kernels.lang(own, of.kernel, of.threads, of.shared_bytes);
  try {
    return kernels.lang(own, of.kernel, of.threads, of.shared_bytes);
  } catch (const cuda::CompileError& error) {
    throw UsageError(fmt::format("{} does not compile for GPUs: {}", of.kernel.kernel,
                                 first_compile_error(error.log())));
  }
}

size_t LowLatencyLane::Collective::state_words() const {
  const auto blocks = static_cast<size_t>(shape.blocks);
  if (shape.route_blocks < 2) return blocks;
  const auto totals = static_cast<size_t>(shape.route_blocks) * static_cast<size_t>(columns);
  return blocks + 1 + (totals + 1) / 2;
}

void LowLatencyLane::clear_states() {
  for (auto& [id, made] : collectives_) {
    const std::vector<uint64_t> zeros(made.state_words());
    for (int i = 0; i < fabric_.num_local(); ++i) {
      fabric_.device(fabric_.first_rank() + i).make_current();
      made.state[static_cast<size_t>(i)].upload(zeros.data(), zeros.size() * sizeof(uint64_t));
    }
  }
}

device::RowTargets LowLatencyLane::targets(int32_t id, int rank, const LowLatencyCall& call) const {
  STRETTO_ASSERT(call.rows_at == 0, "a product sends as many rows as the host says");
  const Collective& made = collectives_.at(id);
  const device::GpuWorld& world = group_->world(rank);
  const uint64_t part_bytes = made.most * kVectorBytes;
  const auto* const own = group_->at<char>(rank, made.slots);
  const auto offset = static_cast<uint64_t>(own - world.heaps[rank]);
  device::RowTargets targets{};
  for (int to = 0; to < world.num_ranks; ++to) {
    targets.slots[to] = reinterpret_cast<uint64_t>(world.heaps[to]) + offset +
                        static_cast<uint64_t>(rank) * part_bytes;
  }
  targets.parity_bytes = static_cast<uint64_t>(world.num_ranks) * part_bytes;
  targets.state = made.state[static_cast<size_t>(rank - fabric_.first_rank())].as<device::uint64>();
  const bool has_owners = call.kind == CollectiveKind::reduce_scatter;
  targets.part_rows =
      has_owners ? static_cast<uint32_t>(vectors(call, call.part) / made.row_vectors) : 0;
  targets.row_vectors = static_cast<uint32_t>(made.row_vectors);
  return targets;
}

void LowLatencyLane::launch(int32_t id, int rank, const cuda::Stream& stream,
                            const LowLatencyCall& call, bool starts_early) {
  if (call.count == 0) return;
  const Collective& made = collectives_.at(id);
  const auto local = static_cast<size_t>(rank - fabric_.first_rank());
  const cuda::LangKernel& kernel = *made.kernels[local];
  const device::GpuWorld& world = group_->world(rank);
  Vec16* const slots = group_->at<Vec16>(rank, made.slots);
  Vec16* const greetings = group_->at<Vec16>(rank, made.greetings);
  auto* const state = made.state[local].as<device::uint64>();
  // Sizes and places were looked at when the plan was made. Nobody knows what a kernel of the
  // graph's does before it waits for its stream.
  starts_early = starts_early && !made.is_own;
  const auto launch_with = [&](const auto& args) {
    const device::LaunchParameters<std::decay_t<decltype(args)>> parameters{world, args};
    kernel.launch_parameters(stream, made.shape.blocks, made.shape.threads, world.max_blocks,
                             &parameters, starts_early);
  };
  const auto* const from = pointer<const Vec16>(call.from);
  auto* const to = pointer<Vec16>(call.to);
  const uint64_t count = vectors(call, call.count);
  device::RowsOfCall<GpuBlock> rows;
  if (call.rows_at != 0) {
    rows = {pointer<const device::int32>(call.rows_at),
            static_cast<device::int32>(call.count / call.row),
            static_cast<device::uint32>(vectors(call, call.row))};
  }
  if (made.is_own) {
    launch_with(device::EdgeArgs<GpuBlock>{from, to, static_cast<uint64_t>(made.sizes.part), count,
                                           slots, group_->at<device::uint64>(rank, made.signals),
                                           state});
  } else if (form_of(call.kind).goes_by_ids()) {
    const LowLatencyCall::Chosen& of = call.chosen;
    const device::ChosenArgs<GpuBlock> chosen{
        cuda::chosen_sizes_of(call),
        pointer<const device::int32>(of.has_wide_ids ? 0 : of.ids),
        pointer<const device::int64>(of.has_wide_ids ? of.ids : 0),
        pointer<const float>(of.weights),
        slots,
        greetings,
        state,
        pointer<device::uint64>(of.bad_ids)};
    const auto by_choice = static_cast<device::uint32>(of.by_choice);
    if (!form_of(call.kind).adds) {
      const device::SendChosenArgs<GpuBlock> sent{chosen,
                                                  from,
                                                  to,
                                                  by_choice,
                                                  pointer<device::int32>(of.all_ids),
                                                  pointer<float>(of.all_weights),
                                                  pointer<device::uint32>(of.counts)};
      if (call.routed.entry_rows == 0) {
        launch_with(sent);
      } else {
        launch_with(device::SendAndRouteArgs<GpuBlock>{
            sent, routed_to(call.routed, made.shape.route_blocks, state + made.shape.blocks)});
      }
    } else if (of.round_trip) {
      launch_with(device::RoundTripArgs<GpuBlock>{chosen, from, to});
    } else {
      launch_with(device::SumChosenArgs<GpuBlock>{
          chosen, from, by_choice, pointer<const device::int32>(of.row_of_choice), to,
          static_cast<device::uint32>(of.looks_early && made.shape.looks_early)});
    }
  } else if (call.kind == CollectiveKind::all_reduce_norm) {
    const uint64_t row = vectors(call, call.row_elements);
    const device::NormArgs<GpuBlock> norm{pointer<const Vec16>(call.weights), nullptr, call.eps};
    launch_with(device::AllReduceNormArgs<GpuBlock>{from, pointer<const Vec16>(call.residual), to,
                                                    pointer<Vec16>(call.normed), norm, count / row,
                                                    row, made.most / row, slots, greetings, state});
  } else if (call.kind == CollectiveKind::all_reduce) {
    launch_with(
        device::AllReduceArgs<GpuBlock>{from, to, count, made.most, slots, greetings, state, rows});
  } else {
    launch_with(device::PartsArgs<GpuBlock>{from, to, vectors(call, call.part), count, made.most,
                                            slots, greetings, state, rows});
  }
}

std::string LowLatencyLane::take_problem() {
  std::string problem = group_->take_problem();
  if (!problem.empty()) clear_states();
  return problem;
}

}  // namespace stretto::runtime
