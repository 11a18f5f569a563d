// Collectives that go by ids: rows to the ranks of the experts that they choose, and weighted sums
// of what these made of them.
#include <cstring>
#include <optional>

#include "emu/collectives.h"
#include "plan/chosen_operands.h"
#include "stretto/device/fused.h"
#include "stretto/device/routing.h"
#include "tasks/elements.h"

namespace stretto::emu {
namespace {

// A matrix that ranks have rows of, or each all of them.
class Rows {
 public:
  Rows(std::vector<const Payload*> parts, std::vector<int64_t> counts, int64_t element_bytes)
      : parts_(std::move(parts)), counts_(std::move(counts)), bytes_(element_bytes) {}

  const std::byte* row(int64_t row) const {
    size_t part = 0;
    while (row >= counts_[part]) row -= counts_[part++];
    return parts_[part]->bytes.get() + row * parts_[part]->stride * bytes_;
  }

 private:
  std::vector<const Payload*> parts_;
  std::vector<int64_t> counts_;
  int64_t bytes_;
};

// An operand of all ranks' parts, of so many rows.
template <class Parts>
Rows rows_of(const Plan& plan, const Parts& parts, size_t operand, int64_t rows) {
  std::vector<const Payload*> payloads;
  std::vector<int64_t> counts;
  DType dtype = DType::bf16;
  for (const auto& part : parts) {
    const Region& region = plan.reads(plan.lanes[part.where.lane].instrs[part.where.pos])[operand];
    dtype = plan.buffers[region.buffer].dtype;
    payloads.push_back(&(*part.reads)[operand]);
    counts.push_back(region.rows());
    if (counts.back() == rows) break;  // each has all, or the others have none
  }
  return Rows(payloads, counts, num_bytes(dtype));
}

// The choices of all tokens.
class ChosenExperts {
 public:
  ChosenExperts(const ChosenOperands& of, int ranks, const Rows& ids, DType dtype)
      : of_(of), ranks_(ranks), ids_(static_cast<size_t>(of.tokens * of.top_k)) {
    for (int64_t token = 0; token < of.tokens; ++token) {
      const std::byte* const row = ids.row(token);
      for (int64_t slot = 0; slot < of_.top_k; ++slot) {
        ids_[static_cast<size_t>(token * of_.top_k + slot)] =
            dtype == DType::i64 ? device::narrow_id(reinterpret_cast<const int64_t*>(row)[slot])
                                : reinterpret_cast<const int32_t*>(row)[slot];
      }
    }
  }

  const std::vector<int32_t>& ids() const { return ids_; }
  int32_t id(int64_t choice) const { return ids_[static_cast<size_t>(choice)]; }
  bool is_on(int rank, int64_t choice) const {
    const int32_t number = number_on(rank, choice);
    return number >= 0 && number < of_.experts_on(rank, ranks_);
  }
  bool goes_to(int rank, int64_t token) const {
    for (int64_t slot = 0; slot < of_.top_k; ++slot) {
      if (is_on(rank, token * of_.top_k + slot)) return true;
    }
    return false;
  }
  int32_t number_on(int rank, int64_t choice) const {
    return id(choice) - of_.first_expert(rank, ranks_);
  }
  int64_t bad() const {
    int64_t count = 0;
    for (const int32_t id : ids_) count += id != -1 && (id < 0 || id >= of_.experts);
    return count;
  }

