#include "emu/edge_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/text.h"
#include "stretto/error.h"
#include "stretto/fibre/edge_kernels.h"
#include "stretto/fibre/world.h"

namespace stretto::emu {
namespace {

using device::Vec16;
using Vectors = fibre::Buffer<Vec16>;
constexpr size_t kVectorBytes = sizeof(Vec16);

// Several times what a kernel takes that reads each vector of each rank, which has all of them.
constexpr uint64_t kStepsOfAVector = 4;
constexpr Vec16 kBehind = {0x5ead5eadu, 0x5ead5eadu, 0x5ead5eadu, 0x5ead5eadu};

bool is_behind(const Vec16& value) { return std::memcmp(&value, &kBehind, kVectorBytes) == 0; }

// What slots hold at first: negative zeros.
uint32_t poison_of(DType dtype) {
  return dtype == DType::fp32 ? device::Fp32x4::kPoison : device::Bf16x8::kPoison;
}

int64_t vectors_of(const Plan& plan, std::span<const Region> regions) {
  int64_t bytes = 0;
  for (const Region& region : regions) {
    bytes += region.elements() * num_bytes(plan.buffers[region.buffer].dtype);
  }
  return bytes / static_cast<int64_t>(kVectorBytes);
}

const Instr& part_of(const Plan& plan, const Instr& instr, int rank) {
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank) continue;
    for (const Instr& own : lane.instrs) {
      if (own.op == Opcode::collective && own.id == instr.id) return own;
    }
  }
  STRETTO_ASSERT(false, "every rank joins a collective");
}

// The finding's text in one line.
std::string said(const fibre::Finding& finding) {
  std::string text;
  for (const std::string_view line : split(finding.message, '\n')) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos) continue;
    if (!text.empty()) text += "; ";
    text += line.substr(begin);
  }
  return text;
}

}  // namespace

EdgeCalls::EdgeCalls(const Plan& plan, uint64_t seed) : plan_(plan), seed_(seed) {
  if (!any_kernel_calls(plan)) return;
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      if (instr.kernel() == 0) continue;
      const EdgeKernel& kernel = plan.op.kernels[instr.kernel() - 1];
      if (fibre::find_edge_kernel(kernel.name) != nullptr) continue;
      throw UsageError(fmt::format(
          "the plan calls kernel {} of {}, which is not there to be executed: a program says "
          "STRETTO_EDGE_KERNEL({}) beside the header, and the command takes it with --kernels",
          kernel.name, quote(kernel.header), kernel.name));
    }
  }
}

std::vector<EdgeCalls::Bytes> EdgeCalls::make(const Instr& instr, std::vector<Bytes> inputs,
                                              std::string& finding) {
  const EdgeKernel& kernel = plan_.op.kernels[instr.kernel() - 1];
  const fibre::EdgeKernelFunction function = fibre::find_edge_kernel(kernel.name);
  const KernelCallSizes sizes = kernel_call_sizes(plan_, instr);
  const DType dtype = plan_.buffers[plan_.reads(instr).front().buffer].dtype;
  const auto ranks = static_cast<size_t>(plan_.ranks());
  Calls& calls = by_id_[instr.id];
  if (calls.inputs.size() == kMostAtOnce) {
    calls.before += calls.inputs.size();
    calls.inputs.clear();
  }
  calls.inputs.push_back(std::move(inputs));

  const int blocks = std::min(kernel.blocks, kMostBlocks);
  const uint64_t salt =
      static_cast<uint64_t>(instr.id) << 32 | (calls.before + calls.inputs.size());
  fibre::World world(
      {.ranks = plan_.ranks(), .blocks = blocks, .threads = kThreads, .warp_size = kWarp},
      fibre::Schedule::from_seed(seed_ * 0x9e3779b97f4a7c15u ^ salt));
  world.allow_steps(kStepsOfAVector * static_cast<uint64_t>(sizes.count) * ranks * (ranks + 8) *
                    calls.inputs.size());
  const uint32_t poison = poison_of(dtype);
  const auto slots = world.symmetric<Vec16>(
      "slots", static_cast<size_t>(std::max<int64_t>(1, kernel.slots * sizes.part)),
      {poison, poison, poison, poison});
  const auto signals = world.symmetric<device::uint64>(
      "signals", static_cast<size_t>(std::max<int64_t>(1, kernel.signals)), 0);
  const auto state = world.local<device::uint64>("state", static_cast<size_t>(blocks), 0);
  std::vector<int64_t> written(ranks);
  int64_t most_read = 1, most_written = 1;
  for (size_t r = 0; r < ranks; ++r) {
    const Instr& own = part_of(plan_, instr, static_cast<int>(r));
    written[r] = vectors_of(plan_, plan_.writes(own));
    most_written = std::max(most_written, written[r]);
    most_read = std::max(most_read, vectors_of(plan_, plan_.reads(own)));
  }
  std::vector<Vectors> outputs;
  for (size_t call = 0; call < calls.inputs.size(); ++call) {
    const std::string of = calls.inputs.size() == 1 ? "" : fmt::format(" of call {}", call);
    Vectors input = world.local<Vec16>("input" + of, static_cast<size_t>(most_read));
    const Vectors& output =
        outputs.emplace_back(world.local<Vec16>("output" + of, static_cast<size_t>(most_written)));
    for (size_t r = 0; r < ranks; ++r) {
      const Bytes& bytes = calls.inputs[call][r];
      for (size_t i = 0; i < bytes.size() / kVectorBytes; ++i) {
        Vec16 value;
        std::memcpy(&value, bytes.data() + i * kVectorBytes, kVectorBytes);
        input.set(static_cast<int>(r), i, value);
      }
    }
    // What lies behind a shorter output is nobody's to write.
    for (size_t r = 0; r < ranks; ++r) {
      for (auto i = static_cast<size_t>(written[r]); i < output.size(); ++i) {
        outputs.back().set(static_cast<int>(r), i, kBehind);
      }
    }
    world.launch([=](fibre::Block& block) {
      const int r = block.rank();
      const device::EdgeArgs<fibre::Block> args{input.at(r),
                                                output.at(r),
                                                static_cast<device::uint64>(sizes.part),
                                                static_cast<device::uint64>(sizes.count),
                                                slots.at(r),
                                                signals.at(r),
                                                state.at(r)};
      function(block, args, dtype);
    });
  }
  std::vector<Bytes> results(ranks);
  if (world.run()) {
    for (size_t r = 0; r < ranks; ++r) {
      results[r].resize(static_cast<size_t>(written[r]) * kVectorBytes);
      for (size_t i = 0; i < static_cast<size_t>(written[r]); ++i) {
        const Vec16 value = outputs.back().get(static_cast<int>(r), i);
        std::memcpy(results[r].data() + i * kVectorBytes, &value, kVectorBytes);
      }
      for (auto i = static_cast<size_t>(written[r]); i < outputs.back().size(); ++i) {
        world.expect(
            is_behind(outputs.back().get(static_cast<int>(r), i)),
            fmt::format("rank {} writes behind the {} vectors of its output", r, written[r]));
      }
    }
  }
  if (!world.finding()) return results;
  finding = said(*world.finding());
  return {};
}

}  // namespace stretto::emu
