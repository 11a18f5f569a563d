#include "fabric/communicators.h"

#include <fmt/format.h>

#include <cstring>

#include "fabric/background_steps.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

constexpr double kConnectTimeoutS = 90;
constexpr double kCloseTimeoutS = 10;
// For kernels to leave; and then for all that NCCL had, unless graphs still hold it.
constexpr double kAbortTimeoutS = 1, kLetGoTimeoutS = 5;

// NCCL's numbers. What is of 32 bits is moved as floats; nothing adds whole numbers.
int type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 9;
    case DType::fp16:
      return 6;
    case DType::fp32:
    case DType::i32:
      break;
    case DType::i64:
      return 4;
  }
  return 7;
}

void* pointer(cuda::DevicePtr address) { return reinterpret_cast<void*>(address); }

NcclId exchange_id(HostGroup& group) {
  NcclId id{};
  std::string mine;
  group.together("starting NCCL", [&] {
    nccl();
    if (group.rank() == 0) {
      check_nccl(nccl().unique_id(&id), "make an id");
      mine.assign(id.bytes, sizeof(id.bytes));
    }
  });
  const std::string of_root = group.all_gather("NCCL's id", mine)[0];
  STRETTO_ASSERT(of_root.size() == sizeof(id.bytes), "an id has a fixed size");
  std::memcpy(id.bytes, of_root.data(), sizeof(id.bytes));
  return id;
}

// Each with its GPU current.
std::shared_ptr<BackgroundSteps> start_on_every_rank(const LocalRanks& local,
                                                     const std::function<void(int)>& step) {
  std::vector<cuda::ContextHandle> contexts;
  for (int i = 0; i < local.count(); ++i) {
    contexts.push_back(local.devices[static_cast<size_t>(i)]->context());
  }
  return BackgroundSteps::start(local.count(), [contexts, step](int i) {
    cuda::check(cuda::driver().context_set(contexts[static_cast<size_t>(i)]), "select a GPU");
    step(i);
  });
}

}  // namespace

void on_every_rank(const LocalRanks& local, const char* what, double timeout_s,
                   const std::function<void(int)>& step) {
  const auto steps = start_on_every_rank(local, step);
  const bool done = steps->ended_within(timeout_s);
  steps->require_no_error();
  if (!done) throw SystemError(fmt::format("NCCL: {} did not end within {} s", what, timeout_s));
}

void as_one_operation(const std::function<void()>& calls) {
  check_nccl(nccl().group_start(), "begin an operation");
  try {
    calls();
  } catch (...) {
    nccl().group_end();  // else this thread's later calls would wait for it
    throw;
  }
  check_nccl(nccl().group_end(), "start an operation");
}

Communicators::Communicators(const LocalRanks& local, HostGroup& group, int max_blocks)
    : local_(local), max_blocks_(max_blocks) {
  if (const int shared = local.device(local.first).ranks(); shared > 1) {
    throw UsageError(fmt::format(
        "NCCL serves one rank a GPU, and here {} share one (STRETTO_RANKS_A_GPU)", shared));
  }
  connect(group);
}

void Communicators::connect(HostGroup& group) {
  const NcclId id = exchange_id(group);
  group.require_same("NCCL's version", nccl_version());
  const auto made = std::make_shared<std::vector<NcclComm>>(static_cast<size_t>(local_.count()));
  const int first = local_.first, ranks = local_.ranks, max_blocks = max_blocks_;
  group.together("connecting NCCL", [&] {
    on_every_rank(
        local_, "connecting", kConnectTimeoutS, [made, id, first, ranks, max_blocks](int i) {
          NcclConfig config;
          if (max_blocks > 0) config.max_blocks = max_blocks;
          check_nccl(
              nccl().init_rank(&(*made)[static_cast<size_t>(i)], ranks, id, first + i, &config),
              "connect");
        });
  });
  comms_ = *made;
  is_aborted_ = false;
}

void Communicators::abort() {
  if (is_aborted_) return;
  is_aborted_ = true;
  // First of all NCCL tells its kernels to leave. To free the rest it waits for the end of graphs
  // that were captured, for as long as there are any.
  giving_up_ = start_on_every_rank(
      local_, [comms = comms_](int i) { nccl().abort(comms[static_cast<size_t>(i)]); });
  giving_up_->ended_within(kAbortTimeoutS);
}

