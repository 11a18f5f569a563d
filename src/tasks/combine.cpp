// combine experts=E WEIGHTS ROWS Y -> S..: as weigh, by a rank that has a share of the experts, for
// who has the token. Undefined, and not sent, where the token has no row here.
#include <cmath>

#include "tasks/kinds.h"
#include "tasks/weighted_sums.h"

namespace stretto::tasks {
namespace {

void weigh_own(const Work& work) { weigh_rows(work, true); }

// A share of a token's choices is this rank's, and of the tokens those with at least one of them.
TaskShares shares_of_combine(const KindOperands& of) {
  TaskShares shares = shares_of_sums(of);
  shares.read /= of.ranks;
  shares.written = 1 - std::pow(1 - 1.0 / of.ranks, of.reads[0].cols());
  return shares;
}

}  // namespace

const TaskKind combine = {.worker = Worker::mover_kernel,
                          .num_others = 2,
                          .columns = ColumnsOf::last_read,
                          .counts = {"experts"},
                          .reads_tables = 0b10,
                          .fault = fault_in_sums,
                          .compute = weigh_own,
                          .shares = shares_of_combine};

}  // namespace stretto::tasks
