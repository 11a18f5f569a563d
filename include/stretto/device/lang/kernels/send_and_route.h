// Rows to the ranks of the experts that they choose (send_chosen_rows.h), and there the partition
// of all choices by expert (routing.h), in one kernel. A partition waits for ids only, which cross
// ahead of rows: so the block that greets, which has no share in the rows, takes all notes and
// makes it while the others send and take rows. Of many choices the blocks before it help.
//
// The tables are those of make_partition(), bit for bit.
#pragma once

#include "stretto/device/lang/kernels/send_chosen_rows.h"
#include "stretto/device/partition_by_blocks.h"
#ifdef STRETTO_DEVICE
#include "stretto/device/warp_worker.h"
#endif

namespace stretto::device {

// Of the rank's experts [first_expert, + experts); the tables named as Partition's. Local.
template <class Block>
struct RoutedTo {
  int32 first_expert, experts;
  int32 entry_rows, entries;
  Ptr<Block, int32> tokens, expert_of_entry, row_of_choice, rows_of_expert, bad_ids;
  // How many blocks make it, fewer than there are or the only one. Of more than one: where they
  // meet, zero at first, and what they read of each other, [blocks][experts + 1].
  int32 blocks;
  Ptr<Block, uint64> met;
  Ptr<Block, int32> totals;
};

template <class Block>
struct SendAndRouteArgs {
  SendChosenArgs<Block> send;  // has all_ids, and each rank ids of its own tokens alone
  RoutedTo<Block> to;
};

// Who makes a partition among a block's threads.
template <class Block>
struct WorkerOf {
  using Type = LoneWorker;
};
#ifdef STRETTO_DEVICE
class GpuBlock;
template <>
struct WorkerOf<GpuBlock> {
  using Type = WarpWorker;
};
#endif

// Bytes of shared memory that so many threads of each of so many blocks, workers of so many lanes,
// need for it.
STRETTO_HOST_DEVICE int64 route_shared_bytes(int64 choices, int32 experts, int32 blocks,
                                             int32 threads, int32 lanes) {
  return 4 * block_partition_scratch(static_cast<int32>(choices), experts, blocks, threads / lanes,
                                     lanes);
}

template <class Format, int kInFlight, class Block>
class SendAndRoute : SendChosenRows<Format, kInFlight, Block> {
  using Base = SendChosenRows<Format, kInFlight, Block>;
  using Base::block_, Base::sizes_;
  using Worker = typename WorkerOf<Block>::Type;

 public:
  STRETTO_PRIMITIVE SendAndRoute(Block& block, const SendAndRouteArgs<Block>& args)
      : Base(block, args.send, static_cast<uint32>(args.to.blocks)),
        ids_(args.send.all_ids),
        bad_ids_(args.send.chosen.bad_ids),
        to_(args.to),
        number_(block.block_idx() - (block.num_blocks() - args.to.blocks)) {}

  STRETTO_PRIMITIVE void run() {
    Base::load(Base::first_);
    Base::greet_others();
    Base::send_notes();
    Base::clear_before();
    bool good = Base::send_and_take();
    if (number_ >= 0) good = route() && good;
    good = Base::hear_others() && good;
    Base::end(good);
  }

 private:
  using Words = Ptr<Block, int32>;

  // Of all tokens' choices, read where the blocks have just put them.
  struct AllChoices : Choices<int32> {
    Ptr<Block, const int32> at;

    template <int32 kAtOnce>
    STRETTO_PRIMITIVE void read(int32 first, int32 end, int32 step, int32 (&to)[kAtOnce]) const {
      STRETTO_UNROLL for (int32 i = 0; i < kAtOnce; ++i) {
        const int32 c = first + i * step;
        to[i] = -1;
        if (c < end) to[i] = at[c];
      }
    }
  };
  // The blocks' workers. A thread reads the block's own totals that it has written, and nobody uses
  // the memory again.
  struct Team {
    SendAndRoute& its;
    Words own_totals;
    int32 block, blocks, warp, warps;

    STRETTO_PRIMITIVE void meet() const { its.block_.sync(); }
    STRETTO_PRIMITIVE void meet_all() const {
      if (blocks > 1) its.tell_totals(own_totals);
    }
    STRETTO_PRIMITIVE void part() const {}
    STRETTO_PRIMITIVE void end() const {}
    STRETTO_PRIMITIVE Words at(int32 of_block, Words totals, int32 column) const {
      return of_block == block ? totals + column : its.totals_of(of_block) + column;
    }
  };

