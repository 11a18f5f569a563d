#include "serve/measured_with.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "fabric/nccl_api.h"
#include "gpu/versions.h"

namespace stretto {
namespace {

using cuda::check;
using cuda::driver;

std::vector<std::string> uuids_of_ranks(fabric::Fabric& fabric) {
  std::string mine;
  for (int i = 0; i < fabric.num_local(); ++i) {
    mine += fabric.device(fabric.first_rank() + i).uuid() + "\n";
  }
  std::vector<std::string> by_rank;
  for (const std::string& lines : fabric.group().all_gather("which GPUs ranks have", mine)) {
    for (const std::string_view uuid : split(lines, '\n')) {
      if (!uuid.empty()) by_rank.emplace_back(uuid);
    }
  }
  return by_rank;
}

char link_between(cuda::DeviceId from, cuda::DeviceId to) {
  int can = 0, native = 0;
  check(driver().can_access_peer(&can, from, to), "ask for peer access");
  if (can == 0) return '-';
  check(driver().peer_attribute(&native, cuda::kPeerNativeAtomics, from, to), "ask for a link");
  return native != 0 ? 'n' : 'p';
}

// From this process's first GPU to the others of the job, as far as it sees them.
std::string links_of(const fabric::Fabric& fabric, const std::vector<std::string>& uuids) {
  const cuda::DeviceId own = fabric.device(fabric.first_rank()).id();
  std::string links;
  for (int index = 0; index < cuda::num_devices(); ++index) {
    cuda::DeviceId other = 0;
    check(driver().device_get(&other, index), "look at a GPU");
    if (other == own) continue;
    const bool is_of_job =
        std::find(uuids.begin(), uuids.end(), cuda::uuid_of(other)) != uuids.end();
    if (is_of_job) links += link_between(own, other);
  }
  std::sort(links.begin(), links.end());
  return links.empty() ? "none" : links;
}

// "0 0 1 1"; empty where each rank has its own.
std::string shared_gpus(const std::vector<std::string>& uuids) {
  std::vector<std::string> known, numbers;
  for (const std::string& one : uuids) {
    const auto found = std::find(known.begin(), known.end(), one);
    numbers.push_back(std::to_string(found - known.begin()));
    if (found == known.end()) known.push_back(one);
  }
  return known.size() == uuids.size() ? "" : join(numbers, " ");
}

}  // namespace

std::string measured_with(fabric::Fabric& fabric) {
  const std::vector<std::string> uuids = uuids_of_ranks(fabric);
  std::string mine;
  fabric.group().together("looking at what changes times", [&] {
    const std::string nccl =
        fabric::why_no_nccl().empty() ? fabric::nccl_version() : std::string("no NCCL");
    mine = fmt::format("{} SMs, {}, {}, {}, {}, {} processes, links {}",
                       fabric.device(fabric.first_rank()).num_sms(), cuda::driver_version(),
                       cuda::cublas_version(), nccl, name_of(fabric.source()),
                       fabric.group().size(), links_of(fabric, uuids));
  });
  std::vector<std::string> all;
  for (std::string& one : fabric.group().all_gather("what changes times", mine)) {
    if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
  }
  const std::string shared = shared_gpus(uuids);
  return join(all, " | ") + (shared.empty() ? "" : ", GPUs " + shared);
}

}  // namespace stretto
