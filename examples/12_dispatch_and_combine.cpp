// A mixture-of-experts layer over three ranks: tokens go to the ranks of their experts (dispatch),
// experts work on the rows that came, their results come back weighted and summed (combine).
//
// - Nothing asks the host. How many tokens there are, where they go and the number of the call are
//   words in device memory, so the launches of a layer can be captured as a graph and replayed:
//   here three times, with other tokens each time.
// - Counts travel ahead of tokens. Who knows how many rows each source has for each of its experts
//   knows where every row begins, and puts tokens there as they come.
// - Blocks make units: unit u of a rank takes what unit u of each rank sends, and waits for no
//   other. With few tokens each block is a unit. With many, a unit is a block that sends and one
//   that takes, and tokens go in parts, so that taking begins long before sending ends.
// - A token goes once to a rank, however many of its experts are there, and comes back as one sum.
#include "expect.h"
#include "stretto/fibre/expert_memory.h"
#include "stretto/fibre/explore.h"

using namespace stretto;
using namespace stretto::device;

constexpr uint32 kRanks = 3, kExperts = 6, kLocal = 2, kTopK = 2, kHidden = 256, kCalls = 3;
constexpr uint32 kVectors = kHidden / 8;  // of a token in bf16

ExpertShape shape_of(uint32 most, bool fp8) {
  const uint32 max_rows = kRanks * most * kTopK + 8;  // all there can be; experts begin at fours
  return {kHidden, kExperts, kTopK, most, max_rows, 4, fp8};
}

// What the model decides. Every token goes to expert 0 and two thirds of them to another one; the
// experts 2, 3 and 5 get nothing, hence rank 1 neither. In the first call rank 0 has no tokens.
uint32 tokens_of(int rank, uint32 call, uint32 most) {
  return (uint32(rank) * 5 + call * 7) % (most + 1);
}
int32 expert_of(int rank, uint32 call, uint32 token, uint32 j) {
  constexpr int32 kSecond[] = {4, 1, -1};  // -1: none
  return j == 0 ? 0 : kSecond[(uint32(rank) + call + token) % 3];
}
float weight_of(uint32 j) { return j == 0 ? 0.75f : 0.25f; }
float factor_of(int32 expert) { return float(expert + 1); }  // an expert multiplies by it; none: 0
// At most 7 x 2^n, which fp8 holds exactly: its scale maps the most of 128 elements to 448.
float element_of(int rank, uint32 call, uint32 i) {
  const uint32 token = i / kHidden, column = i % kHidden;
  const uint32 mixed = uint32(rank) * 5 + call * 7 + token * 3 + column;
  return (column % 128 == 0 ? 7 : float(mixed % 15) - 7) * float(1 << (token + column / 128) % 3);
}

// Where a grouped GEMM would be: the rows of each expert stand together.
template <class Block>
STRETTO_KERNEL void run_experts(Block& block, const DispatchArgs<Block>& in,
                                Ptr<Block, Vec16> results) {
  for (auto e = uint32(block.block_idx()); e < kLocal; e += uint32(block.num_blocks())) {
    const uint32 begin = in.expert_offsets[e] * kVectors;
    const uint32 end = begin + in.expert_counts[e] * kVectors;
    for (uint32 i = begin + uint32(block.thread_idx()); i < end; i += uint32(block.num_threads())) {
      float values[8] = {};
      const Vec16 vector = in.rows[in.shape.fp8 != 0 ? i / 2 : i];  // 16 elements of fp8, 8 of bf16
      if (in.shape.fp8 == 0) Bf16x8::add(values, vector);
      for (uint32 b = 0; in.shape.fp8 != 0 && b < 8; ++b) {
        const float scale = in.row_scales[i / 16];  // of 128 elements
        values[b] = e4m3_to_float(vector.word[i % 2 * 2 + b / 4] >> b % 4 * 8 & 0xff) * scale;
      }
      for (float& value : values) value *= factor_of(block.rank() * int32(kLocal) + int32(e));
      results[i] = Bf16x8::round(values);
    }
  }
}

