// The running GEMM tiles of one rank. All run at the same speed, which changes with what else the
// GPU does; so a tile ends when the rank has done its work, and the order of ends never changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stretto::sim {

class GemmClock {
 public:
  double speed() const { return speed_; }
  bool idle() const { return heap_.empty(); }
  double running() const { return static_cast<double>(heap_.size()); }

  void set_speed(double now, double speed) {
    move_to(now);
    speed_ = speed;
  }
  void start(double now, uint32_t lane, double work_us) {
    move_to(now);
    heap_.push_back({done_ + work_us, next_order_++, lane});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  // When the first running tile ends at today's speed; there must be one.
  double next_end(double now) const {
    const double done = done_ + (now - now_) * speed_;
    return now + std::max(0.0, heap_.front().end - done) / speed_;
  }
  uint32_t pop(double now) {
    now_ = now;
    done_ = heap_.front().end;  // exactly, so that rounding cannot add up over a long run
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const uint32_t lane = heap_.back().lane;
    heap_.pop_back();
    return lane;
  }

 private:
  struct Tile {
    double end;  // in work done by the rank
    uint32_t order;
    uint32_t lane;
  };
  static bool later(const Tile& a, const Tile& b) {
    return a.end != b.end ? a.end > b.end : a.order > b.order;
  }
  void move_to(double now) {
    done_ += (now - now_) * speed_;
    now_ = now;
  }

  double now_ = 0, done_ = 0;  // done_: full-speed microseconds of work
  double speed_ = 1;
  uint32_t next_order_ = 0;
  std::vector<Tile> heap_;
};

}  // namespace stretto::sim
