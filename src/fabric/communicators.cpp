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

// Of every team, one behind the other, made where its first rank is.
std::vector<NcclId> exchange_ids(const LocalRanks& local, int ranks_each, HostGroup& group) {
  std::string mine;
  group.together("starting NCCL", [&] {
    nccl();
    for (int rank = local.first; rank < local.first + local.count(); ++rank) {
      if (rank % ranks_each != 0) continue;
      NcclId id{};
      check_nccl(nccl().unique_id(&id), "make an id");
      mine.append(id.bytes, sizeof(id.bytes));
    }
  });
  std::string all;
  for (const std::string& bytes : group.all_gather("NCCL's id", mine)) all += bytes;
  std::vector<NcclId> ids(static_cast<size_t>(local.ranks / ranks_each));
  STRETTO_ASSERT(all.size() == ids.size() * sizeof(NcclId::bytes), "an id has a fixed size");
  for (size_t i = 0; i < ids.size(); ++i) {
    std::memcpy(ids[i].bytes, all.data() + i * sizeof(NcclId::bytes), sizeof(NcclId::bytes));
  }
  return ids;
}

// step(i) for `rounds` times all local ranks, in turn, each with its GPU current.
std::shared_ptr<BackgroundSteps> start_on_every_rank(const LocalRanks& local, size_t rounds,
                                                     const std::function<void(int)>& step) {
  std::vector<cuda::ContextHandle> contexts;
  for (int i = 0; i < local.count(); ++i) {
    contexts.push_back(local.devices[static_cast<size_t>(i)]->context());
  }
  const int count = local.count() * static_cast<int>(rounds);
  return BackgroundSteps::start(count, [contexts, step](int i) {
    const cuda::ContextHandle context = contexts[static_cast<size_t>(i) % contexts.size()];
    cuda::check(cuda::driver().context_set(context), "select a GPU");
    step(i);
  });
}

}  // namespace

void on_every_rank(const LocalRanks& local, const char* what, double timeout_s,
                   const std::function<void(int)>& step) {
  const auto steps = start_on_every_rank(local, 1, step);
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
  connect(0, group);
}

void Communicators::connect_teams(int ranks, HostGroup& group) {
  if (comms_.count(ranks) == 0) connect(ranks, group);
}

void Communicators::connect(int team, HostGroup& group) {
  const int ranks = team == 0 ? local_.ranks : team;
  const std::vector<NcclId> ids = exchange_ids(local_, ranks, group);
  group.require_same("NCCL's version", nccl_version());
  const auto made = std::make_shared<std::vector<NcclComm>>(static_cast<size_t>(local_.count()));
  const int first = local_.first, max_blocks = max_blocks_;
  group.together("connecting NCCL", [&] {
    on_every_rank(
        local_, "connecting", kConnectTimeoutS, [made, ids, first, ranks, max_blocks](int i) {
          NcclConfig config;
          if (max_blocks > 0) config.max_blocks = max_blocks;
          const int rank = first + i;
          check_nccl(
              nccl().init_rank(&(*made)[static_cast<size_t>(i)], ranks,
                               ids[static_cast<size_t>(rank / ranks)], rank % ranks, &config),
              "connect");
        });
  });
  comms_[team] = *made;
}

// On all communicators of this process at once: one that is held up holds up no other.
std::shared_ptr<BackgroundSteps> Communicators::start_for_each(void (*step)(NcclComm)) const {
  std::vector<NcclComm> all;
  for (const auto& [team, comms] : comms_) all.insert(all.end(), comms.begin(), comms.end());
  return start_on_every_rank(local_, comms_.size(),
                             [all, step](int i) { step(all[static_cast<size_t>(i)]); });
}

void Communicators::abort() {
  if (is_aborted_) return;
  is_aborted_ = true;
  // First of all NCCL tells its kernels to leave. To free the rest it waits for the end of graphs
  // that were captured, for as long as there are any.
  giving_up_ = start_for_each([](NcclComm comm) { nccl().abort(comm); });
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
  for (const auto& [team, comms] : comms_) connect(team, group);
  is_aborted_ = false;
  ++generation_;
  return true;
}

