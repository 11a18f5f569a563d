#include "stretto/fibre/finding.h"

#include <fmt/format.h>

#include <string_view>

namespace stretto::fibre {

const char* finding_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::kRace:
      return "race";
    case FindingKind::kUnwritten:
      return "read of unwritten memory";
    case FindingKind::kOutOfBounds:
      return "out of bounds";
    case FindingKind::kMisaligned:
      return "misaligned";
    case FindingKind::kWrongRank:
      return "wrong rank";
    case FindingKind::kPutOnly:
      return "not reachable by load and store";
    case FindingKind::kDivergence:
      return "divergent block";
    case FindingKind::kDisagreement:
      return "ranks disagree";
    case FindingKind::kLostSignal:
      return "lost signal";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kLivelock:
      return "livelock";
    case FindingKind::kSilence:
      return "no operation";
    case FindingKind::kMismatch:
      return "wrong result";
  }
  return "";
}

std::string to_text(const Place& place) {
  std::string_view file = place.where.file;
  if (const size_t slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  const std::string thread =
      place.thread < 0 ? std::string("another thread") : fmt::format("thread {}", place.thread);
  // Nobody knows the line of what is no operation: of an exception, of a kernel's end.
  const std::string line = file.empty() ? "" : fmt::format("{}:{}, ", file, place.where.line);
  return fmt::format("{}rank {} block {} {} launch {}", line, place.rank, place.block, thread,
                     place.launch);
}

}  // namespace stretto::fibre
