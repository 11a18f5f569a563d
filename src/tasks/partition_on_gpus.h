// What the kernels of tasks that make tables of a partition have in common.
#pragma once

#include "tasks/routed_kernel.h"

namespace stretto::tasks {

// `counts`: of the rank's experts, and one more.
void describe_partition(const RoutedFields& fields, int32_t counts);
// CHOICES and EXPERTS, the first that are written.
void describe_entries(const RoutedFields& fields);

// `ids` and `tables`: those that have to be all of their rows.
std::string why_no_partition(std::span<const InBuffer> ids, std::span<const InBuffer> tables,
                             int32_t counts);

}  // namespace stretto::tasks
