#include "fabric/host_group.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::fabric {
namespace {

class SoloGroup : public HostGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

 private:
  std::vector<std::string> gather(std::string_view, std::string_view mine, double) override {
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
                                 one_line(all[0], kQuoted), other, one_line(all[other], kQuoted)));
  }
}

// Of a refusal and a failure the failure counts: what was refused may be right elsewhere.
void HostGroup::settle(std::string_view what, const StepError& mine) {
  constexpr char kFailed = '!', kRefused = '?';
  std::string message;
  if (mine.error) message = (mine.is_refusal ? kRefused : kFailed) + mine.reason.substr(0, 1000);
  const std::vector<std::string> all = all_gather(what, message);
  for (const char kind : {kFailed, kRefused}) {
    const auto first = std::find_if(all.begin(), all.end(),
                                    [&](const std::string& one) { return one.starts_with(kind); });
    if (first == all.end()) continue;
    if (message.starts_with(kind)) std::rethrow_exception(mine.error);
    const std::string text =
        fmt::format("rank {}: {}", first - all.begin(), one_line(first->substr(1), 1000));
    if (kind == kRefused) throw UsageError(text);
    throw SystemError(text);
  }
}

std::string one_line(std::string_view text, size_t limit) {
  std::string line(text.substr(0, limit));
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > limit) line += "...";
  return line;
}

std::unique_ptr<HostGroup> solo_group() { return std::make_unique<SoloGroup>(); }

}  // namespace stretto::fabric
