#include "schedule/coordinates.h"

#include "stretto/error.h"

namespace stretto {
namespace {

#define STRETTO_TEXT(name, text, meaning) text,
constexpr std::string_view kGranularities[] = {STRETTO_GRANULARITIES(STRETTO_TEXT)};
constexpr std::string_view kOrders[] = {STRETTO_ORDERS(STRETTO_TEXT)};
constexpr std::string_view kMovers[] = {STRETTO_MOVERS(STRETTO_TEXT)};
constexpr std::string_view kSyncs[] = {STRETTO_SYNCS(STRETTO_TEXT)};
constexpr std::string_view kReductions[] = {STRETTO_REDUCTIONS(STRETTO_TEXT)};
constexpr std::string_view kReuses[] = {STRETTO_REUSES(STRETTO_TEXT)};
constexpr std::string_view kRowCounts[] = {STRETTO_ROW_COUNTS(STRETTO_TEXT)};
constexpr std::string_view kOwnRows[] = {STRETTO_OWN_ROWS(STRETTO_TEXT)};
constexpr std::string_view kStarts[] = {STRETTO_STARTS(STRETTO_TEXT)};
constexpr std::string_view kGemms[] = {STRETTO_GEMMS(STRETTO_TEXT)};
constexpr std::string_view kCollectives[] = {STRETTO_COLLECTIVES_BY(STRETTO_TEXT)};
constexpr std::string_view kPermutes[] = {STRETTO_PERMUTES(STRETTO_TEXT)};
#undef STRETTO_TEXT
#define STRETTO_TEXT(name, text, bytes, bits) text,
constexpr std::string_view kDTypes[] = {STRETTO_DTYPES(STRETTO_TEXT)};
#undef STRETTO_TEXT

template <typename Enum>
std::string_view name_of(Enum value) {
  const std::span<const std::string_view> names = names_of<Enum>();
  STRETTO_ASSERT(static_cast<size_t>(value) < names.size(), "coordinate out of range");
  return names[static_cast<size_t>(value)];
}

}  // namespace

template <>
std::span<const std::string_view> names_of<Granularity>() {
  return kGranularities;
}
template <>
std::span<const std::string_view> names_of<Order>() {
  return kOrders;
}
template <>
std::span<const std::string_view> names_of<Mover>() {
  return kMovers;
}
template <>
std::span<const std::string_view> names_of<Sync>() {
  return kSyncs;
}
template <>
std::span<const std::string_view> names_of<Reduction>() {
  return kReductions;
}
template <>
std::span<const std::string_view> names_of<Reuse>() {
  return kReuses;
}
template <>
std::span<const std::string_view> names_of<RowCount>() {
  return kRowCounts;
}
template <>
std::span<const std::string_view> names_of<OwnRows>() {
  return kOwnRows;
}
template <>
std::span<const std::string_view> names_of<Start>() {
  return kStarts;
}
template <>
std::span<const std::string_view> names_of<GemmBy>() {
  return kGemms;
}
template <>
std::span<const std::string_view> names_of<CollectivesBy>() {
  return kCollectives;
}
template <>
std::span<const std::string_view> names_of<Permute>() {
  return kPermutes;
}
template <>
std::span<const std::string_view> names_of<DType>() {
  return kDTypes;
}

std::string_view to_string(Granularity value) { return name_of(value); }
std::string_view to_string(Order value) { return name_of(value); }
std::string_view to_string(Mover value) { return name_of(value); }
std::string_view to_string(Sync value) { return name_of(value); }
std::string_view to_string(Reduction value) { return name_of(value); }
std::string_view to_string(Reuse value) { return name_of(value); }
std::string_view to_string(RowCount value) { return name_of(value); }
std::string_view to_string(OwnRows value) { return name_of(value); }
std::string_view to_string(Start value) { return name_of(value); }
std::string_view to_string(GemmBy value) { return name_of(value); }
std::string_view to_string(CollectivesBy value) { return name_of(value); }
std::string_view to_string(Permute value) { return name_of(value); }

bool is_deterministic(const Schedule& schedule) {
  // NCCL picks its algorithm, and with it the order of additions, by size and topology.
  return schedule.reduction != Reduction::nccl ||
         schedule.collectives == CollectivesBy::low_latency;
}

}  // namespace stretto
