// The products of a rank's runs where a library multiplies, and what multiplies each.
#include <algorithm>

#include "run/rank_streams.h"

namespace stretto::runtime {

using cuda::Stream;

// A library's blocks for which movers leave no SM would run after all the others, in the time of
// two products. Movers stay until their last task has ended. Of SMs that are left free to others it
// takes none where it can: its blocks end by themselves, but others would wait for them.
int RankStreams::sms_for_library() const {
  return setup_.device.free_sms() > 0 ? setup_.device.num_sms() : 0;
}

int RankStreams::sms_beside_movers() const {
  const cuda::RankProgram& program = setup_.program;
  for (const cuda::StepStream& stream : program.streams) {
    if (stream.kind != LaneKind::comm) continue;
    const auto blocks = static_cast<int>(program.moves[stream.steps.front().index].size());
    return std::max(1, setup_.device.num_sms() - blocks);
  }
  return sms_for_library();
}

// Each is cuBLAS's, of few rows or of experts.
void RankStreams::add_products() {
  const cuda::RankProgram& program = setup_.program;
  for (size_t k = 0; k < program.gemms.size(); ++k) {
    const cuda::GemmNeeds& needs = program.needs[k];
    if (!needs.library) continue;
    // All that a gather's last kernel reads has come; of a reduction's last movers wait to send it.
    const bool is_alone = k + 1 == program.gemms.size() && !setup_.plan.op.ends_with_terms();
    const int sms = is_alone ? sms_for_library() : sms_beside_movers();
    const bool by_experts = cuda::is_by_experts(needs);
    if (needs.few_rows) add_few_rows(static_cast<uint32_t>(k));
    experts_.add(by_experts ? cuda::expert_products_of(setup_.plan, *program.sums, program.gemms[k])
                            : std::vector<cuda::ExpertProduct>(),
                 needs, sms);
    if (by_experts || needs.few_rows) {
      library_.add_none();
    } else {
      library_.add(cuda::products_of(setup_.plan, program.gemms[k]), *needs.library, sms);
    }
  }
  library_.take_memory();
  alternates_ = alternates_ || library_.alternates() || experts_.alternates();
}

void RankStreams::multiply(uint32_t kernel, const Stream& stream, int set, const RowsOfCall& rows,
                           bool starts_early) {
  experts_.launch(kernel, stream, starts_early, kernels_overlap_);
  library_.launch(kernel, stream, set, rows, call_.places);
}

void RankStreams::enqueue_products(const Stream& stream) {
  if (library_.is_any()) library_.launch_every_algorithm(stream, places_before_calls());
}

}  // namespace stretto::runtime
