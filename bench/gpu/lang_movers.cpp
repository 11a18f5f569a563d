// The movers of the device language: the push all-gather beside NCCL's, and the sum of slots.
#include "lang_bench.h"
#include "stretto/device/lang/kernels/movers.h"
#include "stretto/error.h"

namespace stretto::bench {
namespace {

using device::BlockChannel;
using device::GatherArgs;
using device::SlotReduceArgs;

constexpr int kThreads = 512;
constexpr uint64 kRowBytes = 4096;

// What was gathered are the slots that are summed, so each rank gets the sum of all shards.
class MoversBench {
 public:
  MoversBench(LangBench& bench, size_t max_bytes)
      : bench_(bench),
        ranks_(static_cast<uint64>(bench.team.ranks())),
        shard_(bench.team, max_bytes),
        gathered_by_nccl_(bench.team, max_bytes * ranks_),
        sums_(bench.team, max_bytes),
        epoch_(bench.team, sizeof(uint64)),
        state_(bench.team, 256 * sizeof(uint64)),
        gather_(bench, {"kernels/movers.h", "push_gather<GpuBlock>", "GatherArgs<GpuBlock>"},
                kThreads),
        reduce_(bench,
                {"kernels/movers.h", "slot_reduce<Bf16x8, GpuBlock>", "SlotReduceArgs<GpuBlock>"},
                kThreads) {
    upload_whole_numbers(shard_, max_bytes / 2);
    bench.team.each_rank([&](int rank) {
      const uint64 first = 1;
      epoch_.memory[static_cast<size_t>(rank)].upload(&first, sizeof first);
    });
    gathered_ = bench.group.allocate("gathered", max_bytes * ranks_, 0);
    sent_ = bench.group.allocate("sent", kMaxTiles * ranks_ * sizeof(uint64), 0);
    come_ = bench.group.allocate("come", kMaxTiles * sizeof(uint64), 1);  // more than a run awaits
    greetings_ = bench.group.allocate("greetings", 3 * ranks_ * 16, device::kNoGreeting);
  }

  Json time_gather(size_t bytes, int blocks) {
    return time(blocks, [&](int rank) {
      gather_.launch(
          rank, blocks, kThreads,
          GatherArgs<GpuBlock>{channel(rank, bytes, ranks_, sent_, blocks),
                               shard_.at<device::uint8>(rank),
                               bench_.group.at<device::uint8>(rank, gathered_), kRowBytes,
                               bench_.group.at<Vec16>(rank, greetings_), state_.at<uint64>(rank)});
    });
  }
  // After the gather of as many bytes.
  Json time_reduce(size_t bytes, int blocks) {
    Json row = time(blocks, [&](int rank) {
      reduce_.launch(
          rank, blocks, kThreads,
          SlotReduceArgs<GpuBlock>{
              channel(rank, bytes, 1, come_, blocks), bench_.group.at<Vec16>(rank, gathered_),
              sums_.at<Vec16>(rank), bytes / kRowBytes, kRowBytes / 16,
              bench_.group.at<Vec16>(rank, greetings_), state_.at<uint64>(rank)});
    });
    verify(bytes);
    return row;
  }
  Json time_nccl(size_t bytes) {
    return to_json(bench_.team.time_nccl([&](int rank) {
      bench_.team.nccl().all_gather(rank, bench_.team.stream(rank),
                                    reinterpret_cast<uint64_t>(shard_.at<char>(rank)),
                                    reinterpret_cast<uint64_t>(gathered_by_nccl_.at<char>(rank)),
                                    static_cast<int64_t>(bytes / 2), DType::bf16);
    }));
  }

 private:
  static constexpr size_t kMaxTiles = 4096;

  // Two tiles a block of `shards` x `bytes`, where there are as many rows.
  BlockChannel<GpuBlock> channel(int rank, size_t bytes, uint64 shards, size_t signals,
                                 int blocks) const {
    const uint64 rows = bytes / kRowBytes;
    const uint64 wanted = 2 * static_cast<uint64>(blocks);
    BlockChannel<GpuBlock> channel{};
    channel.producer.tile_rows = (rows + wanted - 1) / wanted;
    channel.producer.tiles_per_rank = rows / channel.producer.tile_rows;
    channel.producer.num_rows = shards * rows;
    channel.producer.num_tiles = shards * channel.producer.tiles_per_rank;
    channel.producer.tiles_per_signal = 1;
    channel.consumer = channel.producer;
    channel.notifies_per_tile = 1;
    channel.signals = bench_.group.at<uint64>(rank, signals);
    channel.epoch = epoch_.at<uint64>(rank);
    return channel;
  }

  Json time(int blocks, const std::function<void(int)>& enqueue) {
    bench_.group.refill(greetings_);
    state_.clear();
    const Timing timing = bench_.team.time(enqueue);
    bench_.group.check();
    Json row = {{"blocks", blocks}};
    row.update(to_json(timing));
    return row;
  }

  void verify(size_t bytes) {
    bench_.team.each_rank([&](int rank) {
      const auto got = sums_.download<uint16_t>(rank, 0, bytes / 2);
      for (size_t i = 0; i < got.size(); ++i) {
        float want = 0;
        for (uint64 r = 0; r < ranks_; ++r) want += whole_number_at(r + 1, i);
        if (got[i] != bf16_bits(want)) {
          throw SystemError(
              fmt::format("sum of gathered shards of {} bytes: element {} on rank {} "
                          "is {}, not {}",
                          bytes, i, rank, bf16_value(got[i]), want));
        }
      }
    });
  }

  LangBench& bench_;
  uint64 ranks_;
  PerRank shard_, gathered_by_nccl_, sums_, epoch_, state_;
  TeamKernel gather_, reduce_;
  size_t gathered_, sent_, come_, greetings_;
};

}  // namespace

Json bench_movers(LangBench& bench, size_t max_bytes) {
  bench.group.release_all();
  MoversBench work(bench, max_bytes);
  fmt::print("{:>9} {:>7} {:>8} {:>9} {:>8} {:>9}\n", "shard", "blocks", "nccl", "gather us",
             "isolated", "reduce us");
  Json rows = Json::array();
  for (size_t bytes = size_t{64} << 10; bytes <= max_bytes; bytes *= 16) {
    Json row = {{"shard_bytes", bytes}, {"nccl_all_gather", work.time_nccl(bytes)}};
    for (int blocks : bench.team.blocks({8, 32, 128})) {
      const Json gather = work.time_gather(bytes, blocks);
      const Json reduce = work.time_reduce(bytes, blocks);
      fmt::print("{:>9} {:>7} {:>8.1f} {:>9.1f} {:>8.1f} {:>9.1f}\n", bytes, blocks,
                 row["nccl_all_gather"]["median_us"].get<double>(),
                 gather["median_us"].get<double>(), gather["isolated_us"].get<double>(),
                 reduce["median_us"].get<double>());
      row["push_gather"].push_back(gather);
      row["slot_reduce"].push_back(reduce);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace stretto::bench