  // By all threads of these blocks; of a block each knows whether all of them had what they await.
  STRETTO_PRIMITIVE bool route() {
    const int32 thread = block_.thread_idx(), threads = block_.num_threads();
    const bool good = Base::take_notes(static_cast<uint32>(number_ * threads + thread),
                                       static_cast<uint32>(to_.blocks * threads));
    const int32 warps = threads / Worker::kCount;
    if (!meet_blocks(good)) {
      name_some_row(lines_of_worker(static_cast<int32>(sizes_.tokens * sizes_.top_k),
                                    to_.blocks * warps, Worker::kCount) *
                    threads);
      return false;
    }
    const auto words = block_.template shared<int32>(0);
    const BlockPartitionScratch<Words> scratch{words, to_.experts, warps};
    const AllChoices choices{{nullptr, static_cast<int32>(sizes_.tokens * sizes_.top_k), 1,
                              static_cast<int32>(sizes_.experts), to_.first_expert, to_.experts},
                             ids_};
    make_partition_by_blocks<Worker>(
        choices, to_, words,
        Team{*this, scratch.totals(), number_, to_.blocks, thread / Worker::kCount, warps},
        [&](int32 bad) {
          if (!bad_ids_ || bad == 0) return;
          block_.fetch_add(bad_ids_, static_cast<uint64>(bad), Order::kRelaxed, Scope::kGpu);
        });
    return told_;
  }

  // Where a wait has failed there is no partition, but kernels behind this one run: what they would
  // read by rows that nobody has written lies anywhere. So each block names a row that there is for
  // its share of the choices, `each` of them. Whoever reads the other tables cuts what they say.
  STRETTO_PRIMITIVE void name_some_row(int32 each) const {
    const auto count = static_cast<int32>(sizes_.tokens * sizes_.top_k);
    const int32 begin = number_ * each;
    for (int32 i = block_.thread_idx(); i < each && begin + i < count; i += block_.num_threads()) {
      to_.row_of_choice[begin + i] = 0;
    }
  }

  STRETTO_PRIMITIVE Words totals_of(int32 block) const {
    return to_.totals + block * (to_.experts + 1);
  }
  // What the others may not know, for a wait has failed, is nothing: rows stay within the tables.
  STRETTO_PRIMITIVE void tell_totals(Words own) {
    for (int32 e = block_.thread_idx(); e <= to_.experts; e += block_.num_threads()) {
      const int32 total = own[e];
      totals_of(number_)[e] = total;
    }
    told_ = meet_blocks(true);
    if (told_) return;
    for (int32 b = 0; b < to_.blocks; ++b) {
      if (b == number_) continue;
      for (int32 e = block_.thread_idx(); e <= to_.experts; e += block_.num_threads()) {
        totals_of(b)[e] = 0;
      }
    }
  }

  // What each of these blocks has written is known to all; false where some thread's wait failed.
  STRETTO_PRIMITIVE bool meet_blocks(bool good) {
    if (to_.blocks == 1) return !block_.sync_or(!good);
    const bool all = !block_.sync_or(!good);
    bool met = true;
    if (block_.thread_idx() == 0 && all) {
      const auto blocks = static_cast<uint64>(to_.blocks);
      const uint64 before = block_.fetch_add(to_.met, 1, Order::kRelease, Scope::kGpu);
      // Another block may await a rank meanwhile: its wait is the one to be told of.
      met = block_.wait_until(to_.met, Compare::kGe, (before / blocks + 1) * blocks, Where::here(),
                              -1, Patience::kLonger);
    }
    return !block_.sync_or(!met || !all);
  }

  Ptr<Block, const int32> ids_;
  Ptr<Block, uint64> bad_ids_;
  const RoutedTo<Block>& to_;
  int32 number_;  // of the block among these
  bool told_ = true;
};

template <class Format, class Block, int kInFlight = 2>
STRETTO_KERNEL void send_and_route(Block& block, const SendAndRouteArgs<Block>& args) {
  SendAndRoute<Format, kInFlight, Block>(block, args).run();
}

}  // namespace stretto::device
