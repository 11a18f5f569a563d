// Tokens of a product of routed rows: they go to who multiplies them, and tables say which rows are
// whose.
#include <algorithm>

#include "lower/routed_emission.h"

namespace stretto {
namespace {

class RoutedTokens {
 public:
  explicit RoutedTokens(RoutedEmission& of) : of_(of), product_(of.product), blocks_(of.blocks) {}

  void emit() {
    if (blocks_.by_choice) return emit_by_choice();
    const bool is_first = !blocks_.has_tables;
    blocks_.has_tables = true;
    if (product_.by_lanes()) {
      send_by_lanes(is_first);
    } else if (product_.by_copies()) {
      send_by_copies(is_first);
    } else if (product_.goes_by_ids()) {
      if (is_first && product_.x.is_gathered) dispatch_by_ids(of_);
      if (is_first) make_tables();
    } else {
      if (is_first) gather(product_.ids);
      gather(product_.weights);
      gather_x();
      if (is_first) make_tables();
    }
    if (product_.permuted && !product_.is_block_by_block()) permute();
  }

  void permute(int turn) {
    permute_blocks(turn);
    if (of_.events) of_.boundaries();
  }

 private:
  // The caller has the rows. Ids are counted, so that those of no expert are known, by a lane that
  // has nothing else.
  void emit_by_choice() {
    gather(product_.ids);
    gather(product_.weights);
    for (int i = 0; of_.events && i < 2; ++i) of_.boundaries();
    for (int rank = 0; rank < of_.ranks; ++rank) {
      of_.emit.read(of_.rows_of_block(product_.ids, 0, rank, 0, of_.tokens_of(0)));
      of_.emit.write(
          region_of({0, 1, 0, blocks_.experts_of_rank(rank) + 1}, blocks_.part_counts, rank));
      of_.emit.counted_task(product_.lanes.compute_lane(rank, product_.lanes.compute - 1),
                            Opcode::count_choices, {blocks_.all_experts});
    }
  }

  // What peers send is awaited at the boundary behind the one at which they notify.
  void send_by_lanes(bool is_first) {
    if (is_first) gather(product_.ids);
    if (!product_.has_sent_weights) gather(product_.weights);
    if (is_first) send_others_weights();
    const bool sends = is_first || product_.x.is_gathered || !product_.has_sent_weights;
    if (!sends) return;
    sends_beside_tables_ = is_first && !is_sent_with_ids();
    if (is_first && !sends_beside_tables_) gather_x();
    of_.boundaries();
    taken_ = 0;
    if (is_first) {
      make_tables();
    } else {
      of_.boundaries();
      gather_x();
      of_.boundaries();
    }
    of_.boundaries();
  }

  // What peers send tables are made of is awaited as there; tokens are on their way from the first.
  void send_by_copies(bool is_first) {
    if (is_first) gather(product_.ids);
    if (!product_.has_sent_weights) gather(product_.weights);
    if (is_first) send_others_weights();
    const bool sends = is_first || product_.x.is_gathered || !product_.has_sent_weights;
    copy_x();
    if (!sends) return;
    of_.boundaries();
    taken_ = 0;
    is_first ? make_tables() : of_.boundaries();
  }

  // To the next rank first: it takes them behind its own. Lanes copy own rows, where a partition is
  // of all tokens.
  void copy_x() {
    const GatheredRows& rows = product_.x;
    if (!rows.is_gathered) return;
    for (int i = 1; i < of_.ranks; ++i) {
      for (int rank = 0; rank < of_.ranks; ++rank) {
        const int to = (rank + i) % of_.ranks;
        const Region own = of_.own_rows(rows, rank);
        if (own.empty()) continue;
        of_.emit.read(own);
        of_.emit.write(of_.rows_of_source(rows, rank, to));
        of_.emit.task(product_.lanes.copy_lane(rank, of_.copy_queue(rank, to)), Opcode::copy);
      }
    }
    for (int rank = 0; !blocks_.by_source && rank < of_.ranks; ++rank) {
      const Region own = of_.own_rows(rows, rank);
      const int parts = std::min(std::max(1, product_.lanes.compute - taken_), own.rows());
      for (int part = 0; part < parts; ++part) {
        of_.emit.read(cut(own, part, parts));
        of_.emit.write(cut(of_.rows_of_source(rows, rank, rank), part, parts));
        of_.emit.task(of_.compute_lane(rank), Opcode::copy);
      }
    }
  }

