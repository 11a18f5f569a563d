// The tables that say which rows of a product are whose: a partition of each block of tokens.
#include <algorithm>
#include <functional>

#include "lower/routed_emission.h"

namespace stretto {
namespace {

class Partitions {
 public:
  explicit Partitions(RoutedEmission& of) : of_(of), product_(of.product), blocks_(of.blocks) {}

  void make(const std::function<void()>& beside) {
    if (of_.events) of_.boundaries();
    if (blocks_.parts == 1) {
      each_block([&](int rank, int block) { route(rank, block); });
      beside();
    } else {
      each_block([&](int rank, int block) { count_parts(rank, block); });
      if (of_.events) of_.boundaries();
      each_block([&](int rank, int block) { place_parts(rank, block); });
      if (of_.events) of_.boundaries();
      each_block([&](int rank, int block) { fill_parts(rank, block); });
    }
    if (of_.events) of_.boundaries();
  }

 private:
  template <typename Visit>
  void each_block(const Visit& visit) {
    for (int rank = 0; rank < of_.ranks; ++rank) {
      for (const int block : of_.order_of_blocks(rank)) visit(rank, block);
    }
  }

  void route(int rank, int block) {
    const int32_t tokens = of_.tokens_of(block);
    of_.emit.read(of_.rows_of_block(product_.ids, block, rank, 0, tokens));
    write_entries(rank, block, 0, blocks_.entries);
    of_.emit.write(of_.choices_of(block, 0, tokens, rank));
    write_counts(rank, block);
    of_.emit.counted_task(of_.compute_lane(rank), Opcode::route, {blocks_.all_experts});
  }

  // The same by many lanes: they count parts of the tokens, then place these, then fill entries.
  void count_parts(int rank, int block) {
    each_part(block, of_.tokens_of(block), own_part(rank),
              [&](int part, int32_t first, int32_t last) {
                of_.emit.read(of_.rows_of_block(product_.ids, block, rank, first, last));
                of_.emit.write(counts_of_parts(rank, block, part, part + 1));
                of_.emit.counted_task(of_.compute_lane(rank), Opcode::count_choices,
                                      {blocks_.all_experts});
              });
  }
  void place_parts(int rank, int block) {
    each_part(block, of_.tokens_of(block), own_part(rank),
              [&](int part, int32_t first, int32_t last) {
                of_.emit.read(of_.rows_of_block(product_.ids, block, rank, first, last));
                of_.emit.read(counts_of_parts(rank, block, 0, parts_of(block)));
                of_.emit.read(counts_of_parts(rank, block, part, part + 1));
                of_.emit.write(of_.choices_of(block, first, last, rank));
                of_.emit.counted_task(of_.compute_lane(rank), Opcode::place_choices,
                                      {blocks_.all_experts, blocks_.entry_rows});
              });
  }
  void fill_parts(int rank, int block) {
    each_part(block, blocks_.entries, 0, [&](int part, int32_t first, int32_t last) {
      of_.emit.read(counts_of_parts(rank, block, 0, parts_of(block)));
      of_.emit.read(of_.choices_of(block, 0, of_.tokens_of(block), rank));
      write_entries(rank, block, first, last);
      if (part == 0) write_counts(rank, block);
      of_.emit.counted_task(of_.compute_lane(rank), Opcode::fill_entries,
                            {blocks_.all_experts, first});
    });
  }

  // None is empty.
  int parts_of(int block) const {
    return std::min({blocks_.parts, of_.tokens_of(block), blocks_.entries});
  }
  // The rank's own tokens' first: so each takes parts as the others do, counted from itself, and
  // ranks are alike (sync/alike_ranks.h). A block of one source's tokens is taken from its first.
  int own_part(int rank) const { return blocks_.by_source ? 0 : parts_of(0) * rank / of_.ranks; }
  // Calls visit(part, its first, one past its last) for the parts of `count` things of a block,
  // part `begin` first.
  template <typename Visit>
  void each_part(int block, int32_t count, int begin, const Visit& visit) {
    const int parts = parts_of(block);
    const auto at = [&](int part) { return static_cast<int32_t>(int64_t{count} * part / parts); };
    for (int i = 0; i < parts; ++i) {
      const int part = (begin + i) % parts;
      visit(part, at(part), at(part + 1));
    }
  }
  Region counts_of_parts(int rank, int block, int first, int last) const {
    const int32_t base = (blocks_.blocks_before + block) * blocks_.parts;
    return region_of({base + first, base + last, 0, blocks_.experts_of_rank(rank) + 1},
                     blocks_.part_counts, rank);
  }
  // Entries [first, last) of a block, counted from its first.
  void write_entries(int rank, int block, int32_t first, int32_t last) {
    const int32_t from = blocks_.first_entry(block);
    of_.emit.write(
        region_of(blocks_.rows_of_entries(from + first, from + last, 0, 1), blocks_.choices, rank));
    of_.emit.write(region_of({from + first, from + last, 0, 1}, blocks_.experts_of, rank));
  }
  void write_counts(int rank, int block) {
    const int32_t first = blocks_.first_count(block, rank),
                  last = blocks_.first_count(block + 1, rank);
    of_.emit.write(region_of({first, last, 0, 1}, blocks_.counts, rank));
  }

  RoutedEmission& of_;
  const RoutedLowering& product_;
  RoutedBlocks& blocks_;
};

}  // namespace

void make_partitions(RoutedEmission& of, const std::function<void()>& beside) {
  Partitions(of).make(beside);
}

}  // namespace stretto
