#include "sim/input_traffic.h"

#include <algorithm>

#include "plan/region_numbers.h"

namespace stretto::sim {
namespace {

// The tasks that begin the tiles of a wave.
using Wave = std::vector<const Instr*>;

// A rank's waves, by boundaries before them. A tile of two products begins with both, which share
// A.
std::vector<std::vector<Wave>> waves_of(const Plan& plan, int rank) {
  std::vector<std::vector<Wave>> kernels;
  for (const Lane& lane : plan.lanes) {
    if (lane.rank != rank || lane.kind != LaneKind::compute) continue;
    size_t behind = 0, tiles = 0;
    const Instr* first = nullptr;  // of the lane's tile
    for (const Instr& instr : lane.instrs) {
      if (instr.op == Opcode::boundary) {
        ++behind;
        tiles = 0;
        first = nullptr;
      }
      if (instr.op != Opcode::gemm) continue;
      const bool goes_on = first != nullptr && first->tile == instr.tile;
      if (goes_on && plan.reads(instr).back().col0 != plan.reads(*first).back().col0) continue;
      if (!goes_on) {
        first = &instr;
        ++tiles;
      }
      if (kernels.size() <= behind) kernels.resize(behind + 1);
      std::vector<Wave>& waves = kernels[behind];
      if (waves.size() < tiles) waves.resize(tiles);
      waves[tiles - 1].push_back(&instr);
    }
  }
  return kernels;
}

// What the waves of a rank read, one after the other. All are whole numbers of bytes, so that they
// may be added in any order.
class Reader {
 public:
  // `cache`: bytes that stay from one wave to the next.
  explicit Reader(double cache) : cache_(cache) {}

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
      const bool is_held = one.read_before >= 0 && read_ + all - one.read_before <= cache_;
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
  const double cache_;
  RegionNumbers stripes_;
  std::vector<Known> known_;  // by stripe
  std::vector<uint32_t> wave_reads_;
  int wave_ = 0;
  double read_ = 0, from_memory_ = 0;
};

}  // namespace

std::vector<std::vector<double>> bytes_from_memory(const Plan& plan, double cache,
                                                   const std::function<int(const Instr&)>& k_of) {
  std::vector<std::vector<double>> by_rank;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<double>& by_kernel = by_rank.emplace_back();
    Reader reader(cache / 2);
    for (const std::vector<Wave>& waves : waves_of(plan, rank)) {
      const double before = reader.from_memory();
      for (const Wave& wave : waves) {
        for (const Instr* const instr : wave) {
          for (const Region& read : plan.reads(*instr)) {
            const int64_t size = num_bytes(plan.buffers[read.buffer].dtype);
            reader.read({read.row0, read.row1, read.col0, 0, read.buffer, 0},
                        static_cast<double>(read.rows() * k_of(*instr) * size));
          }
        }
        reader.end_wave();
      }
      by_kernel.push_back(reader.from_memory() - before);
    }
  }
  return by_rank;
}

}  // namespace stretto::sim
