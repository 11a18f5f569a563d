#include "fibre/planted/planted.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "stretto/error.h"

namespace stretto::fibre {
namespace {

// Of a shape that it is not written for, a kernel without its bug would look as if it had another.
void require_fits(const Planted& planted, const Shape& shape) {
  const auto require = [&](std::string_view what, int is, int least, int most) {
    if (is >= least && is <= most) return;
    const std::string range = least == most ? std::to_string(least)
                              : is < least  ? fmt::format("at least {}", least)
                                            : fmt::format("at most {}", most);
    throw UsageError(fmt::format("{} is written for {} {}, not {}", planted.name, range, what, is));
  };
  const Fits& fits = planted.fits;
  require("ranks", shape.ranks, fits.least_ranks, fits.most_ranks);
  require("blocks a rank", shape.blocks, planted.shape.blocks, planted.shape.blocks);
  require("threads a block", shape.threads, fits.least_threads, fits.most_threads);
}

}  // namespace

Scenario Planted::with(bool bug) const {
  return [planted = *this, bug](World& world) {
    require_fits(planted, world.shape());
    planted.run(world, bug);
  };
}

}  // namespace stretto::fibre
