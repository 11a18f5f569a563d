// Systems that others have built, by name: each stands for the point of this space that is nearest
// to it, by the kernels that there are here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stretto/schedule.h"

namespace stretto {

// What one schedule is for, as systems differ in it: X(enumerator, what a message calls it).
#define STRETTO_SORTS_OF_PRODUCT(X)                      \
  X(gather, "gathers ahead of a product")                \
  X(scatter, "reduce-scatters behind a product")         \
  X(all_reduce, "all-reduces behind a product")          \
  X(exchange, "all-to-alls beside a product")            \
  X(local, "products that move nothing")                 \
  X(look_up, "pooled look-ups")                          \
  X(tp_up, "tokens for experts that are cut over ranks") \
  X(tp_down, "sums of experts that are cut over ranks")  \
  X(ep_up, "tokens for experts that are dealt to ranks") \
  X(ep_down, "sums of experts that are dealt to ranks")  \
  X(moved, "rows that are moved to experts or back, and not multiplied")

#define STRETTO_ENUM(name, text) name,
enum class SortOfProduct : uint8_t { STRETTO_SORTS_OF_PRODUCT(STRETTO_ENUM) };
#undef STRETTO_ENUM

std::string_view to_string(SortOfProduct sort);
SortOfProduct sort_of(const Segment& op);

struct NearestPoint {
  SortOfProduct sort;
  std::string_view text;     // as parse_schedule() reads it
  std::string_view differs;  // what a reader of the system's code would miss: a part of a sentence
  bool by_ids = false;       // only where low-latency collectives serve; else the next one is taken
};

struct System {
  std::string_view name;    // the word for it
  std::string_view title;   // how it is called
  std::string_view source;  // paper or repository
  std::span<const NearestPoint> points;
  bool splits = false;  // rows of enough tokens in two parts
};

std::span<const System> systems();
// Null where there is none of that name.
const System* find_system(std::string_view name);

// Null where the system has none for such a product.
const NearestPoint* nearest_point(const System& system, const Segment& op, const Machine& machine);
// For an error: what is missing for the products, and what there is. Names may be empty.
struct NamedProduct {
  std::string_view name;
  const Segment* product;
};
std::string why_no_point(const System& system, std::span<const NamedProduct> products);

// In how many parts it has the rows of an operator.
int split_of(const System& system, const Operator& op);

}  // namespace stretto
