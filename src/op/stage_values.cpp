#include "op/stage_values.h"

#include "op/stages/stage_row.h"
#include "stretto/error.h"

namespace stretto {

Rows stage_rows(const Stage& stage, DType dtype, const Rows& x, const Rows* y) {
  const StageRow& row = row_of(stage.kind);
  STRETTO_ASSERT(row.make != nullptr, "what goes by indices is not made row by row");
  Rows out(x.rows, x.cols);
  out.follow(x, y);
  row.make(stage, dtype, x, y, out);
  return out;
}

}  // namespace stretto
