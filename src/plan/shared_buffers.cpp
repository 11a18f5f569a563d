#include "plan/shared_buffers.h"

namespace stretto {

std::vector<bool> shared_buffers(const Plan& plan) {
  std::vector<bool> shared;
  for (const Buffer& buffer : plan.buffers) shared.push_back(buffer.role == BufferRole::symmetric);
  for (const Lane& lane : plan.lanes) {
    for (const Instr& instr : lane.instrs) {
      for (const auto& regions : {plan.reads(instr), plan.writes(instr)}) {
        for (const Region& region : regions) {
          if (region.rank != lane.rank) shared[region.buffer] = true;
        }
      }
    }
  }
  return shared;
}

}  // namespace stretto
