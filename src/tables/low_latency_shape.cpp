#include "tables/low_latency_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/few_rows_kernel.h"
#include "launch/sent_products.h"
#include "schedule/low_latency.h"
#include "stretto/device/lang/kernels/all_reduce_norm_args.h"
#include "stretto/device/lang/kernels/send_and_route.h"
#include "stretto/device/lang/kernels/sum_many_rows.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

// Blocks that were best of few bytes and of many, on 2 H200s. Few are not slower with more blocks
// than they have vectors for: the one that greets has none.
constexpr int kBlocks = 64, kBlocksOfMany = 128;
constexpr int64_t kMany = 512 * 1024;  // of a rank's part
// As many as have registers for what a thread keeps.
constexpr int kChosenThreads = 512, kChosenInFlight = 2;
constexpr int kSumThreads = 768;  // of many rows, but for those of two terms
constexpr int kWarpLanes = 32;
static_assert(kChosenThreads == device::kJoinedThreads);

bool is_one_shot(const LowLatencyCall& call, int ranks) {
  const bool normed = call.kind == CollectiveKind::all_reduce_norm;
  const CollectiveForm form = form_of(call.kind);
  return form.groups_reads || form.groups_writes ||
         call.count * num_bytes(call.dtype) * (ranks - 1) <= most_of_one_shot(ranks, normed);
}

// A block norms whole rows: a thread for each vector of a row, or for as many in each of its turns.
int threads_of_norm(int64_t row_vectors) {
  constexpr int64_t kMost = 1024, kWarp = 32;
  const int64_t turns = (row_vectors + kMost - 1) / kMost;
  const int64_t each = ((row_vectors + turns - 1) / turns + kWarp - 1) / kWarp * kWarp;
  return static_cast<int>(std::max<int64_t>(kLowLatencyThreads, each));
}

}  // namespace

device::ChosenSizes chosen_sizes_of(const LowLatencyCall& call) {
  const LowLatencyCall::Chosen& of = call.chosen;
  return {of.tokens,
          of.block_tokens,
          of.top_k,
          of.experts,
          static_cast<uint32_t>(vectors_of(call, call.row_elements)),
          of.notes_ids ? 1u : 0u,
          of.notes_weights ? 1u : 0u,
          of.round_trip ? 1u : 0u,
          of.of_all_experts ? 1u : 0u};
}

device::FewRowsConfig few_rows_config(const Plan& plan, const Product& product) {
  return fitted(few_rows_shape(plan, product), plan.sms);
}

LangKernelName copy_rows_kernel() {
  return {"kernels/copy_rows.h", "copy_rows<GpuBlock>", "CopyRowsArgs<GpuBlock>"};
}

