// What a run of a rank consists of: its kernels with their tables, and an op for each step.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/library_products.h"
#include "runtime/rank_streams.h"
#include "stretto/error.h"

namespace stretto::runtime {

using cuda::DevicePtr;
using cuda::Step;
using cuda::StepKind;

device::SignalSpace RankStreams::space_of(KernelPlace place, int blocks) {
  device::SignalSpace space = setup_.space;
  space.runs = counts_.add(blocks);
  space.kernel = static_cast<uint32_t>(places_of_kernels_.size());
  places_of_kernels_.push_back(std::move(place));
  return space;
}

void RankStreams::add_kernels() {
  const cuda::RankProgram& program = setup_.program;
  cuda::RankTables tables = cuda::tables_for(setup_.plan, setup_.rank, program, setup_.places,
                                             setup_.signals, setup_.serves);
  for (size_t i = 0; i < tables.gemms.size(); ++i) {
    cuda::encode_maps(tables.gemms[i], tables.config);
    const auto blocks = static_cast<int>(tables.gemms[i].table.blocks.size());
    gemms_.emplace_back(tables.gemms[i].table, space_of({&program.gemms[i], {}}, blocks),
                        setup_.marks);
    add_marks(tables.gemms[i].lanes, tables.gemms[i].positions);
  }
  for (size_t i = 0; i < tables.moves.size(); ++i) {
    const auto blocks = static_cast<int>(tables.moves[i].blocks.size());
    moves_.emplace_back(tables.moves[i], space_of({&program.moves[i], {}}, blocks), setup_.marks);
    add_marks(tables.moves[i].lanes, tables.moves[i].positions);
  }
  if (setup_.plan.library_gemms && !program.gemms.empty()) add_products();
  if (!gemms_.empty()) gemm_ = &setup_.kernels.gemm(setup_.device, tables.config);
  require_clusters();
  if (!moves_.empty() && !program.joins()) mover_ = &setup_.kernels.mover(setup_.device);
}

// Blocks of a cluster stand on SMs of one part of the GPU, so a GPU may hold fewer pairs than its
// SMs are; and all of a kernel's must be there at once, since they wait for each other.
void RankStreams::require_clusters() const {
  if (gemm_ == nullptr) return;
  const device::GemmLayout layout = device::layout_of(gemm_->config());
  if (layout.cluster == 1) return;
  const int held = gemm_->kernel().resident_clusters(layout.threads, layout.cluster);
  const int ranks = setup_.device.ranks();
  for (const cuda::DeviceGemmTable& table : gemms_) {
    int blocks = table.num_blocks();
    if (setup_.program.joins()) {
      const auto movers = static_cast<uint32_t>(moves_[0].num_blocks());
      blocks += static_cast<int>(device::mover_blocks(gemm_->config(), movers));
    }
    const int needed = blocks / layout.cluster;
    if (needed * ranks <= held) continue;
    throw UsageError(fmt::format(
        "a rank of the plan has {} clusters of {} blocks, this GPU holds {} at once{}: lower it "
        "for "
        "a machine with sms={}, or with cluster=1",
        needed, layout.cluster, held, ranks > 1 ? fmt::format(", of {} ranks", ranks) : "",
        held / ranks * layout.cluster));
  }
}

// A library's blocks for which movers leave no SM would run after all the others, in the time of
// two products. Movers stay until their last task has ended.
int RankStreams::sms_beside_movers() const {
  const cuda::RankProgram& program = setup_.program;
  for (const cuda::StepStream& stream : program.streams) {
    if (stream.kind != LaneKind::comm) continue;
    const auto blocks = static_cast<int>(program.moves[stream.steps.front().index].size());
    return std::max(1, setup_.device.num_sms() - blocks);
  }
  return 0;
}

void RankStreams::add_products() {
  library_ = std::make_unique<cuda::MatmulLibrary>(setup_.most_proposals);
  const auto matrix_of = [&](const Region& region, int set) {
    const Buffer& buffer = setup_.plan.buffers[region.buffer];
    return cuda::Matrix{cuda::address_of(setup_.places, region.rank, region.buffer, set) +
                            cuda::offset_of(buffer, region.row0, region.col0),
                        region.rows(), region.cols(), buffer.cols, buffer.dtype};
  };
  size_t workspace = 0, row = 0;
  for (size_t k = 0; k < setup_.program.gemms.size(); ++k) {
    const std::vector<cuda::BlockPart>& kernel = setup_.program.gemms[k];
    // All that a gather's last kernel reads has come; of a reduction's last movers wait to send it.
    const bool is_alone = k + 1 == setup_.program.gemms.size() && !setup_.plan.op.reduces();
    const int sms = is_alone ? 0 : sms_beside_movers();
    auto& by_set = products_.emplace_back(static_cast<size_t>(sets_));
    const std::vector<cuda::Product> found = cuda::products_of(setup_.plan, kernel);
    if (setup_.serves && (found.size() != 1 || found.front().c.rows() != setup_.plan.op.m)) {
      throw UsageError("a library serves fewer rows where all of a rank's are one product");
    }
    for (const cuda::Product& product : found) {
      for (int set = 0; set < sets_; ++set) {
        const cuda::Matrix c = matrix_of(product.c, set);
        auto& products = by_set[static_cast<size_t>(set)];
        products.push_back(
            product_of(matrix_of(product.a, set), matrix_of(product.b, set), c, sms));
        alternates_ = alternates_ || products.back().places != by_set.front().back().places;
        row = std::max(row, static_cast<size_t>(c.stride * num_bytes(c.dtype)));
        workspace = std::max(workspace, matmuls_[products.back().matmul].matmul.workspace_bytes());
      }
    }
  }
  workspace_ = cuda::DeviceMemory(workspace);
  if (setup_.serves) spare_rows_ = cuda::DeviceMemory(row * kSpareRows);
}

RankStreams::MatrixProduct RankStreams::product_of(const cuda::Matrix& a, const cuda::Matrix& b,
                                                   const cuda::Matrix& c, int sms) {
  std::array shape = {a, b, c};
  for (cuda::Matrix& matrix : shape) matrix.address = cuda::alignment_of(matrix.address);
  size_t i = 0;
  while (i < matmuls_.size() && (matmuls_[i].shape != shape || matmuls_[i].sms != sms)) ++i;
  if (i == matmuls_.size()) {
    // Fewer rows want smaller tiles. A run may have any number of them; and what a small bucket
    // needs is loaded with a large one.
    std::vector<int64_t> steps = {a.rows};
    for (int64_t rows = kFewestRows; setup_.serves && rows < a.rows; rows *= 2) {
      steps.insert(steps.end() - 1, rows);
    }
    matmuls_.push_back(
        {shape, sms, cuda::LibraryMatmul(*library_, a, b, c, steps, setup_.algorithm, sms)});
  }
  return {i, {a.address, b.address, c.address}};
}

int RankStreams::num_proposed() const {
  int least = kMostAlgorithms;
  for (const SharedMatmul& shared : matmuls_) least = std::min(least, shared.matmul.num_proposed());
  return least;
}

void RankStreams::add_marks(std::vector<uint32_t>& lanes,
                            std::vector<std::vector<uint32_t>>& positions) {
  if (setup_.marks) marks_.push_back({std::move(lanes), std::move(positions), {}});
}

void RankStreams::add_ops() {
  const cuda::RankProgram& program = setup_.program;
  for (size_t at = 0; at < program.order.size();) {
    const auto [stream, position] = program.order[at];
    const Step& step = program.streams[stream].steps[position];
    // Waits that follow each other in a stream are one kernel, and so are notifies.
    std::vector<Step> same = {step};
    for (++at; at < program.order.size() && program.order[at].first == stream; ++at) {
      const Step& next = program.streams[stream].steps[program.order[at].second];
      if (next.kind != step.kind ||
          (step.kind != StepKind::wait && step.kind != StepKind::notify)) {
        break;
      }
      same.push_back(next);
    }
    switch (step.kind) {
      case StepKind::gemm:
        ops_.push_back({OpKind::gemm, stream, step.index});
        break;
      case StepKind::move:
        ops_.push_back({OpKind::move, stream, step.index});
        break;
      case StepKind::wait:
        add_waits(stream, same);
        break;
      case StepKind::notify:
        add_notifies(stream, same);
        break;
      case StepKind::copy:
        add_copy(stream, step);
        break;
      case StepKind::collective:
        add_collective(stream, step);
        break;
      case StepKind::record:
        ops_.push_back({OpKind::record, stream, step.index});
        break;
      case StepKind::await:
        ops_.push_back({OpKind::await, stream, step.index});
        break;
    }
  }
}

DevicePtr RankStreams::counter(const Instr& wait) const {
  return reinterpret_cast<DevicePtr>(setup_.space.own) +
         uint64_t{setup_.signals.index_of(wait.signal)} * device::kSignalStride * 8;
}

void RankStreams::add_waits(uint32_t stream, const std::vector<Step>& steps) {
  std::vector<device::WaitEntry> entries;
  std::vector<Step> by_kernel;
  for (const Step& step : steps) {
    const Instr& instr = step.instr(setup_.plan);
    if (setup_.signals.is_relative(setup_.rank, setup_.signals.index_of(instr.signal))) {
      ops_.push_back({OpKind::wait_value, stream, static_cast<uint32_t>(value_waits_.size())});
      value_waits_.push_back(
          {step, counter(instr), setup_.signals.relative_threshold(setup_.rank, instr)});
    } else {
      entries.push_back(setup_.signals.wait_entry(setup_.plan, setup_.rank, instr));
      by_kernel.push_back(step);
    }
  }
  if (entries.empty()) return;
  ops_.push_back({OpKind::wait, stream, static_cast<uint32_t>(waits_.size())});
  const device::SignalSpace space = space_of({nullptr, by_kernel});
  waits_.push_back({space, entries_.emplace_back(cuda::upload(entries)).as<device::WaitEntry>(),
                    static_cast<uint32_t>(entries.size()), 0});
}

void RankStreams::add_notifies(uint32_t stream, const std::vector<Step>& steps) {
  std::vector<device::NotifyEntry> entries;
  std::vector<cuda::CopiedNotify> copied;
  for (const Step& step : steps) {
    if (const auto* notify = setup_.copied_notifies.of(step.lane, step.position)) {
      copied.push_back(*notify);
    } else {
      entries.push_back(setup_.signals.notify_entry(setup_.plan, step.instr(setup_.plan)));
    }
  }
  if (!copied.empty()) add_copied_notifies(stream, cuda::last_of_each_counter(copied));
  if (entries.empty()) return;
  ops_.push_back({OpKind::notify, stream, static_cast<uint32_t>(notifies_.size())});
  notifies_.push_back({space_of({}),
                       entries_.emplace_back(cuda::upload(entries)).as<device::NotifyEntry>(),
                       static_cast<uint32_t>(entries.size()), 0});
}

void RankStreams::add_copied_notifies(uint32_t stream,
                                      const std::vector<cuda::CopiedNotify>& notifies) {
  ops_.push_back({OpKind::copied_notify, stream, static_cast<uint32_t>(copied_ranges_.size())});
  copied_ranges_.push_back({copied_.size(), notifies.size()});
  copied_.insert(copied_.end(), notifies.begin(), notifies.end());
}

void RankStreams::place_copied_notifies() {
  words_ = cuda::DeviceMemory(copied_.size() * sizeof(uint64_t));
  const std::span<const cuda::CopiedNotify> all(copied_);
  for (const auto& [first, count] : copied_ranges_) {
    auto& by_set = copied_transfers_.emplace_back();
    for (int set = 0; set < sets_; ++set) {
      by_set.push_back(cuda::transfers_of(all.subspan(first, count),
                                          words_.address() + first * sizeof(uint64_t),
                                          setup_.counters, set));
      alternates_ = alternates_ || by_set.back() != by_set.front();
    }
  }
  restart();
}

void RankStreams::add_copy(uint32_t stream, const Step& step) {
  ops_.push_back({OpKind::copy, stream, static_cast<uint32_t>(copies_.size())});
  auto& by_set = copies_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::transfers_of(setup_.plan, step.instr(setup_.plan), setup_.places, set));
    alternates_ = alternates_ || by_set.back() != by_set.front();
  }
}

