// The operators that the host benchmarks lower: the shape of Llama-3-70B's down projection on one
// node, smaller and larger ones with the same tiles, and the same shape on 64 ranks.
#pragma once

#include <string>

#include "stretto/lower.h"

namespace stretto::bench {

struct Subject {
  Segment op;
  Machine machine;
  Schedule schedule;

  Plan lower() const { return stretto::lower(op, schedule, machine); }
  std::string label() const {
    return to_string(op) + " " + std::to_string(schedule.tile_m) + "x" +
           std::to_string(schedule.tile_n);
  }
};

// gemm-rs m x 8192 x 28672 under `tiles` with 128x256 tiles.
inline Subject down_projection(int64_t m, int ranks) {
  Subject subject;
  subject.op = {kGemmRs, m, 8192, 28672, ranks, DType::bf16};
  subject.machine = default_machine(ranks);
  subject.schedule = parse_schedule("tiles,tile=128x256", subject.op, subject.machine);
  return subject;
}

}  // namespace stretto::bench