namespace {

// Of a token's choices as many as a rank has in the mean, rounded up.
int terms_at_once(const LowLatencyCall& call, int ranks) {
  const int choices = static_cast<int>(call.chosen.top_k);
  const int here = call.chosen.of_all_experts ? choices : (choices + ranks - 1) / ranks;
  return here <= 2 ? 2 : here <= 4 ? 4 : 8;
}

// A thread has one vector in flight where that is enough for all: most of a call is the way of one.
LowLatencyShape chosen_shape(const LowLatencyCall& call, int ranks, int sms) {
  const char* const format = call.dtype == DType::bf16 ? "Bf16x8" : "Fp16x8";
  LowLatencyShape shape;
  shape.threads = kChosenThreads;
  shape.blocks = std::min(kBlocksOfMany, sms);
  shape.slot_vectors = chosen_sizes_of(call).slot_vectors(static_cast<uint64_t>(ranks));
  const bool one_each = vectors_of(call, call.part) <= (shape.blocks - 1) * shape.threads;
  if (form_of(call.kind).adds && !call.chosen.round_trip) {
    const bool has_room = ranks * int64_t{call.chosen.top_k} <= device::NamedTerms::kMost;
    const char* const args = "SumChosenArgs<GpuBlock>";
    if (one_each || !has_room) {
      shape.kernel = {"kernels/sum_chosen_rows.h",
                      fmt::format("sum_chosen_rows<{}, GpuBlock>", format), args};
      shape.kernel.waits_itself = shape.looks_early = true;
      return shape;
    }
    const int terms = terms_at_once(call, ranks);
    shape.kernel = {"kernels/sum_many_rows.h",
                    fmt::format("sum_many_rows<{}, {}, GpuBlock>", format, terms), args};
    shape.threads = terms == 2 ? kChosenThreads : kSumThreads;
    shape.blocks = sms;
    shape.shared_bytes = device::NamedTerms::kBytes;
    return shape;
  }
  const bool routes = call.routed.entry_rows != 0;
  const char* const name = call.chosen.round_trip ? "round_trip_rows"
                           : routes               ? "send_and_route"
                                                  : "send_chosen_rows";
  shape.kernel = {fmt::format("kernels/{}.h", name),
                  fmt::format("{}<{}, GpuBlock, {}>", name, format, one_each ? 1 : kChosenInFlight),
                  fmt::format("{}Args<GpuBlock>", call.chosen.round_trip ? "RoundTrip"
                                                  : routes               ? "SendAndRoute"
                                                                         : "SendChosen")};
  if (routes) {
    const auto choices = static_cast<int32_t>(call.chosen.tokens * call.chosen.top_k);
    shape.route_blocks = device::joined_partition_blocks(choices, shape.blocks);
    shape.shared_bytes = static_cast<int>(device::route_shared_bytes(
        choices, call.routed.experts, shape.route_blocks, shape.threads, kWarpLanes));
  }
  return shape;
}

LowLatencyShape shape_of(const LowLatencyCall& call, int ranks, int sms, bool one_shot,
                         const char* sent_by) {
  const auto num = static_cast<size_t>(ranks);
  const auto part = static_cast<size_t>(vectors_of(call, call.part));
  const char* const format = call.dtype == DType::bf16 ? "Bf16x8" : "Fp16x8";
  const int in_flight = ranks <= 4 ? 4 : 8;
  const auto name = [&](const char* header, const char* kernel, const char* args) {
    return LangKernelName{fmt::format("kernels/{}.h", header),
                          fmt::format("{}<{}, GpuBlock, {}{}>", kernel, format, in_flight, sent_by),
                          fmt::format("{}<GpuBlock>", args)};
  };
  LowLatencyShape shape;
  switch (call.kind) {
    case CollectiveKind::all_gather:
      shape.kernel = name("gather_scatter", "all_gather_one_shot", "PartsArgs");
      break;
    case CollectiveKind::reduce_scatter:
      shape.kernel = name("gather_scatter", "reduce_scatter_one_shot", "PartsArgs");
      break;
    case CollectiveKind::all_reduce:
      shape.kernel = name("all_reduce", one_shot ? "all_reduce_one_shot" : "all_reduce_two_shot",
                          "AllReduceArgs");
      break;
    case CollectiveKind::all_to_all:
      STRETTO_ASSERT(false, "all-to-alls are NCCL's");
    case CollectiveKind::dispatch:
    case CollectiveKind::combine:
    case CollectiveKind::dispatch_all:
    case CollectiveKind::combine_all:
      STRETTO_ASSERT(false, "those have a shape of their own");
    case CollectiveKind::all_reduce_norm: {
      shape.threads = threads_of_norm(vectors_of(call, call.row_elements));
      const int loads = device::norm_in_flight(ranks, shape.threads, true);
      shape.kernel = {"kernels/all_reduce_norm.h",
                      fmt::format("all_reduce_norm_{}<GpuBlock, {}{}>",
                                  one_shot ? "one_shot" : "two_shot", loads, sent_by),
                      "AllReduceNormArgs<GpuBlock>"};
      break;
    }
  }
  const bool many = call.part * num_bytes(call.dtype) >= kMany;
  shape.blocks = one_shot && !many ? kBlocks : kBlocksOfMany;
  shape.blocks = std::min(shape.blocks, sms);
  // Owners of parts of an all-reduce have whole rows of it where those are normed.
  const auto row = static_cast<size_t>(std::max<int64_t>(1, vectors_of(call, call.row_elements)));
  const size_t slices = (part / row + num - 1) / num * row;
  shape.slot_vectors = one_shot ? 2 * num * part : 4 * num * slices;
  return shape;
}

}  // namespace

LowLatencyShape low_latency_shape(const LowLatencyCall& call, int ranks, int sms) {
  if (form_of(call.kind).goes_by_ids()) return chosen_shape(call, ranks, sms);
  return shape_of(call, ranks, sms, is_one_shot(call, ranks), "");
}

LowLatencyShape receiving_shape(const LowLatencyCall& call, int ranks, int sms) {
  STRETTO_ASSERT(call.kind != CollectiveKind::all_gather, "what is sent is added up");
  LowLatencyShape shape = shape_of(call, ranks, sms, true, ", SentBy::kBefore");
  shape.kernel.waits_itself = true;
  return shape;
}

}  // namespace stretto::cuda
