// Ways of bringing tokens to products of rows that choose experts, and of taking sums back, as
// changes of a schedule: what `auto` weighs of them (routed_auto.h).
#pragma once

#include <optional>

#include "stretto/tune.h"

namespace stretto {

// Whether no product is computed; whether some of them are only moves.
bool only_moves_rows(const Operator& op);
bool moves_rows_alone(const Operator& op);

// One partition of all tokens.
void take_all_at_once(const Operator& op, OperatorSchedule& schedule);

// Of whole products. Without NCCL: all SMs send tokens ahead of the products that take them, and
// who weighs rows writes sums to their owners, who add them.
std::optional<OperatorSchedule> by_all_blocks(const Operator& op, OperatorSchedule schedule);
// The same, but NCCL brings tokens; or copy engines do, while ids come and tables are made; or own
// tokens are multiplied meanwhile, where that was measured to pay.
OperatorSchedule with_nccl_ahead(OperatorSchedule by_blocks);
std::optional<OperatorSchedule> by_copies(const Operator& op, OperatorSchedule by_blocks);
std::optional<OperatorSchedule> by_source(const Operator& op, OperatorSchedule by_blocks);
// Tokens by their ids, as far as they are few enough, and sums too; or sums alone.
std::optional<OperatorSchedule> around_products_by_ids(const Operator& op, const Machine& machine,
                                                       OperatorSchedule library);
std::optional<OperatorSchedule> with_sums_by_ids(OperatorSchedule schedule);

// Of rows that nothing multiplies: by their ids where slots have room, or in low entries; or, where
// an operator has no others, by all SMs instead of NCCL.
std::optional<OperatorSchedule> moved_by_all_blocks(const Operator& op,
                                                    OperatorSchedule sequential);
std::optional<OperatorSchedule> by_ids(const Operator& op, const Machine& machine,
                                       OperatorSchedule schedule);
OperatorSchedule in_low_entries(const Operator& op, const Machine& machine,
                                OperatorSchedule schedule);

}  // namespace stretto
