// How each pattern emits its tasks, and what the patterns share.
#pragma once

#include <functional>

#include "lower/emitter.h"

namespace stretto {

void emit_local(Lowering& state, Emitter& emit);
void emit_push_gather(Lowering& state, Emitter& emit);
void emit_nccl_gather(Lowering& state, Emitter& emit);
void emit_slot_reduce(Lowering& state, Emitter& emit);
void emit_nccl_reduce(Lowering& state, Emitter& emit);
void emit_packed_reduce(Lowering& state, Emitter& emit);

// The GEMM of all ranks, wave by wave, with the boundaries of its kernels: operands(rank, tile)
// names what a tile reads and writes; after_wave(w), when given, emits what wave w makes possible.
void emit_gemm(Lowering& state, Emitter& emit,
               const std::function<void(int rank, int32_t tile)>& operands,
               const std::function<void(int32_t wave)>& after_wave = {});

// Rows of the weights that make up a tile's columns.
Region weights_of(const Lowering& state, int rank, const Rect& tile);
// Reads the rows of the tile's A from this rank's `a`, stacked as they lie in storage.
void read_a(const Lowering& state, Emitter& emit, int rank, const Rect& tile);

// By group (chunk of rows, group of waves): the wave after which all ranks have computed it.
std::vector<int32_t> groups_done(const Lowering& state,
                                 const std::function<int32_t(int32_t tile)>& group_of,
                                 size_t groups);

// The copy-engine queue of `rank` that leads to `peer`.
uint32_t copy_lane(const Lowering& state, int rank, int peer);

}  // namespace stretto
