#include "fabric/host_group.h"

#include <fmt/format.h>

#include "core/text.h"
#include "stretto/error.h"

namespace stretto::fabric {
namespace {

class SoloGroup : public HostGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> all_gather(std::string_view, std::string_view mine) override {
    return {std::string(mine)};
  }
};

constexpr size_t kQuoted = 200;

}  // namespace

void HostGroup::require_same(std::string_view what, std::string_view mine) {
  const std::vector<std::string> all = all_gather(what, mine);
  for (size_t other = 1; other < all.size(); ++other) {
    if (all[other] == all[0]) continue;
    throw UsageError(fmt::format("ranks disagree on {}: rank 0 has {}, rank {} has {}", what,
                                 quote(all[0], kQuoted), other, quote(all[other], kQuoted)));
  }
}

void HostGroup::settle(std::string_view what, std::exception_ptr mine, std::string_view reason) {
  // One byte ahead of the reason: an empty reason is a reason too.
  std::string message = mine ? "!" : "";
  message += reason.substr(0, 1000);
  const std::vector<std::string> all = all_gather(what, message);
  if (mine) std::rethrow_exception(mine);
  for (size_t other = 0; other < all.size(); ++other) {
    if (all[other].empty()) continue;
    throw SystemError(fmt::format("rank {}: {}", other, quote(all[other].substr(1), 1000)));
  }
}

std::unique_ptr<HostGroup> solo_group() { return std::make_unique<SoloGroup>(); }

}  // namespace stretto::fabric