  // Rows that take the link no longer than ids take their kernel, so that one notify and one wait
  // serve both; and all where many lanes make tables, and none would be left beside them.
  bool is_sent_with_ids() const {
    constexpr int64_t kFewBytes = 3 << 20;
    const Region own = of_.own_rows(product_.x, 0);
    const int64_t bytes = own.elements() * num_bytes(of_.state.plan.buffers[own.buffer].dtype);
    return blocks_.parts > 1 || bytes * (of_.ranks - 1) <= kFewBytes;
  }

  // Those of products behind this one too, so that no kernel between the two has to.
  void send_others_weights() {
    for (RoutedLowering& other : of_.state.routed) {
      const bool is_other = &other != &product_ && other.of_part == product_.of_part;
      const bool is_alike = other.by_lanes() || other.by_copies();
      if (!is_other || other.blocks != product_.blocks || !is_alike) continue;
      gather(other.weights);
      other.has_sent_weights = true;
    }
  }

  // Every rank's rows to all ranks.
  void gather(const GatheredRows& rows) {
    if (rows.tensor < 0 || !rows.is_gathered) return;
    if (product_.by_nccl()) return all_gather(rows);
    ++taken_;
    for (int rank = 0; rank < of_.ranks; ++rank) {
      const Region own = of_.own_rows(rows, rank);
      if (own.empty()) continue;
      of_.emit.read(own);
      for (int i = 0; i < of_.ranks; ++i) {
        of_.emit.write(of_.rows_of_source(rows, rank, (rank + i) % of_.ranks));
      }
      of_.emit.task(lane(rank), Opcode::copy);
    }
  }

  // Of what sends tokens.
  uint32_t lane(int rank) {
    return product_.is_ahead() ? of_.compute_lane(rank) : of_.comm_lane(rank);
  }

  // To the previous rank first: it takes them next.
  void gather_x() {
    const GatheredRows& rows = product_.x;
    if (!rows.is_gathered) return;
    if (product_.by_nccl()) return all_gather(rows);
    for (int rank = 0; rank < of_.ranks; ++rank) {
      const Region own = of_.own_rows(rows, rank);
      if (product_.by_lanes() && !product_.has_shares_of_experts()) {
        send_to_all(rank);
        continue;
      }
      const int parts = std::min(parts_to_each(), own.rows());
      for (int i = 1; i <= of_.ranks; ++i) {
        const int to = (rank - i + of_.ranks) % of_.ranks;
        // Own rows are taken from where they lie, unless a partition is of all tokens.
        if (to == rank && blocks_.by_source) continue;
        for (int part = 0; part < parts; ++part) send_part(rank, to, part, parts);
      }
    }
  }

  // Those that have nothing else to do meanwhile: a kernel's block does one task after the other,
  // and tables are made by the kernel of senders only where other lanes make them.
  int lanes_that_send() const {
    return product_.by_lanes() ? std::max(1, product_.lanes.compute - taken_) : product_.lanes.comm;
  }
  // Rows of a part go at the same time, so where all lanes send each has one part.
  int parts_to_each() const {
    return product_.by_lanes() ? std::max(1, lanes_that_send() / of_.ranks) : lanes_that_send();
  }

  static Region cut(Region region, int part, int parts) {
    const int32_t first = region.row0, count = region.rows();
    region.row0 = first + static_cast<int32_t>(int64_t{count} * part / parts);
    region.row1 = first + static_cast<int32_t>(int64_t{count} * (part + 1) / parts);
    return region;
  }

  // A row is loaded once, and stored at every rank.
  void send_to_all(int rank) {
    const GatheredRows& rows = product_.x;
    const Region own = of_.own_rows(rows, rank);
    const int parts = std::min(lanes_that_send(), own.rows());
    for (int part = 0; part < parts; ++part) {
      of_.emit.read(cut(own, part, parts));
      for (int i = 1; i <= of_.ranks; ++i) {
        of_.emit.write(cut(of_.rows_of_source(rows, rank, (rank + i) % of_.ranks), part, parts));
      }
      of_.emit.task(lane(rank), Opcode::copy);
    }
  }

