// weigh WEIGHTS ROWS Y -> S..: each token's weighted sum of its rows; zero of a token without any.
#include "tasks/kinds.h"
#include "tasks/weighted_sums.h"

namespace stretto::tasks {
namespace {

void weigh_all(const Work& work) { weigh_rows(work, false); }

}  // namespace

const TaskKind weigh = {.worker = Worker::mover_kernel,
                        .num_others = 2,
                        .columns = ColumnsOf::last_read,
                        .reads_tables = 0b10,
                        .fault = fault_in_sums,
                        .compute = weigh_all,
                        .shares = shares_of_sums};

}  // namespace stretto::tasks
