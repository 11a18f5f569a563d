#include "op/stages/stage_row.h"

namespace stretto {
namespace {

#define STRETTO_ROW(name, ...) &stages::name,
const StageRow* const kRows[] = {STRETTO_STAGES(STRETTO_ROW)};  // in the order of the list
#undef STRETTO_ROW

}  // namespace

const StageRow& row_of(StageKind kind) { return *kRows[static_cast<size_t>(kind)]; }

}  // namespace stretto
