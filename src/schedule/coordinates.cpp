#include "schedule/coordinates.h"

#include "stretto/error.h"

namespace stretto {
namespace {

template <typename Enum>
std::string_view name_of(Enum value) {
  const std::span<const std::string_view> names = names_of<Enum>();
  STRETTO_ASSERT(static_cast<size_t>(value) < names.size(), "coordinate out of range");
  return names[static_cast<size_t>(value)];
}

}  // namespace

#define STRETTO_TEXT(name, text, ...) text,
#define STRETTO_NAMES(type, field, key, absent, kinds, table, asks)     \
  template <>                                                           \
  std::span<const std::string_view> names_of<type>() {                  \
    static constexpr std::string_view kNames[] = {table(STRETTO_TEXT)}; \
    return kNames;                                                      \
  }                                                                     \
  std::string_view to_string(type value) { return name_of(value); }
STRETTO_CHOICES(STRETTO_NAMES)
#undef STRETTO_NAMES

template <>
std::span<const std::string_view> names_of<DType>() {
  static constexpr std::string_view kNames[] = {STRETTO_DTYPES(STRETTO_TEXT)};
  return kNames;
}
#undef STRETTO_TEXT

bool are_of_a_kind(const Schedule& a, const Schedule& b) {
  constexpr bool apart = true, alike = false;
#define STRETTO_CHOICE(type, field, key, absent, kinds, ...) \
  if (kinds && a.field != b.field) return false;
#define STRETTO_NUMBER(field, key, absent, kinds, ...) \
  if (kinds && (a.field > 1) != (b.field > 1)) return false;
  STRETTO_COORDINATES(STRETTO_CHOICE, STRETTO_NUMBER, STRETTO_NO_COORDINATE)
#undef STRETTO_NUMBER
#undef STRETTO_CHOICE
  return true;
}

bool is_deterministic(const Schedule& schedule) {
  // NCCL picks its algorithm, and with it the order of additions, by size and topology.
  return schedule.reduction != Reduction::nccl ||
         schedule.collectives == CollectivesBy::low_latency;
}

}  // namespace stretto
