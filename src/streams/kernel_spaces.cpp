#include "streams/kernel_spaces.h"

#include <utility>

namespace stretto::runtime {

device::SignalSpace KernelSpaces::add(KernelPlace place, int blocks) {
  device::SignalSpace space = space_;
  space.runs = counts_.add(blocks);
  space.kernel = static_cast<uint32_t>(places_.size());
  places_.push_back(std::move(place));
  return space;
}

StuckWait KernelSpaces::locate(const device::WaitError& error) const {
  if (error.kernel >= places_.size()) return {.rank = rank_};
  return runtime::locate(plan_, rank_, places_[error.kernel], signals_.ref_of(plan_, error.signal),
                         error);
}

}  // namespace stretto::runtime