bool Communicators::renew(HostGroup& group) {
  const auto on_some = [&](const char* what, bool here) {
    bool found = false;
    for (const std::string& one : group.all_gather(what, here ? "yes" : "")) {
      found = found || !one.empty();
    }
    return found;
  };
  if (!on_some("whether NCCL was given up", is_aborted_)) return true;
  abort();
  // While NCCL frees memory, the driver may hold up whoever launches kernels until the GPU is idle:
  // for ever, where those that run wait for those that are not launched yet. So nothing is begun
  // before that is over.
  const bool is_held = !has_let_go();
  if (on_some("whether NCCL has let go", is_held)) return false;
  connect(group);
  ++generation_;
  return true;
}

bool Communicators::has_let_go() const {
  return giving_up_ == nullptr || giving_up_->ended_within(kLetGoTimeoutS);
}

Communicators::~Communicators() {
  if (is_aborted_) return;
  const std::vector<NcclComm> comms = comms_;
  try {
    on_every_rank(local_, "closing", kCloseTimeoutS,
                  [comms](int i) { nccl().destroy(comms[static_cast<size_t>(i)]); });
  } catch (const std::exception&) {
    // A peer is gone; the end of the process frees the rest.
  }
}

void Communicators::all_gather(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                               cuda::DevicePtr to, int64_t count_each, DType dtype) const {
  check_nccl(nccl().all_gather(pointer(from), pointer(to), static_cast<size_t>(count_each),
                               type_of(dtype), of(rank), stream.handle()),
             "all-gather");
}

void Communicators::reduce_scatter(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                                   cuda::DevicePtr to, int64_t count_each, DType dtype) const {
  check_nccl(nccl().reduce_scatter(pointer(from), pointer(to), static_cast<size_t>(count_each),
                                   type_of(dtype), kNcclSum, of(rank), stream.handle()),
             "reduce-scatter");
}

void Communicators::all_reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                               cuda::DevicePtr to, int64_t count, DType dtype) const {
  check_nccl(nccl().all_reduce(pointer(from), pointer(to), static_cast<size_t>(count),
                               type_of(dtype), kNcclSum, of(rank), stream.handle()),
             "all-reduce");
}

void Communicators::broadcast(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                              cuda::DevicePtr to, int64_t count, DType dtype, int root) const {
  check_nccl(nccl().broadcast(pointer(from), pointer(to), static_cast<size_t>(count),
                              type_of(dtype), root, of(rank), stream.handle()),
             "broadcast");
}

void Communicators::reduce(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                           cuda::DevicePtr to, int64_t count, DType dtype, int root) const {
  check_nccl(nccl().reduce(pointer(from), pointer(to), static_cast<size_t>(count), type_of(dtype),
                           kNcclSum, root, of(rank), stream.handle()),
             "reduce");
}

void Communicators::send(int rank, const cuda::Stream& stream, cuda::DevicePtr from, int64_t count,
                         DType dtype, int to) const {
  check_nccl(nccl().send(pointer(from), static_cast<size_t>(count), type_of(dtype), to, of(rank),
                         stream.handle()),
             "send");
}

void Communicators::receive(int rank, const cuda::Stream& stream, cuda::DevicePtr to, int64_t count,
                            DType dtype, int from) const {
  check_nccl(nccl().receive(pointer(to), static_cast<size_t>(count), type_of(dtype), from, of(rank),
                            stream.handle()),
             "receive");
}

void Communicators::all_to_all(int rank, const cuda::Stream& stream, cuda::DevicePtr from,
                               std::span<const int64_t> sent, cuda::DevicePtr to,
                               std::span<const int64_t> received, DType dtype) const {
  const auto bytes_of = [&](int64_t count) {
    return static_cast<cuda::DevicePtr>(count * num_bytes(dtype));
  };
  as_one_operation([&] {
    for (int peer = 0; peer < local_.ranks; ++peer) {
      const int64_t out = sent[static_cast<size_t>(peer)], in = received[static_cast<size_t>(peer)];
      if (out > 0) send(rank, stream, from, out, dtype, peer);
      if (in > 0) receive(rank, stream, to, in, dtype, peer);
      from += bytes_of(out);
      to += bytes_of(in);
    }
  });
}

}  // namespace stretto::fabric
