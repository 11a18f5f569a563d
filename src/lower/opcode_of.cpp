#include "lower/opcode_of.h"

#include "op/stages/stage_row.h"
#include "stretto/error.h"

namespace stretto {

Opcode opcode_of(StageKind kind) {
  const StageRow& row = row_of(kind);
  STRETTO_ASSERT(row.task, "which task it becomes goes by where its rows are");
  return *row.task;
}

}  // namespace stretto
