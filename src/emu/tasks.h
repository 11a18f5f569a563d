// What the tasks of a lane compute: gemm, reduce, copy and deliver, in ranges of their rows.
#pragma once

#include <cstdint>
#include <vector>

#include "emu/faults.h"
#include "emu/in_flight.h"
#include "emu/memory.h"
#include "emu/tile_gemm.h"
#include "stretto/plan.h"

namespace stretto::emu {

class Tasks {
 public:
  Tasks(const Plan& plan, Memory& memory, InFlight& in_flight, Faults& faults);

  // False when an operand lies outside its buffer or out of the rank's reach: the task must not
  // run. Reports it.
  bool sound(const Where& where);
  // Rows of the result (of a gemm, reduce or copy).
  int64_t rows(const Where& where) const;
  // Computes rows [begin, end) from what memory holds now; the result is in flight afterwards.
  void run(const Where& where, int64_t begin, int64_t end);
  // The largest range that run() should be given at once: bounds the memory of a result.
  int64_t max_rows(const Where& where) const;
  // A deliver: reads and hands on.
  void check_reads(const Where& where);

  // The region's elements as `where` sees them now: in place when the run has written all of them,
  // else (and reported) a copy in `space` with poison. The lane's own writes arrive first.
  MatrixView read(const Where& where, const Region& region, std::vector<std::byte>& space);

  double flops() const { return flops_; }

 private:
  const Instr& instr(const Where& where) const;
  // Each fills rows [begin, end) of the result, rounded to `dtype`.
  void compute(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to);
  void gemm(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to);
  void reduce(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to);
  void copy(const Where& where, int64_t begin, int64_t end, DType dtype, const Payload& to);

  const Plan& plan_;
  Memory& memory_;
  InFlight& in_flight_;
  Faults& faults_;
  TileGemm tile_gemm_;
  std::vector<std::byte> space_a_, space_b_;
  std::vector<float> sums_;
  double flops_ = 0;
};

}  // namespace stretto::emu