void RankStreams::add_collective(uint32_t stream, const Step& step) {
  if (setup_.low_latency != nullptr) {
    ops_.push_back({OpKind::collective, stream, static_cast<uint32_t>(low_latency_.size())});
    LowLatencyOp& made = low_latency_.emplace_back();
    made.id = step.instr(setup_.plan).id;
    for (int set = 0; set < sets_; ++set) {
      made.by_set.push_back(
          cuda::low_latency_call(setup_.plan, step.lane, step.position, setup_.places, set));
      alternates_ = alternates_ || made.by_set.back() != made.by_set.front();
    }
    return;
  }
  STRETTO_ASSERT(setup_.communicators != nullptr, "collectives come with communicators");
  ops_.push_back({OpKind::collective, stream, static_cast<uint32_t>(collectives_.size())});
  auto& by_set = collectives_.emplace_back();
  for (int set = 0; set < sets_; ++set) {
    by_set.push_back(cuda::nccl_calls(setup_.plan, step.lane, step.position, setup_.places, set));
    alternates_ = alternates_ || by_set.back() != by_set.front();
  }
}

void RankStreams::add_ends_of_run() {
  if (alternates_) check_set_ = {space_of({}), 0, static_cast<uint32_t>(sets_)};
  std::vector<device::RelativeCounter> counters;
  for (uint32_t signal = 0; signal < setup_.signals.num_signals(); ++signal) {
    if (!setup_.signals.is_relative(setup_.rank, signal)) continue;
    counters.push_back({signal, 0, setup_.signals.per_run(setup_.rank, signal)});
  }
  std::vector<device::CopiedWord> copied;
  for (const cuda::CopiedNotify& notify : copied_) {
    copied.push_back({notify.per_run, notify.copies, 0});
  }
  // A run without any kernel has one all the same, so that the host sees runs go by; but not where
  // it would take its time behind a library's kernels.
  if (counters.empty() && copied.empty() && (!counts_.empty() || library_)) return;
  advance_ = {space_of({}),
              entries_.emplace_back(cuda::upload(counters)).as<device::RelativeCounter>(),
              entries_.emplace_back(cuda::upload(copied)).as<device::CopiedWord>(),
              words_.as<device::uint64>(),
              static_cast<uint32_t>(counters.size()),
              static_cast<uint32_t>(copied.size())};
}

}  // namespace stretto::runtime
