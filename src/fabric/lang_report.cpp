#include "fabric/lang_report.h"

#include <fmt/format.h>

#include <cstring>

#include "core/ranks_text.h"

namespace stretto::fabric {
namespace {

std::string ranks_of_mark(uint64_t mark) {
  const device::Team team = device::team_of_mark(mark);
  return ranks_text(team.start, team.stride, team.size);
}

std::string text_of(const std::string& argument, uint64_t value) {
  if (argument == device::kOtherTeam) return ranks_of_mark(value);
  if (argument == device::kOtherCall) return meet_name(device::meet_of_mark(value));
  return std::to_string(value);
}

std::string describe_call(int rank, const device::ExpiredWait& what) {
  const std::string argument(what.argument, strnlen(what.argument, sizeof what.argument));
  if (argument == device::kNotOfTeam) {
    return fmt::format("rank {} calls a collective of the team of {}, which it is not of", rank,
                       ranks_of_mark(what.seen));
  }
  if (argument == device::kNoSuchRoot) {
    return fmt::format("rank {} broadcasts from number {} of the team of {}, which has {}", rank,
                       static_cast<int64_t>(what.expected), ranks_of_mark(what.seen),
                       device::team_of_mark(what.seen).size);
  }
  if (what.from == rank) {  // of this call and the one that it follows
    return fmt::format("rank {} calls with {} = {}, but called before with {}", rank, argument,
                       text_of(argument, what.expected), text_of(argument, what.seen));
  }
  return fmt::format(
      "rank {} and rank {} make the same call with different arguments: {} is {} on rank {} and {} "
      "on rank {}",
      rank, what.from, argument, text_of(argument, what.expected), rank,
      text_of(argument, what.seen), what.from);
}

}  // namespace

std::string describe_wrong(int rank, const device::ExpiredWait& what, const std::string& word,
                           uint64_t timeout_ms) {
  if (what.wrong == device::Wrong::kDisagrees) return describe_call(rank, what);
  const std::string from = what.from < 0 ? "" : fmt::format(" for rank {}", what.from);
  const std::string seen =
      what.wrong == device::Wrong::kUnwritten
          ? fmt::format("has not been written, it still holds {:#x}", what.seen)
          : fmt::format("is {}, expected {}", what.seen, what.expected);
  return fmt::format("rank {} block {} waited {} ms{}: {} {}", rank, what.block, timeout_ms, from,
                     word, seen);
}

}  // namespace stretto::fabric
