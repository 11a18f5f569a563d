#include "fabric/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "gpu/shared_gpus.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

struct SourceName {
  Source source;
  std::string_view name;
};
constexpr SourceName kSources[] = {
    {Source::peer, "peer"}, {Source::windows, "windows"}, {Source::exported, "exported"}};

// One process may have its ranks share GPUs.
std::string way_out(size_t ranks, size_t gpus) {
  const size_t each = gpus == 0 ? 0 : (ranks + gpus - 1) / gpus;
  if (ranks == 1 || each < 2 || each > cuda::kMostRanksAGpu) return "";
  return fmt::format("; STRETTO_RANKS_A_GPU={} lets ranks share them", each);
}

}  // namespace

std::string_view name_of(Source source) {
  for (const SourceName& row : kSources) {
    if (row.source == source) return row.name;
  }
  STRETTO_ASSERT(false, "every source has a name");
}

Source source_from(std::string_view name) {
  std::vector<std::string_view> known;
  for (const SourceName& row : kSources) {
    if (row.name == name) return row.source;
    known.push_back(row.name);
  }
  throw UsageError(unknown_word("source of symmetric memory", name, known));
}

Region& Region::operator=(Region&& other) noexcept {
  if (this == &other) return *this;
  release();
  name_ = std::move(other.name_);
  num_bytes_ = other.num_bytes_;
  local_ = other.local_;
  allocation_ = std::move(other.allocation_);
  tables_ = std::move(other.tables_);
  return *this;
}

Region::~Region() { release(); }

void Region::release() {
  for (size_t i = 0; i < tables_.size(); ++i) {
    cuda::driver().context_set(local_.devices[i]->context());
    tables_[i] = {};
  }
  tables_.clear();
  allocation_.reset();
}

Fabric::Fabric(std::unique_ptr<HostGroup> group, const std::vector<int>& gpus, Source source,
               int free_sms)
    : group_(std::move(group)), source_(source) {
  const int per_process = static_cast<int>(gpus.size());
  group_->require_same(
      "the set-up", fmt::format("{} GPUs a process, {} memory{}", per_process, name_of(source),
                                free_sms == 0 ? "" : fmt::format(", {} SMs left free", free_sms)));
  group_->together("opening the GPUs", [&] { open_devices(gpus, free_sms); });
  require_memory_of_sharers();
  local_ = {group_->rank() * per_process, group_->size() * per_process, devices_};
  require_equal_gpus();
  switch (source) {
    case Source::peer:
      memory_ = peer_memory(local_);
      break;
    case Source::windows:
      require_windows(*group_);
      of_windows_ = std::make_unique<Communicators>(local_, *group_);
      memory_ = nccl_windows(local_, *group_, *of_windows_);
      break;
    case Source::exported:
      memory_ = exported_memory(local_, *group_);
      break;
  }
}

// NCCL's orderly end may wait for its peers, longer than a launcher waits for who has lost one, and
// what this process has to say of that comes after. So it is not for who did not meet them all.
Fabric::~Fabric() {
  if (!group_->has_failed()) return;
  try {
    if (of_windows_) of_windows_->abort();
    for (auto& [bound, communicators] : communicators_) communicators->abort();
  } catch (const std::exception&) {
    // The end of the process frees the rest.
  }
}

void Fabric::open_devices(const std::vector<int>& gpus, int free_sms) {
  cuda::driver();
  STRETTO_ASSERT(!gpus.empty(), "a process has a rank");
  const int needed = *std::max_element(gpus.begin(), gpus.end()) + 1;
  if (cuda::num_devices() < needed) {
    throw SystemError(fmt::format("too few GPUs: {} needed, this machine has {}{}", needed,
                                  cuda::num_devices(),
                                  way_out(gpus.size(), static_cast<size_t>(cuda::num_devices()))));
  }
  std::ptrdiff_t most = 1;
  for (const int gpu : gpus) most = std::max(most, std::count(gpus.begin(), gpus.end(), gpu));
  if (most > cuda::ranks_a_gpu()) {
    throw SystemError(
        fmt::format("{} ranks have the same GPU; each needs its own, or "
                    "STRETTO_RANKS_A_GPU={}",
                    most, most));
  }
  // The driver gives processes on one GPU turns of a few milliseconds each, so that kernels which
  // wait for another process's end, though late.
  if (group_->size() > 1) most = std::max<std::ptrdiff_t>(most, cuda::ranks_a_gpu());
  for (const int gpu : gpus) {
    devices_.push_back(std::make_unique<cuda::Device>(gpu, static_cast<int>(most), free_sms));
  }
}