void scenario(fibre::World& world, uint32 most, bool fp8) {  // `most`: tokens that a rank may have
  const fibre::ExpertMemory memory(world, shape_of(most, fp8));
  auto call = world.local<uint32>("call", 1, 0), wrong = world.local<uint32>("wrong", 1, 0);
  auto tokens = world.local<uint32>("tokens", 1);
  auto ids = world.local<int32>("ids", most * kTopK);
  auto weights = world.local<float>("weights", most * kTopK);
  auto input = world.local<Vec16>("input", most * kVectors);
  auto results = world.local<Vec16>("results", memory.shape.max_rows * kVectors);
  auto output = world.local<Vec16>("output", most * kVectors);

  for (uint32 replay = 0; replay < kCalls; ++replay) {  // what a graph would hold
    world.launch(1, 1, [=](fibre::Block& block) {       // the router
      const int r = block.rank();
      const uint32 now = call.at(r)[0], count = tokens_of(r, now, most);
      tokens.at(r)[0] = count;
      for (uint32 i = 0; i < count * kTopK; ++i) {
        ids.at(r)[i] = expert_of(r, now, i / kTopK, i % kTopK);
        weights.at(r)[i] = weight_of(i % kTopK);
      }
      for (uint32 i = 0; i < count * kVectors; ++i) {
        float v[8];
        for (uint32 b = 0; b < 8; ++b) v[b] = element_of(r, now, i * 8 + b);
        input.at(r)[i] = Bf16x8::round(v);
      }
    });
    const auto args = [=](int r) { return memory.dispatch_args(r, tokens, input, ids, weights); };
    world.launch([=](fibre::Block& block) { dispatch(block, args(block.rank())); });
    world.launch([=](fibre::Block& block) {
      run_experts(block, args(block.rank()), results.at(block.rank()));
    });
    world.launch([=](fibre::Block& block) {
      combine(block, memory.combine_args(block.rank(), tokens, results, output));
    });
    world.launch(1, 1, [=](fibre::Block& block) {  // the plain computation, beside what came back
      const int r = block.rank();
      const uint32 now = call.at(r)[0];
      for (uint32 i = 0; i < tokens_of(r, now, most) * kHidden; ++i) {
        float want = 0, got[8] = {};
        for (uint32 j = 0; j < kTopK; ++j) {
          const float factor = factor_of(expert_of(r, now, i / kHidden, j));
          want += weight_of(j) * factor * element_of(r, now, i);
        }
        const Vec16 vector = output.at(r)[i / 8];
        Bf16x8::add(got, vector);
        if (got[i % 8] != want) wrong.at(r)[0] = 1;
      }
      call.at(r)[0] = now + 1;
    });
  }
  if (!world.run()) return;
  uint32 all = 0;
  for (int r = 0; r < int(kRanks); ++r) {
    all += tokens_of(r, kCalls - 1, most);
    world.expect(wrong.get(r, 0) == 0, "a token came back wrong");
    world.expect(memory.problems.get(r, kRowsOverMost) == 0, "a row found no room");
  }
  world.expect(memory.expert_counts.get(0, 0) == all, "not every token came to expert 0");
  world.expect(memory.expert_counts.get(1, 0) + memory.expert_counts.get(1, 1) == 0,
               "rank 1 got rows");
}

int main() {
  return run_example([] {
    const fibre::Shape shape{
        .ranks = 3, .blocks = 2, .threads = 8, .warp_size = 4, .shared_bytes = 2048};
    for (const uint32 most : {4u, 12u}) {
      const Units units = Units::of(shape_of(most, false), uint32(shape.blocks), 0);
      expect(units.split() == (most == 12), "few tokens are sent and taken by the same blocks");
      for (const bool fp8 : {false, true}) {
        const auto result = fibre::explore(shape, [&](fibre::World& w) { scenario(w, most, fp8); },
                                           {.num_seeds = 10, .shrink = false});
        if (result.failure) fmt::print("{}", result.failure->to_text());
        expect(!result.failure, "every token comes back right under every schedule");
        fmt::print("at most {} tokens in {}, units: {}, calls: {}, {} schedules: nothing found\n",
                   most, fp8 ? "fp8" : "bf16", units.count, kCalls, result.seeds_run);
      }
    }
  });
}
