// What the kinds of collectives have in common, and where they differ.
#pragma once

#include <cstdint>
#include <string_view>

namespace stretto {

// X(enumerator, text, meaning, CollectiveForm)
#define STRETTO_COLLECTIVES(X)                                                                \
  X(all_gather, "all_gather", "concatenate", {false, true, false, 0, 0, {}, "p and ranks*p"}) \
  X(reduce_scatter, "reduce_scatter", "sum, scatter",                                         \
    {true, false, true, 0, 0, {}, "ranks*p and p"})                                           \
  X(all_reduce, "all_reduce", "sum, everywhere", {false, false, true, 0, 0, {}, "p and p"})   \
  X(all_reduce_norm, "all_reduce_norm", "sum, everywhere, to a residual, and its RMSNorm",    \
    {false, false, true, 2, 1, "eps", "three (terms, residual, weights) and two (sum, norm)"})

enum class CollectiveKind : uint8_t {
#define STRETTO_ENUM(name, text, meaning, ...) name,
  STRETTO_COLLECTIVES(STRETTO_ENUM)
#undef STRETTO_ENUM
};

struct CollectiveForm {
  // Of what ranks move, regions are grouped: those read by the rank that gets them, those written
  // by the rank that they come from. Neither: region i of all ranks is one.
  bool groups_reads = false, groups_writes = false;
  bool adds = false;
  // The last regions, which belong to the rank alone.
  uint16_t own_reads = 0, own_writes = 0;
  std::string_view attribute;  // the name of the number that it needs; empty: none
  std::string_view operands;   // what it reads and writes, for messages
};

constexpr CollectiveForm kCollectiveForms[] = {
#define STRETTO_FORM(name, text, meaning, ...) __VA_ARGS__,
    STRETTO_COLLECTIVES(STRETTO_FORM)
#undef STRETTO_FORM
};
constexpr const CollectiveForm& form_of(CollectiveKind kind) {
  return kCollectiveForms[static_cast<size_t>(kind)];
}

}  // namespace stretto