 private:
  ChosenOperands of_;
  int ranks_;
  std::vector<int32_t> ids_;
};

}  // namespace

void Collectives::send_chosen(const std::vector<Part>& parts) {
  const Instr& first = instr(parts[0].where);
  const ChosenOperands of = chosen_operands(plan_, first);
  const auto ranks = static_cast<int>(parts.size());
  const DType dtype = memory_.buffer(plan_.reads(first)[0]).dtype;
  const Rows x = rows_of(plan_, parts, 0, of.tokens);
  const ChosenExperts chosen(of, ranks, rows_of(plan_, parts, 1, of.tokens),
                             memory_.buffer(plan_.reads(first)[1]).dtype);
  const auto row_bytes = static_cast<size_t>(of.cols * num_bytes(dtype));
  const bool counts_bad = counts_bad_ids(plan_, first);
  const int64_t choices = of.tokens * of.top_k, all = of.by_choice ? choices : of.tokens;
  for (int rank = 0; rank < ranks; ++rank) {
    const Part& part = parts[static_cast<size_t>(rank)];
    const Dispatched to = dispatched(plan_, instr(part.where));
    Payload rows = Payload::make(all, of.cols, num_bytes(dtype));
    tasks::fill_poison(dtype, rows.bytes.get(), static_cast<size_t>(all * of.cols));
    for (int64_t i = 0; i < all; ++i) {
      const bool is_here = of.by_choice ? chosen.is_on(rank, i) : chosen.goes_to(rank, i);
      if (!is_here) continue;
      std::memcpy(rows.bytes.get() + static_cast<size_t>(i) * row_bytes,
                  x.row(of.by_choice ? i / of.top_k : i), row_bytes);
    }
    in_flight_.write(part.where, *to.rows, rows, 0);
    if (counts_bad) tasks_.bad_ids().add(part.where.run, rank, true, chosen.bad());
    if (to.ids) {
      Payload ids = Payload::make(of.tokens, of.top_k, sizeof(int32_t));
      std::memcpy(ids.bytes.get(), chosen.ids().data(), chosen.ids().size() * sizeof(int32_t));
      in_flight_.write(part.where, *to.ids, ids, 0);
    }
    if (to.weights) {
      const Rows weights = rows_of(plan_, parts, 2, of.tokens);
      Payload all_weights = Payload::make(of.tokens, of.top_k, sizeof(float));
      for (int64_t token = 0; token < of.tokens; ++token) {
        std::memcpy(all_weights.bytes.get() + token * of.top_k * int64_t{sizeof(float)},
                    weights.row(token), static_cast<size_t>(of.top_k) * sizeof(float));
      }
      in_flight_.write(part.where, *to.weights, all_weights, 0);
    }
    if (to.counts && !to.counts->empty()) {
      Payload counts = Payload::make(to.counts->rows(), 1, sizeof(int32_t));
      auto* const of_expert = reinterpret_cast<int32_t*>(counts.bytes.get());
      std::memset(of_expert, 0, static_cast<size_t>(to.counts->rows()) * sizeof(int32_t));
      for (int64_t i = 0; i < choices; ++i) {
        if (chosen.is_on(rank, i)) ++of_expert[chosen.number_on(rank, i)];
      }
      in_flight_.write(part.where, *to.counts, counts, 0);
    }
  }
}

void Collectives::sum_chosen(const std::vector<Part>& parts) {
  const Instr& first = instr(parts[0].where);
  const ChosenOperands of = chosen_operands(plan_, first);
  const auto ranks = static_cast<int>(parts.size());
  const DType dtype = memory_.buffer(plan_.writes(first)[0]).dtype;
  const auto bytes = num_bytes(dtype);
  const auto columns = static_cast<size_t>(of.cols);
  std::vector<float> values(columns), sums(columns), all(columns);
  std::vector<std::byte> rounded(columns * static_cast<size_t>(bytes));
  std::vector<Payload> results;
  for (const Part& part : parts) {
    results.push_back(Payload::make(plan_.writes(instr(part.where))[0].rows(), of.cols, bytes));
  }
  const Rows weights = rows_of(plan_, parts, 0, of.tokens);
  const ChosenExperts chosen(of, ranks, rows_of(plan_, parts, 1, of.tokens),
                             memory_.buffer(plan_.reads(first)[1]).dtype);
  const std::optional<Rows> own =
      of.round_trip ? std::optional(rows_of(plan_, parts, 2, of.tokens)) : std::nullopt;
  const RowShards shards{of.tokens, ranks};
  for (int64_t token = 0; token < of.tokens; ++token) {
    std::fill(all.begin(), all.end(), 0.0f);
    const auto* const weight = reinterpret_cast<const float*>(weights.row(token));
    for (int rank = 0; rank < ranks; ++rank) {
      if (!chosen.goes_to(rank, token)) continue;
      const std::vector<Payload>& reads = *parts[static_cast<size_t>(rank)].reads;
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t slot = 0; slot < of.top_k; ++slot) {
        const int64_t choice = token * of.top_k + slot;
        if (!chosen.is_on(rank, choice)) continue;
        int64_t row = of.by_choice ? choice : token;
        if (reads.size() == 4) row = reinterpret_cast<const int32_t*>(reads[3].bytes.get())[choice];
        const std::byte* const from =
            own ? own->row(token) : reads[2].bytes.get() + row * of.cols * bytes;
        tasks::widen(dtype, from, values.data(), columns);
        for (size_t i = 0; i < columns; ++i) {
          sums[i] = device::fused(weight[slot], values[i], sums[i]);
        }
      }
      tasks::round_elements(dtype, sums.data(), rounded.data(), columns);
      tasks::add_elements(dtype, rounded.data(), all.data(), columns);
    }
    const int owner = shards.owner(token);
    std::byte* const to = results[static_cast<size_t>(owner)].bytes.get() +
                          (token - shards.begin(owner)) * of.cols * bytes;
    tasks::round_elements(dtype, all.data(), to, columns);
  }
  const bool counts_bad = counts_bad_ids(plan_, first);
  for (int rank = 0; rank < ranks; ++rank) {
    const Part& part = parts[static_cast<size_t>(rank)];
    in_flight_.write(part.where, plan_.writes(instr(part.where))[0],
                     results[static_cast<size_t>(rank)], 0);
    if (counts_bad) tasks_.bad_ids().add(part.where.run, rank, true, chosen.bad());
  }
}

}  // namespace stretto::emu