bool Communicators::has_let_go() const {
  return giving_up_ == nullptr || giving_up_->ended_within(kLetGoTimeoutS);
}

Communicators::~Communicators() {
  if (is_aborted_) return;
  try {
    start_for_each([](NcclComm comm) { nccl().destroy(comm); })->ended_within(kCloseTimeoutS);
  } catch (const std::exception&) {
    // A peer is gone; the end of the process frees the rest.
  }
}

void Communicators::all_gather(const Caller& caller, const cuda::Stream& stream,
                               cuda::DevicePtr from, cuda::DevicePtr to, int64_t count_each,
                               DType dtype) const {
  check_nccl(nccl().all_gather(pointer(from), pointer(to), static_cast<size_t>(count_each),
                               type_of(dtype), of(caller), stream.handle()),
             "all-gather");
}

void Communicators::reduce_scatter(const Caller& caller, const cuda::Stream& stream,
                                   cuda::DevicePtr from, cuda::DevicePtr to, int64_t count_each,
                                   DType dtype) const {
  check_nccl(nccl().reduce_scatter(pointer(from), pointer(to), static_cast<size_t>(count_each),
                                   type_of(dtype), kNcclSum, of(caller), stream.handle()),
             "reduce-scatter");
}

void Communicators::all_reduce(const Caller& caller, const cuda::Stream& stream,
                               cuda::DevicePtr from, cuda::DevicePtr to, int64_t count,
                               DType dtype) const {
  check_nccl(nccl().all_reduce(pointer(from), pointer(to), static_cast<size_t>(count),
                               type_of(dtype), kNcclSum, of(caller), stream.handle()),
             "all-reduce");
}

void Communicators::broadcast(const Caller& caller, const cuda::Stream& stream,
                              cuda::DevicePtr from, cuda::DevicePtr to, int64_t count, DType dtype,
                              int root) const {
  check_nccl(nccl().broadcast(pointer(from), pointer(to), static_cast<size_t>(count),
                              type_of(dtype), root, of(caller), stream.handle()),
             "broadcast");
}

void Communicators::reduce(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                           cuda::DevicePtr to, int64_t count, DType dtype, int root) const {
  check_nccl(nccl().reduce(pointer(from), pointer(to), static_cast<size_t>(count), type_of(dtype),
                           kNcclSum, root, of(caller), stream.handle()),
             "reduce");
}

void Communicators::send(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr from,
                         int64_t count, DType dtype, int to) const {
  check_nccl(nccl().send(pointer(from), static_cast<size_t>(count), type_of(dtype), to, of(caller),
                         stream.handle()),
             "send");
}

void Communicators::receive(const Caller& caller, const cuda::Stream& stream, cuda::DevicePtr to,
                            int64_t count, DType dtype, int from) const {
  check_nccl(nccl().receive(pointer(to), static_cast<size_t>(count), type_of(dtype), from,
                            of(caller), stream.handle()),
             "receive");
}

void Communicators::all_to_all(const Caller& caller, const cuda::Stream& stream,
                               cuda::DevicePtr from, std::span<const int64_t> sent,
                               cuda::DevicePtr to, std::span<const int64_t> received,
                               DType dtype) const {
  const auto bytes_of = [&](int64_t count) {
    return static_cast<cuda::DevicePtr>(count * num_bytes(dtype));
  };
  as_one_operation([&] {
    for (int peer = 0; peer < static_cast<int>(sent.size()); ++peer) {
      const int64_t out = sent[static_cast<size_t>(peer)], in = received[static_cast<size_t>(peer)];
      if (out > 0) send(caller, stream, from, out, dtype, peer);
      if (in > 0) receive(caller, stream, to, in, dtype, peer);
      from += bytes_of(out);
      to += bytes_of(in);
    }
  });
}

}  // namespace stretto::fabric
