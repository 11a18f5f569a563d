// The pieces of a mover's task: all of it, once, where it lies.
#include "stretto/device/mover_pieces.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace stretto::device {
namespace {

constexpr MoverRegion kRegion{0x7f00'0000'0000, 0};

MoverTask task_of(uint32 rows, uint32 columns, MoverType type) {
  MoverTask task{};
  task.rows = rows;
  task.columns = columns;
  task.from = task.to = type;
  task.num_sources = task.num_destinations = 1;
  task.vectors = 1;
  return task;
}

// Pieces side by side, then the next rows of pieces: where the first wrong one is, or "".
std::string first_wrong(const MoverTask& task, uint64 row_bytes) {
  const MoverPieces pieces(task);
  const MoverRegion region{kRegion.address, row_bytes};
  MoverPiece piece(task, pieces);
  uint64 row = 0, column = 0;
  for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
    const uint64 right = region.address + row * row_bytes + column * bytes_of(task.from);
    if (piece.address_in(region, task.from) != right) return "address of " + std::to_string(p);
    const uint64 bytes = uint64{piece.rows} * piece.columns * bytes_of(task.from);
    if (piece.rows == 0 || bytes == 0 || bytes > kStageBytes) return "size of " + std::to_string(p);
    column += piece.columns;
    if (column == task.columns) {
      column = 0;
      row += piece.rows;
    }
  }
  return row == task.rows && column == 0 ? "" : "the number";
}

TEST(MoverPieces, CoverTasksOfSeveralRows) {
  for (const MoverType type : {MoverType::bf16, MoverType::fp32}) {
    for (const uint32 rows : {1u, 3u, 64u, 1000u}) {
      for (const uint32 columns : {8u, 1000u, 4096u, 8192u, 8200u, 40000u}) {
        EXPECT_EQ(first_wrong(task_of(rows, columns, type), 8 * uint64{columns}), "")
            << rows << "x" << columns;
      }
    }
  }
}

// Whole rows, so many that each has as many warps; or parts of one, twice.
TEST(MoverPieces, OfNormsAreWholeRows) {
  for (const MoverType type : {MoverType::bf16, MoverType::fp32}) {
    for (const uint32 columns : {8u, 1000u, 4096u, 8192u, 8200u, 40000u}) {
      for (const uint32 rows : {1u, 5u, 64u}) {
        MoverTask task = task_of(rows, columns, type);
        task.num_normed = 1;
        const MoverPieces pieces(task);
        const bool fits = columns * bytes_of(type) <= kStageBytes;
        EXPECT_EQ(pieces.passes, fits ? 1u : 2u);
        EXPECT_EQ(kAddWarps % pieces.rows, 0u);
        EXPECT_LE(pieces.rows * pieces.columns * bytes_of(type), kStageBytes);
        MoverPiece piece(task, pieces);
        uint32 row = 0, elements = 0;
        for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
          if (piece.column == 0) {
            EXPECT_EQ(piece.row, row);
            if (piece.pass + 1 == pieces.passes) row += piece.rows;
          }
          elements += piece.rows * piece.columns;
        }
        EXPECT_EQ(row, rows) << rows << "x" << columns;
        EXPECT_EQ(elements, pieces.passes * rows * columns) << rows << "x" << columns;
      }
    }
  }
}

// Regions without gaps are moved as one row, of more bytes than 32 bits count.
TEST(MoverPieces, ReachBeyondFourGigabytes) {
  constexpr uint32 kMost = uint32{INT32_MAX} / 8 * 8;
  for (const MoverType type : {MoverType::bf16, MoverType::fp32}) {
    EXPECT_EQ(first_wrong(task_of(1, kMost, type), 0), "");
    EXPECT_EQ(first_wrong(task_of(2, kMost / 2 / 8 * 8, type), uint64{kMost} * 4), "");
    EXPECT_EQ(address_in(kRegion, 0, kMost - 1, type),
              kRegion.address + (uint64{kMost} - 1) * bytes_of(type));
  }
}

// Every column of a piece, once, in the tile that has it.
TEST(MoverPieces, OfRestoredRowsAreFoundTileByTile) {
  for (const uint32 wide : {8u, 64u, 192u, 256u}) {
    for (const uint32 columns : {8u, 1000u, 4096u, 8192u, 40000u}) {
      MoverTask task = task_of(5, columns, MoverType::bf16);
      task.num_normed = 1;
      task.tile_columns = static_cast<uint16>(wide);
      task.more_tiles = static_cast<uint16>((columns + wide - 1) / wide - 1);
      const MoverPieces pieces(task);
      MoverPiece piece(task, pieces);
      for (uint32 p = 0; p < pieces.count; ++p, piece.advance(task, pieces)) {
        const uint32 end = piece.column + piece.columns;
        for (uint32 column = piece.column; column < end;) {
          const TileSpan span = tile_span(task, column, end);
          ASSERT_EQ(span.tile * wide + span.first, column);
          ASSERT_LE(span.tile, uint32{task.more_tiles});
          ASSERT_GT(span.columns, 0u);
          ASSERT_LE(span.first + span.columns, wide);
          column += span.columns;
          ASSERT_LE(column, end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::device
