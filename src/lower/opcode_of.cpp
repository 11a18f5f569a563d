#include "lower/opcode_of.h"

#include "stretto/error.h"

namespace stretto {

Opcode opcode_of(StageKind kind) {
  switch (kind) {
    case StageKind::gemm:
      return Opcode::gemm;
    case StageKind::add:
      return Opcode::reduce;
    case StageKind::swiglu:
      return Opcode::swiglu;
    case StageKind::gelu:
      return Opcode::gelu;
    case StageKind::silu:
      return Opcode::silu;
    case StageKind::bias:
      return Opcode::bias;
    case StageKind::norm:
      return Opcode::norm;
    case StageKind::grouped:  // which task it is goes by where its rows are
      break;
    case StageKind::permute:
      return Opcode::permute;
    case StageKind::weigh:
      return Opcode::weigh;
    case StageKind::embed:
      return Opcode::embed;
    case StageKind::embed_mean:
      return Opcode::embed_mean;
    case StageKind::top_k:
      return Opcode::top_k;
    case StageKind::biased_top_k:
      return Opcode::biased_top_k;
    case StageKind::softmax_gate:
      return Opcode::softmax_gate;
    case StageKind::sigmoid_gate:
      return Opcode::sigmoid_gate;
    case StageKind::slice_ids:
      return Opcode::slice_ids;
    case StageKind::slice_weights:
      return Opcode::slice_weights;
    case StageKind::gather:
      return Opcode::copy;
    case StageKind::count:
      return Opcode::sum_counts;
  }
  STRETTO_ASSERT(false, "kind of stage out of range");
}

}  // namespace stretto