void Fabric::require_memory_of_sharers() const {
  if (ranks_a_gpu() == 1) return;
  const Source right = group_->size() > 1 ? Source::exported : Source::peer;
  if (source_ == right) return;
  throw UsageError(
      fmt::format("ranks that share GPUs (STRETTO_RANKS_A_GPU) have memory from {}, not from {}",
                  name_of(right), name_of(source_)));
}

void Fabric::require_equal_gpus() {
  const auto about = [](const cuda::Device& device) {
    return fmt::format("{} ({} SMs, {})", device.name(), device.num_sms(), device.arch());
  };
  // A line for the model of every local GPU, then one for its identity.
  std::string mine;
  for (const auto& device : devices_) mine += about(*device) + "\n" + device->uuid() + "\n";
  std::vector<std::string> models, identities;
  for (const std::string& lines : group_->all_gather("comparing the GPUs", mine)) {
    const auto parts = split(lines, '\n');
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      models.emplace_back(parts[i]);
      identities.emplace_back(parts[i + 1]);
    }
  }
  for (size_t rank = 1; rank < models.size(); ++rank) {
    if (models[rank] != models[0]) {
      throw SystemError(
          fmt::format("mixed GPUs: rank 0 has {}, rank {} has {}", models[0], rank, models[rank]));
    }
    const auto twin = std::find(identities.begin(), identities.begin() + static_cast<long>(rank),
                                identities[rank]);
    if (twin != identities.begin() + static_cast<long>(rank) && ranks_a_gpu() == 1) {
      const auto other = twin - identities.begin();
      if (group_->size() > 1 && cuda::num_devices() == 1) {
        throw SystemError(
            fmt::format("too few GPUs: ranks {} and {} have the only one that this process sees; "
                        "each needs its own",
                        other, rank));
      }
      throw SystemError(
          fmt::format("ranks {} and {} have the same GPU; each needs its own", other, rank));
    }
  }
}

Region Fabric::allocate(size_t num_bytes, std::string name) {
  group_->require_same("a region", fmt::format("{} of {} bytes", name, num_bytes));
  Region region;
  region.local_ = local_;
  region.num_bytes_ = num_bytes;
  try {
    region.allocation_ = memory_->allocate(std::max<size_t>(num_bytes, 16));
  } catch (const SystemError& error) {
    throw SystemError(fmt::format("region {} of {} bytes: {}", name, num_bytes, error.what()));
  }
  region.name_ = std::move(name);
  for (size_t i = 0; i < devices_.size(); ++i) {
    devices_[i]->make_current();
    region.tables_.push_back(cuda::upload(region.allocation_->addresses[i]));
  }
  return region;
}

Communicators& Fabric::communicators(int max_blocks) {
  // Who asks is about to begin collectives, which frees could stop for ever (Communicators::renew).
  for (const auto& [bound, one] : communicators_) {
    if (one) one->has_let_go();
  }
  std::unique_ptr<Communicators>& found = communicators_[max_blocks];
  if (!found) found = std::make_unique<Communicators>(local_, *group_, max_blocks);
  return *found;
}

std::unique_ptr<Fabric> in_process(int ranks, Source source, int free_sms) {
  std::vector<int> gpus(static_cast<size_t>(ranks));
  const int each = cuda::ranks_a_gpu();
  for (int rank = 0; rank < ranks; ++rank) gpus[static_cast<size_t>(rank)] = rank / each;
  return std::make_unique<Fabric>(solo_group(), gpus, source, free_sms);
}

}  // namespace stretto::fabric
