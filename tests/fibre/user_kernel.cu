// A user's kernel of the device language in a file for nvcc, and its launch; nvcc_test.cpp compiles
// it.
#include "stretto/device/lang/gpu_block.h"
#include "stretto/device/lang/kernels/all_reduce.h"
#include "stretto/device/lang/tile.h"

using namespace stretto::device;

template <class Block>
struct PingArgs {
  Ptr<Block, const float> message;
  Ptr<Block, float> inbox;
  Ptr<Block, float> all;
  Ptr<Block, uint64> arrived;
  BlockChannel<Block> channel;
  uint64 epoch;
};

template <class Block>
STRETTO_KERNEL void ping(Block& block, const PingArgs<Block>& args) {
  Shmem shmem(block);
  const int next = (shmem.my_pe() + 1) % shmem.n_pes();
  shmem.putmem_signal_block(args.inbox, args.message, 64 * sizeof(float), args.arrived, 1,
                            SignalOp::kAdd, next);
  if (!shmem.signal_wait_until_block(args.arrived, Compare::kGe, args.epoch)) return;
  if (!shmem.fcollect_block(args.all, args.inbox, 64)) return;
  Tiles<Block> tiles(block, args.channel);
  tiles.producer_tile_notify(static_cast<uint64>(block.block_idx()), To::kAll);
  (void)tiles.consumer_tile_wait(0);
}

void launch_ping(const GpuWorld& world, const PingArgs<GpuBlock>& args, cudaStream_t stream) {
  entry<ping<GpuBlock>, PingArgs<GpuBlock>><<<8, 256, 0, stream>>>(world, args);
}

void launch_all_reduce(const GpuWorld& world, const AllReduceArgs<GpuBlock>& args,
                       cudaStream_t stream) {
  entry<all_reduce_one_shot<Bf16x8, GpuBlock>, AllReduceArgs<GpuBlock>>
      <<<8, 256, 0, stream>>>(world, args);
}
