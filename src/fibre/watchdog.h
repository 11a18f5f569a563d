// Takes a kernel's thread off the processor that computes for ever without an operation, so that
// the run can end with a finding.
#pragma once

namespace stretto::fibre {

// While it lives, on_tick() is called now and then on the OS thread that made it, out of whatever
// that thread is doing, by the processor time that it takes.
class Ticks {
 public:
  static constexpr double kSeconds = 0.05;

  explicit Ticks(void (*on_tick)());
  ~Ticks();
  Ticks(const Ticks&) = delete;
};

}  // namespace stretto::fibre