  void send_part(int rank, int to, int part, int parts) {
    const GatheredRows& rows = product_.x;
    of_.emit.read(cut(of_.own_rows(rows, rank), part, parts));
    const bool chosen_only = product_.has_shares_of_experts();
    if (chosen_only) of_.emit.read(cut(of_.own_rows(product_.ids, rank), part, parts));
    of_.emit.write(cut(of_.rows_of_source(rows, rank, to), part, parts));
    if (chosen_only) {
      of_.emit.counted_task(lane(rank), Opcode::dispatch, {blocks_.all_experts});
    } else {
      of_.emit.task(lane(rank), Opcode::copy);
    }
  }

  void all_gather(const GatheredRows& rows) {
    for (int rank = 0; rank < of_.ranks; ++rank) {
      of_.emit.read(of_.own_rows(rows, rank));
      for (int source = 0; source < of_.ranks; ++source) {
        of_.emit.write(of_.rows_of_source(rows, source, rank));
      }
      of_.emit.collective(rank, CollectiveKind::all_gather, of_.collectives);
    }
    ++of_.collectives;
  }

  void make_tables() {
    make_partitions(of_, [&] {
      taken_ = blocks_.count;
      if (sends_beside_tables_) gather_x();
    });
  }

  // Entry by entry, in the order in which tiles take them: beside tiles where movers of their own
  // bring the tokens, else ahead of these, and then all lanes have a part. Where nothing is
  // multiplied the lanes of tiles do it.
  void permute() {
    const int turns = static_cast<int>(of_.order_of_blocks(0).size());
    for (int turn = 0; turn < turns; ++turn) permute_blocks(turn);
    if (of_.events) of_.boundaries();
  }
  void permute_blocks(int turn) {
    const auto cols = static_cast<int32_t>(product_.op.local_k());
    const bool beside = product_.comm_lanes() > 0 && !product_.op.only_moves();
    for (int rank = 0; rank < of_.ranks; ++rank) {
      const int block = of_.order_of_blocks(rank)[static_cast<size_t>(turn)];
      blocks_.for_each_task(block, [&](int32_t first, int32_t last) {
        const Rect rows = blocks_.rows_of_entries(first, last, 0, cols);
        const int parts = !of_.events || last - first > 1 ? 1 : parts_of_entry();
        for (int part = 0; part < parts; ++part) {
          const Rect own{rows.row0 + (rows.row1 - rows.row0) * part / parts,
                         rows.row0 + (rows.row1 - rows.row0) * (part + 1) / parts, 0, cols};
          of_.emit.read(region_of({own.row0, own.row1, 0, 1}, blocks_.choices, rank));
          of_.emit.read(of_.rows_to_pick(block, rank));
          of_.emit.write(region_of(own, *product_.permuted, rank));
          of_.emit.counted_task(beside ? of_.comm_lane(rank) : of_.compute_lane(rank),
                                Opcode::permute, {of_.choices_of_row()});
        }
      });
    }
  }

  // So that every lane has some. Where tiles await them one by one, an entry is one.
  int parts_of_entry() const {
    constexpr int kRows = 16;  // at least, of a part
    const int at_once = product_.is_block_by_block() ? 1 : blocks_.count;
    const int entries = std::max(1, at_once * expected_entries(blocks_));
    const int each = (2 * product_.lanes.compute + entries - 1) / entries;
    return std::clamp(each, 1, std::max(1, blocks_.entry_rows / kRows));
  }

  RoutedEmission& of_;
  const RoutedLowering& product_;
  RoutedBlocks& blocks_;
  int taken_ = 0;  // lanes that have other tasks until the next boundary
  bool sends_beside_tables_ = false;
};

}  // namespace

void gather_routed_tokens(RoutedEmission& of) { RoutedTokens(of).emit(); }

void permute_block(RoutedEmission& of, int turn) {
  if (of.product.permuted && of.product.is_block_by_block()) RoutedTokens(of).permute(turn);
}

}  // namespace stretto
