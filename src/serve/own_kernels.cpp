// The public side of fabric::LangGroup and cuda::LangKernel.
#include <fmt/format.h>

#include <set>
#include <vector>

#include "core/compile_errors.h"
#include "core/file.h"
#include "fabric/lang_group.h"
#include "lang/lang_kernel.h"
#include "serve/context_state.h"
#include "stretto/error.h"
#include "stretto/kernels.h"

namespace stretto {

constexpr size_t kMostKernelBytes = size_t{1} << 20;

struct SymmetricHeap::State {
  State(Context::State& of, size_t num_bytes, int max_blocks, double timeout_s)
      : context(of),
        group(*of.fabric, num_bytes, max_blocks, static_cast<uint64_t>(timeout_s * 1e9)),
        used(static_cast<size_t>(of.fabric->num_local())) {}

  Context::State& context;
  fabric::LangGroup group;
  std::vector<std::set<cuda::StreamHandle>> used;  // by local rank: of the launches since finish()
};

SymmetricHeap::SymmetricHeap(Context& context, size_t num_bytes, int max_blocks, double timeout_s) {
  context.state_->require_own_process();
  if (max_blocks < 1 || max_blocks > (1 << 20)) {
    throw UsageError(
        fmt::format("kernels of up to {} blocks; 1 to {} are served", max_blocks, 1 << 20));
  }
  if (!(timeout_s > 0 && timeout_s <= 3600)) {
    throw UsageError(fmt::format("a timeout of {} s; it is more than 0, at most 3600", timeout_s));
  }
  state_ = std::make_unique<State>(*context.state_, num_bytes, max_blocks, timeout_s);
}

SymmetricHeap::~SymmetricHeap() {
  if (state_->context.is_forked()) {
    static_cast<void>(state_.release());
    return;
  }
  try {
    finish();
  } catch (const std::exception&) {
    // Nobody asks for the results any more.
  }
}

size_t SymmetricHeap::allocate(const std::string& name, size_t num_bytes, uint32_t fill) {
  state_->context.require_own_process();
  return state_->group.allocate(name, num_bytes, fill);
}
void SymmetricHeap::refill(size_t offset) {
  state_->context.require_own_process();
  state_->group.refill(offset);
}

GpuAddress SymmetricHeap::address(int rank, size_t offset) const {
  state_->context.local(rank);
  return reinterpret_cast<GpuAddress>(state_->group.at<char>(rank, offset));
}
const device::GpuWorld& SymmetricHeap::world(int rank) const {
  state_->context.local(rank);
  return state_->group.world(rank);
}

void SymmetricHeap::finish() {
  state_->context.require_own_process();
  fabric::Fabric& fabric = *state_->context.fabric;
  for (int i = 0; i < fabric.num_local(); ++i) {
    std::set<cuda::StreamHandle>& used = state_->used[static_cast<size_t>(i)];
    fabric.device(fabric.first_rank() + i).make_current();
    for (const cuda::StreamHandle stream : used) cuda::Stream(stream).synchronize();
    used.clear();
  }
  state_->group.check();
}

struct Kernel::State {
  explicit State(Context::State& of) : context(of) {}
  // Kernels end on the GPU that they were loaded on.
  ~State() {
    for (size_t i = 0; i < kernels.size(); ++i) {
      const fabric::Fabric& fabric = *context.fabric;
      cuda::driver().context_set(
          fabric.device(fabric.first_rank() + static_cast<int>(i)).context());
      kernels[i].reset();
    }
  }

  Context::State& context;
  std::vector<std::unique_ptr<cuda::LangKernel>> kernels;  // by local rank
};

Kernel::Kernel(SymmetricHeap& heap, const KernelText& text, int max_threads, int shared_bytes)
    : heap_(heap), state_(std::make_unique<State>(heap.state_->context)) {
  if (max_threads < 32 || max_threads > 1024 || max_threads % 32 != 0) {
    throw UsageError(
        fmt::format("a kernel for blocks of {} threads; a multiple of 32 from 32 to 1024 is needed",
                    max_threads));
  }
  const Context::State& context = state_->context;
  context.require_own_process();
  const cuda::LangKernelName name{"", text.kernel, text.args, text.source};
  for (int i = 0; i < context.fabric->num_local(); ++i) {
    const cuda::Device& device = context.fabric->device(context.fabric->first_rank() + i);
    device.make_current();
    if (shared_bytes < 0 || shared_bytes > device.max_shared_bytes()) {
      throw UsageError(fmt::format("{} bytes of shared memory: a block has 0 to {} on this GPU",
                                   shared_bytes, device.max_shared_bytes()));
    }
    try {
      state_->kernels.push_back(std::make_unique<cuda::LangKernel>(device, context.compiler, name,
                                                                   max_threads, shared_bytes));
    } catch (const cuda::CompileError& error) {
      throw UsageError(
          fmt::format("{} does not compile: {}", text.kernel, first_compile_error(error.log())));
    }
  }
}

Kernel::~Kernel() {
  if (state_->context.is_forked()) static_cast<void>(state_.release());
}

void Kernel::launch_with(int rank, GpuStream stream, int blocks, int threads,
                         const void* parameters) const {
  const Context::State& context = state_->context;
  const size_t local = context.local(rank);
  context.device(rank).make_current();
  const auto handle = static_cast<cuda::StreamHandle>(stream);
  state_->kernels[local]->launch_parameters(cuda::Stream(handle), blocks, threads,
                                            heap_.world(rank).max_blocks, parameters);
  heap_.state_->used[local].insert(handle);
}

std::string read_kernel(const std::string& path) { return read_file(path, kMostKernelBytes); }

}  // namespace stretto
