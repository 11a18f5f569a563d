// The pieces in which a mover's task passes through the ring, and where their elements lie. A
// task's rows and columns multiply to less than 2^31; its bytes need not fit 32 bits.
#pragma once

#include "stretto/device/mover_task.h"

namespace stretto::device {

STRETTO_HOST_DEVICE uint32 bytes_of(MoverType type) { return type == MoverType::fp32 ? 4 : 2; }

STRETTO_HOST_DEVICE uint64 address_in(const MoverRegion& region, uint32 row, uint32 column,
                                      MoverType type) {
  return region.address + row * region.row_bytes + uint64{column} * bytes_of(type);
}

// How a task passes through the ring: piece by piece, a stage for each source of a piece.
//
// The pieces of a norm are whole rows, a power of two, so that as many warps work on each.
// A row that is longer than a piece passes twice: first for its squares, then to be normed.
struct MoverPieces {
  uint32 rows = 0, columns = 0;  // of a full piece
  uint32 passes = 1;
  uint32 count = 0;

  STRETTO_HOST_DEVICE explicit MoverPieces(const MoverTask& task) {
    if (!task.vectors || task.num_sources == 0) return;
    const uint32 room = kStageBytes / bytes_of(task.from);
    columns = task.columns < room ? task.columns : room;
    rows = room / columns;
    if (task.num_normed != 0) {
      uint32 power = 1;
      while (power * 2 <= rows && power < kAddWarps) power *= 2;
      rows = power;
      if (columns < task.columns) passes = 2;
    }
    count = (task.columns + columns - 1) / columns * passes * ((task.rows + rows - 1) / rows);
  }
};

// The pieces of a task one after the other, row of pieces by row of pieces.
struct MoverPiece {
  uint32 row = 0, column = 0, rows = 0, columns = 0;
  uint32 pass = 0;

  STRETTO_HOST_DEVICE MoverPiece(const MoverTask& task, const MoverPieces& pieces) {
    fit(task, pieces);
  }
  STRETTO_HOST_DEVICE void advance(const MoverTask& task, const MoverPieces& pieces) {
    column += pieces.columns;
    if (column >= task.columns) {
      column = 0;
      if (++pass == pieces.passes) {
        pass = 0;
        row += pieces.rows;
      }
    }
    fit(task, pieces);
  }
  // The address of the first element.
  STRETTO_HOST_DEVICE uint64 address_in(const MoverRegion& region, MoverType type) const {
    return device::address_in(region, row, column, type);
  }

 private:
  STRETTO_HOST_DEVICE void fit(const MoverTask& task, const MoverPieces& pieces) {
    rows = task.rows - row < pieces.rows ? task.rows - row : pieces.rows;
    columns = task.columns - column < pieces.columns ? task.columns - column : pieces.columns;
  }
};

// Of the columns [column, end) of a row that is restored, those in the tile that has the first.
struct TileSpan {
  uint32 tile, first, columns;  // `first`: in the tile
};
STRETTO_HOST_DEVICE TileSpan tile_span(const MoverTask& task, uint32 column, uint32 end) {
  const uint32 tile = column / task.tile_columns, first = column - tile * task.tile_columns;
  const uint32 rest = tile == task.more_tiles ? end - column : task.tile_columns - first;
  return {tile, first, rest < end - column ? rest : end - column};
}

}  // namespace stretto::device
