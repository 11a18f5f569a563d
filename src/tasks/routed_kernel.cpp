#include "tasks/routed_kernel.h"

namespace stretto::tasks {

void describe_own_experts(const RoutedFields& fields, int rank) {
  fields.routed.own_experts = static_cast<uint32_t>(fields.shares.size(rank));
  fields.routed.first_expert = static_cast<uint32_t>(fields.shares.begin(rank));
}

}  // namespace stretto::tasks
