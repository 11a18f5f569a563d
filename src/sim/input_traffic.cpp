#include "sim/input_traffic.h"

#include <algorithm>

#include "plan/region_numbers.h"
#include "stretto/machine.h"

namespace stretto::sim {
namespace {

// The first task of each tile of each lane of a rank.
std::vector<std::vector<const Instr*>> tiles_by_lane(const Plan& plan, int rank) {
  std::vector<std::vector<const Instr*>> found;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    std::vector<const Instr*>& tiles = found.emplace_back();
    for (const Instr& instr : lane.instrs) {
      const bool goes_on = !tiles.empty() && tiles.back()->tile == instr.tile;
      if (instr.op == Opcode::gemm && !goes_on) tiles.push_back(&instr);
    }
  }
  return found;
}

// What the waves of a rank read, one after the other. All are whole numbers of bytes, so that they
// may be added in any order.
class Reader {
 public:
  // In the wave at hand: each stripe, rows of an input from where the tile's K begins, once.
  void read(const Region& stripe, double bytes) {
    const uint32_t number = stripes_.of(stripe);
    if (number == known_.size()) known_.emplace_back();
    if (known_[number].wave != wave_) {
      known_[number].wave = wave_;
      wave_reads_.push_back(number);
    }
    known_[number].bytes = bytes;
  }
  void end_wave() {
    double all = 0;
    for (const uint32_t number : wave_reads_) all += known_[number].bytes;
    for (const uint32_t number : wave_reads_) {
      Known& one = known_[number];
      // From one wave's reading to the next wave's all that either reads passes by.
      const bool is_held = one.read_before >= 0 && read_ + all - one.read_before <= kL2Bytes / 2;
      if (!is_held) from_memory_ += one.bytes;
      one.read_before = read_;
    }
    read_ += all;
    wave_reads_.clear();
    ++wave_;
  }
  double from_memory() const { return from_memory_; }

 private:
  struct Known {
    int wave = -1;
    double bytes = 0;
    double read_before = -1;  // all that had been when its last wave began; negative: it had none
  };
  RegionNumbers stripes_;
  std::vector<Known> known_;  // by stripe
  std::vector<uint32_t> wave_reads_;
  int wave_ = 0;
  double read_ = 0, from_memory_ = 0;
};

}  // namespace

std::vector<double> bytes_from_memory(const Plan& plan,
                                      const std::function<int(const Instr&)>& k_of) {
  std::vector<double> by_rank;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto lanes = tiles_by_lane(plan, rank);
    size_t waves = 0;
    for (const auto& tiles : lanes) waves = std::max(waves, tiles.size());
    Reader reader;
    for (size_t w = 0; w < waves; ++w) {
      for (const auto& tiles : lanes) {
        if (w >= tiles.size()) continue;
        for (const Region& read : plan.reads(*tiles[w])) {
          const int64_t size = num_bytes(plan.buffers[read.buffer].dtype);
          reader.read({read.row0, read.row1, read.col0, 0, read.buffer, 0},
                      static_cast<double>(read.rows() * k_of(*tiles[w]) * size));
        }
      }
      reader.end_wave();
    }
    by_rank.push_back(reader.from_memory());
  }
  return by_rank;
}

}  // namespace stretto::sim
