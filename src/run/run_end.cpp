#include "run/run_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace stretto::runtime {
namespace {

constexpr char kReleasedNccl = 1, kNcclIsGone = 2;
constexpr size_t kStandBytes = 2 * sizeof(uint64_t) + 1;

}  // namespace

std::string ranks_of(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string to_bytes(const RunEnd& end) {
  std::string bytes(1, static_cast<char>((end.released_nccl ? kReleasedNccl : 0) |
                                         (end.nccl_is_gone ? kNcclIsGone : 0)));
  for (const RankStand& stand : end.stands) {
    bytes.append(reinterpret_cast<const char*>(&stand.begun), sizeof(stand.begun));
    bytes.append(reinterpret_cast<const char*>(&stand.given), sizeof(stand.given));
    bytes += static_cast<char>(stand.ended);
  }
  return bytes + end.failure;
}

std::optional<RunEnd> run_end_from(std::string_view bytes, size_t ranks) {
  if (bytes.size() < 1 + ranks * kStandBytes) return std::nullopt;
  RunEnd end;
  end.released_nccl = (bytes[0] & kReleasedNccl) != 0;
  end.nccl_is_gone = (bytes[0] & kNcclIsGone) != 0;
  bytes.remove_prefix(1);
  for (size_t i = 0; i < ranks; ++i, bytes.remove_prefix(kStandBytes)) {
    RankStand& stand = end.stands.emplace_back();
    std::memcpy(&stand.begun, bytes.data(), sizeof(stand.begun));
    std::memcpy(&stand.given, bytes.data() + sizeof(stand.begun), sizeof(stand.given));
    stand.ended = static_cast<uint8_t>(bytes[kStandBytes - 1]);
  }
  end.failure = bytes;
  return end;
}

std::string describe_given(const std::vector<RankStand>& stands) {
  std::vector<int> others;
  for (size_t rank = 0; rank < stands.size(); ++rank) {
    if (stands[rank].given != stands[0].given) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return "";
  return fmt::format(
      "{} gave results other places of the context's shared memory than rank 0, or made other "
      "calls: all ranks give the same ones; what was computed since the last finish() is useless",
      ranks_of(others));
}

std::vector<int> absent_ranks(const std::vector<RankStand>& stands) {
  const auto those = [&](const auto& is_one) {
    std::vector<int> ranks;
    for (size_t rank = 0; rank < stands.size(); ++rank) {
      if (is_one(stands[rank])) ranks.push_back(static_cast<int>(rank));
    }
    return ranks.size() == stands.size() ? std::vector<int>() : ranks;
  };
  const std::vector<int> ended = those([](const RankStand& stand) { return stand.ended != 0; });
  if (!ended.empty()) return ended;
  uint64_t most = 0;
  for (const RankStand& stand : stands) most = std::max(most, stand.begun);
  return those([&](const RankStand& stand) { return stand.begun < most; });
}

std::string describe_absent(const std::vector<RankStand>& stands, uint64_t timeout_ns) {
  const std::vector<int> absent = absent_ranks(stands);
  std::vector<int> waiting;
  for (int rank = 0; rank < static_cast<int>(stands.size()); ++rank) {
    if (!std::binary_search(absent.begin(), absent.end(), rank)) waiting.push_back(rank);
  }
  const std::string waited = fmt::format("{} waited {} ms in a collective of NCCL",
                                         ranks_of(waiting), timeout_ns / 1'000'000);
  if (!absent.empty()) return fmt::format("{}, to which {} did not come", waited, ranks_of(absent));
  return waited + ", which did not end; none is seen to be behind the others";
}

}  // namespace stretto::runtime
