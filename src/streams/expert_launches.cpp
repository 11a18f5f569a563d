#include "streams/expert_launches.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "launch/expert_chain.h"
#include "tables/call_lists.h"

namespace stretto::runtime {

using cuda::ExpertProduct;
using cuda::GroupedOperands;
using cuda::Matrix;

void ExpertLaunches::add(const std::vector<ExpertProduct>& products, const cuda::GemmNeeds& needs,
                         int sms, std::optional<uint32_t> ahead) {
  std::vector<Launch>& launches = by_kernel_.emplace_back();
  for (const ExpertProduct& product : products) {
    const bool is_partition_early = ahead || !launches.empty();
    Launch& launch = launches.emplace_back();
    launch.product = product;
    launch.needs = needs;
    const device::GroupedConfig config = cuda::config_for(setup_.plan, needs, product);
    launch.kernel = &setup_.kernels.experts(setup_.device, config);
    launch.blocks = sms > 0 ? sms : setup_.device.num_sms();
    launch.tickets = cuda::upload(std::vector<uint32_t>(2, 0));
    for (int set = 0; set < setup_.sets; ++set) {
      GroupedOperands& operands = launch.by_set.emplace_back().operands;
      operands = operands_of(product, needs.scatters, set, launch.tickets.address());
      operands.low_experts = std::min<int64_t>(
          product.experts, cuda::low_experts(config, cuda::shape_of(product), launch.blocks));
      operands.is_partition_early = is_partition_early;
    }
  }
  if (ahead && launches.size() == 1) await_tiles(launches.front(), by_kernel_[*ahead]);
}

// Where each block has one tile of the kernel ahead, they all end at about the same time. Low tiles
// at its end are for blocks that would have nothing to do.
void ExpertLaunches::await_tiles(Launch& launch, std::vector<Launch>& ahead) const {
  if (!setup_.device.can_overlap() || ahead.size() != 1 ||
      !device::can_await_tiles(launch.kernel->config())) {
    return;
  }
  Launch& first = ahead.front();
  if (first.by_set.front().operands.ahead.words != 0) return;  // more may still run ahead of it
  const device::GroupedConfig& config = first.kernel->config();
  const bool has_more_tiles =
      cuda::expected_tiles(config, cuda::shape_of(first.product)) * config.ranges > first.blocks;
  if (!has_more_tiles || !cuda::follows_by_tiles(setup_.plan, first.product, first.needs,
                                                 launch.product, launch.needs)) {
    return;
  }
  const uint32_t words =
      device::stored_words(static_cast<uint32_t>(first.product.experts),
                           static_cast<uint32_t>(first.by_set.front().operands.most_rows));
  first.stored = cuda::upload(std::vector<uint32_t>(words, 0));
  for (size_t set = 0; set < launch.by_set.size(); ++set) {
    GroupedOperands& stores = first.by_set[set].operands;
    stores.stored = first.stored.address();
    stores.low_experts = 0;
    launch.by_set[set].operands.ahead = cuda::counted_tiles(config, stores);
  }
}

GroupedOperands ExpertLaunches::operands_of(const ExpertProduct& product, bool scatters, int set,
                                            cuda::DevicePtr tickets) const {
  const auto address_of = [&](const Region& region, int32_t row) {
    return cuda::address_of(setup_.places, setup_.rank, region.buffer, set) +
           cuda::offset_of(setup_.plan.buffers[region.buffer], row, region.col0);
  };
  const auto matrix_of = [&](const Region& region) {
    const Buffer& buffer = setup_.plan.buffers[region.buffer];
    return Matrix{address_of(region, region.row0), region.rows(), region.cols(), buffer.cols,
                  buffer.dtype};
  };
  GroupedOperands operands;
  operands.experts = product.experts;
  operands.expert_rows = product.each;
  operands.most_rows = product.c.rows();
  operands.entry_rows = product.entry_rows;
  operands.tokens = matrix_of(product.a);
  operands.output = matrix_of(product.c);
  if (scatters) {  // memory has a row for each choice
    operands.output.address = address_of(product.c, product.rows.row0);
    operands.output.rows = product.rows.rows();
  }
  operands.weights = matrix_of(product.gate);
  operands.weights.rows = int64_t{product.experts - 1} * product.each + product.c.cols();
  if (product.up.rows() > 0) {
    operands.up = matrix_of(product.up);
    operands.up.rows = operands.weights.rows;
  }
  operands.rows_of_expert = address_of(product.counts, product.counts.row0);
  operands.sources = operands.targets = address_of(product.choices, product.choices.row0);
  operands.per = product.per;
  operands.tickets = tickets;
  return operands;
}

bool ExpertLaunches::is_any() const {
  return std::any_of(by_kernel_.begin(), by_kernel_.end(),
                     [](const auto& launches) { return !launches.empty(); });
}

bool ExpertLaunches::alternates() const {
  const auto places_of = [](const GroupedOperands& o) {
    return std::tuple(o.tokens.address, o.output.address, o.weights.address, o.up.address,
                      o.rows_of_expert, o.sources);
  };
  for (const std::vector<Launch>& launches : by_kernel_) {
    for (const Launch& one : launches) {
      for (const OfSet& of_set : one.by_set) {
        if (places_of(of_set.operands) != places_of(one.by_set.front().operands)) return true;
      }
    }
  }
  return false;
}

// A call at new addresses changes what hangs on these: often weights alone, of which each launch
// has one map, where tokens and results have more than twenty.
void ExpertLaunches::prepare(int set, cuda::CallPlaces places) {
  for (std::vector<Launch>& launches : by_kernel_) {
    for (Launch& one : launches) {
      OfSet& of_set = one.by_set[static_cast<size_t>(set)];
      GroupedOperands operands = of_set.operands;
      for (Matrix* const matrix :
           {&operands.tokens, &operands.output, &operands.weights, &operands.up}) {
        *matrix = cuda::at_call(*matrix, places);
      }
      const bool is_made = std::exchange(of_set.is_made, false);  // until all is of this run
      if (is_made) {
        change_matrices(of_set.params, one.kernel->config(), of_set.of_run, operands);
      } else {
        of_set.params = grouped_params(one.kernel->config(), operands);
      }
      of_set.of_run = operands;
      of_set.is_made = true;
      one.params = &of_set.params;
    }
  }
}

void ExpertLaunches::launch(uint32_t number, const cuda::Stream& stream, bool starts_early,
                            bool overlap) const {
  for (const Launch& one : by_kernel_[number]) {
    const bool is_first = &one == by_kernel_[number].data();
    one.kernel->launch(stream, one.blocks, *one.params, is_first ? starts_early : overlap);
  }
}

void ExpertLaunches::restart() {
  const auto clear = [](cuda::DeviceMemory& words) {
    const std::vector<uint32_t> zeros(words.num_bytes() / sizeof(uint32_t), 0);
    if (!zeros.empty()) words.upload(zeros.data(), words.num_bytes());
  };
  for (std::vector<Launch>& launches : by_kernel_) {
    for (Launch& launch : launches) {
      clear(launch.tickets);
      clear(launch.stored);
    }
  }
}

}  // namespace stretto::runtime
