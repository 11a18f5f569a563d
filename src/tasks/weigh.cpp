// weigh WEIGHTS ROWS Y -> S..: each token's weighted sum of its rows; zero of a token without any.
#include "tasks/kinds.h"
#include "tasks/weighted_sums.h"

namespace stretto::tasks {
namespace {

void weigh_all(const Work& work) { weigh_rows(work, false); }

constexpr RoutedKernel kByTables{.kind = device::RoutedKind::weigh,
                                 .source = 2,
                                 .moves = RoutedMoves::all_sources,
                                 .describe = describe_sums,
                                 .why_not = why_no_sums,
                                 .passes = pass_sums};

}  // namespace

const TaskKind weigh = {.worker = Worker::mover_kernel,
                        .cost = {.rate = Rate::sums, .shares = shares_of_sums},
                        .kernels = {.by = KernelKind::routed, .routed = &kByTables},
                        .in_tile = TileRole::none,
                        .num_others = 2,
                        .columns = ColumnsOf::last_read,
                        .reads_tables = 0b10,
                        .fault = fault_in_sums,
                        .compute = weigh_all};

}  // namespace stretto::tasks
