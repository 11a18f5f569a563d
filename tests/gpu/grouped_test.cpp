// The grouped kernel without a GPU: which tiles it walks, what is refused, and that it compiles.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler_fixture.h"
#include "gpu/grouped_kernel.h"
#include "gpu/grouped_operands.h"
#include "gpu/grouped_shape.h"
#include "stretto/error.h"
#include "thorough.h"

namespace stretto::cuda {
namespace {

using device::Follower;
using device::GroupedConfig;

constexpr GroupedConfig kTall{.columns = 128, .rows = 256, .stages = 4};
constexpr GroupedConfig kMiddle{.columns = 128, .rows = 192, .stages = 5};
constexpr GroupedConfig kTallOfThree{.columns = 192, .rows = 160, .stages = 4};
constexpr GroupedConfig kTallOfWide{.columns = 256, .rows = 144, .stages = 4};
constexpr GroupedConfig kWide{.columns = 256, .rows = 128, .stages = 4};
constexpr GroupedConfig kOfShortK{.columns = 192, .rows = 128, .stages = 4, .together = 2};
constexpr GroupedConfig kTallOfShortK{.columns = 128, .rows = 192, .stages = 4, .together = 3};
constexpr GroupedConfig kOfThree{.columns = 192, .rows = 128, .stages = 4};
constexpr GroupedConfig kOfRanges{.columns = 128, .rows = 128, .stages = 6, .ranges = 2};

// Every row of every block of columns lies in one tile, and few are multiplied in vain.
template <GroupedConfig kConfig>
void expect_tiles_to_cover(uint32_t rows, bool low, uint32_t blocks, uint32_t band) {
  SCOPED_TRACE(fmt::format("{} rows, {} blocks, bands of {}", rows, blocks, band));
  std::vector<int> covered(static_cast<size_t>(rows) * blocks);
  const uint32_t tiles = device::row_tiles<kConfig>(rows, low);
  uint32_t units = 0;
  for (uint32_t number = 0; number < tiles * blocks; ++number) {
    const auto tile = device::tile_of<kConfig>(3, 1000, rows, low, number, blocks, band);
    ASSERT_LT(tile.block, blocks);
    ASSERT_LE(tile.units * device::kUnitRows, static_cast<uint32_t>(kConfig.rows));
    ASSERT_LE(tile.rows, tile.units * device::kUnitRows);
    ASSERT_GT(tile.rows + device::kUnitRows, tile.units * device::kUnitRows);
    for (uint32_t row = tile.row - 1000; row < tile.row - 1000 + tile.rows; ++row) {
      ++covered.at(row * blocks + tile.block);
    }
    units += tile.units;
  }
  EXPECT_EQ(units, (rows + device::kUnitRows - 1) / device::kUnitRows * blocks);
  EXPECT_TRUE(std::all_of(covered.begin(), covered.end(), [](int times) { return times == 1; }));
}

TEST(GroupedTiles, CoverAllRowsOnce) {
  for (const uint32_t rows : {1, 15, 16, 17, 128, 129, 193, 256, 257, 300, 1000, 4097}) {
    for (const uint32_t blocks : {1, 3, 16}) {
      for (const uint32_t band : {1, 2, 8, 64}) {
        for (const bool low : {false, true}) {
          expect_tiles_to_cover<kTall>(rows, low, blocks, band);
          expect_tiles_to_cover<kMiddle>(rows, low, blocks, band);
          expect_tiles_to_cover<kWide>(rows, low, blocks, band);
        }
      }
    }
  }
}

// While a block works on some weights, so do its neighbours: rows come first, as many as a band
// has.
TEST(GroupedTiles, OfABandShareWeights) {
  constexpr uint32_t kRows = 256 * 5, kBlocks = 4, kBand = 2;
  uint32_t block = 0, row = 0;
  for (uint32_t number = 0; number < 2 * kBlocks; ++number) {
    const auto tile = device::tile_of<kTall>(0, 0, kRows, false, number, kBlocks, kBand);
    EXPECT_EQ(tile.block, block);
    EXPECT_EQ(tile.row, row);
    row = row == 0 ? 256 : 0;
    if (row == 0) ++block;
  }
}

// By which whoever awaits a tile's rows finds who stores them.
TEST(GroupedTiles, AreFoundByTheirUnits) {
  for (const uint32_t rows : {1, 16, 17, 129, 300, 1000, 4097}) {
    for (const bool low : {false, true}) {
      const uint32_t units = device::units_of_rows(rows);
      const uint32_t tiles = device::row_tiles(rows, low, kMiddle.rows);
      uint32_t found = 0;
      for (uint32_t tile = 0; tile < tiles; ++tile) {
        const uint32_t end = device::first_unit_of(units, tiles, tile + 1);
        for (uint32_t unit = device::first_unit_of(units, tiles, tile); unit < end; ++unit) {
          EXPECT_EQ(device::tile_of_unit(units, tiles, unit), tile) << rows << " rows";
          EXPECT_EQ(unit, found++);
        }
      }
      EXPECT_EQ(found, units);
    }
  }
}

// However experts' rows follow one another, and as many as there is room for.
TEST(GroupedTiles, AreCountedByWordsOfTheirOwn) {
  constexpr uint32_t kMost = 576;  // the last experts' rows are cut
  for (const uint32_t entry_rows : {1, 16}) {
    const std::vector<uint32_t> counts = {1, 0, 15, 1, 1, 300, 0, 0, 17, 16, 200, 33};
    std::vector<uint32_t> words = {0};  // of all tiles
    uint32_t first = 0;
    for (uint32_t e = 0; e < counts.size(); ++e) {
      const uint32_t rows = device::rows_with_room(first, counts[e], kMost);
      const uint32_t units = device::units_of_rows(rows);
      const uint32_t tiles = device::row_tiles(rows, e > 8, 128);
      for (uint32_t tile = 0; tile < tiles; ++tile) {
        const uint32_t unit = device::first_unit_of(units, tiles, tile);
        words.push_back(device::stored_word(e, first + unit * device::kUnitRows));
      }
      first = device::next_first_row(first, counts[e], entry_rows, kMost);
    }
    for (size_t i = 1; i < words.size(); ++i) EXPECT_GT(words[i], words[i - 1]);
    EXPECT_EQ(first, kMost);
    EXPECT_LT(words.back(), device::stored_words(static_cast<uint32_t>(counts.size()), kMost));
  }
}

TEST(GroupedTiles, OfLowExpertsAreHalfAsHigh) {
  EXPECT_EQ(device::row_tiles<kMiddle>(256, false), 2u);
  EXPECT_EQ(device::row_tiles<kMiddle>(256, true), 4u);
  EXPECT_EQ(device::row_tiles<kMiddle>(17, true), 2u);
  EXPECT_EQ(device::row_tiles<kMiddle>(16, true), 1u) << "a unit is not cut";
  EXPECT_EQ(device::row_tiles<kMiddle>(0, true), 0u);
}

// 448 tiles are three rounds of 132 blocks and 52 more: with an expert's 56 halved, these end
// sooner.
TEST(GroupedTiles, AreLowWhereTheLastRoundIsHalfEmpty) {
  const GroupedShape few = {.rows = 2048, .experts = 8, .columns = 3584};
  EXPECT_EQ(low_experts(kMiddle, few, 132), 1);
  EXPECT_EQ(low_experts(kMiddle, few, 112), 0) << "four whole rounds";
  EXPECT_EQ(low_experts(kMiddle, {.rows = 65536, .experts = 128, .columns = 3072}, 132), 0);
  EXPECT_EQ(low_experts(kMiddle, {.rows = 128, .experts = 8, .columns = 3584}, 132), 0)
      << "low yet";
  EXPECT_EQ(low_experts(kMiddle, {}, 132), 0);
}

// All chunks of a tile are added up and stored by one range each, and what the others send fits
// where stages were.
TEST(GroupedRanges, ShareOutTheChunksOfATile) {
  for (const uint32_t ranges : {1, 2}) {
    for (uint32_t rows = 16; rows <= 192; rows += 16) {
      const uint32_t chunks = (rows + device::kTokenChunkRows - 1) / device::kTokenChunkRows;
      EXPECT_EQ(device::first_chunk_of(rows, 0, ranges), 0u);
      EXPECT_EQ(device::first_chunk_of(rows, ranges, ranges), chunks);
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const uint32_t range = device::range_of_chunk(rows, chunk, ranges);
        ASSERT_LT(range, ranges);
        EXPECT_LE(device::first_chunk_of(rows, range, ranges), chunk);
        EXPECT_GT(device::first_chunk_of(rows, range + 1, ranges), chunk);
      }
      for (uint32_t row = rows - 15; row <= rows; ++row) {
        EXPECT_EQ(device::first_chunk_of(row, 1, ranges), device::first_chunk_of(rows, 1, ranges))
            << "who stores knows rows, who adds up knows units";
      }
    }
  }
  const GroupedConfig config{.columns = 128, .rows = 128, .stages = 6, .ranges = 2};
  const device::GroupedLayout layout = device::layout_of(config);
  EXPECT_EQ(device::received_bytes(config), 2 * 32 * 128 * 4);
  EXPECT_LE(device::received_bytes(config), config.stages * (layout.a_bytes + layout.b_bytes));
}

// Counts are memory that anybody may have written.
TEST(GroupedRows, StayInThePartitionWhateverCountsSay) {
  constexpr uint32_t kMost = 100, kEntryRows = 16;
  const auto cut = [&](const std::vector<int32_t>& counts) {
    std::vector<std::pair<uint32_t, uint32_t>> rows;  // the first, and how many
    uint32_t first = 0;
    for (const int32_t count : counts) {
      const auto own = static_cast<uint32_t>(device::rows_within(count, kMost));
      rows.emplace_back(first, device::rows_with_room(first, own, kMost));
      first = device::next_first_row(first, own, kEntryRows, kMost);
    }
    return rows;
  };
  using Rows = std::vector<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(cut({16, 0, 17, 1, 20}), (Rows{{0, 16}, {16, 0}, {16, 17}, {48, 1}, {64, 20}}));
  EXPECT_EQ(cut({90, 3, -7, INT32_MAX, INT32_MIN, 4}),
            (Rows{{0, 90}, {96, 3}, {100, 0}, {100, 0}, {100, 0}, {100, 0}}));
  EXPECT_EQ(cut({INT32_MAX, INT32_MAX}), (Rows{{0, 100}, {100, 0}}));
}

TEST(GroupedConfigTest, IllegalOnesSayWhatWouldBeRight) {
  const auto why = [](GroupedConfig config) { return why_illegal(config); };
  EXPECT_NE(why({.columns = 160}).find("128, 192 or 256 columns"), std::string::npos);
  EXPECT_NE(why({.columns = 192, .rows = 176}).find("up to 160"), std::string::npos);
  EXPECT_NE(why({.columns = 128, .ranges = 4}).find("1 or 2 ranges"), std::string::npos);
  EXPECT_NE(why({.columns = 256, .ranges = 2}).find("128 columns"), std::string::npos);
  EXPECT_NE(why({.columns = 128, .rows = 144, .ranges = 2}).find("128 rows"), std::string::npos);
  EXPECT_NE(
      why({.columns = 128, .rows = 256, .gathers = true}).find("up to 192 where rows are gathered"),
      std::string::npos);
  EXPECT_NE(why({.columns = 192, .rows = 160, .gathers = true}).find("up to 128 where"),
            std::string::npos);
  EXPECT_NE(why({.columns = 256, .rows = 144, .scatters = true}).find("up to 128 where"),
            std::string::npos);
  EXPECT_NE(why({.columns = 256, .rows = 160}).find("up to 144"), std::string::npos);
  EXPECT_NE(why({.columns = 128, .rows = 40}).find("multiple of 16"), std::string::npos);
  EXPECT_EQ(why({.columns = 128, .rows = 48}), "");
  EXPECT_EQ(why({.columns = 128, .rows = 48, .gathers = true}), "");
  GroupedConfig both{.columns = 256, .rows = 144, .gathers = true, .scatters = true};
  EXPECT_NE(why(both).find("up to 128 where"), std::string::npos);
  both.follower = Follower::swiglu;
  EXPECT_EQ(why(both), "");
  EXPECT_NE(why({.columns = 256, .rows = 144, .gathers = true}).find("up to 128 where"),
            std::string::npos);
  EXPECT_NE(why({.columns = 128, .rows = 256, .stages = 5}).find("shared memory"),
            std::string::npos);
  EXPECT_NE(why({.columns = 128, .rows = 16, .stages = 13}).find("2 to 12"), std::string::npos);
  EXPECT_EQ(why({.columns = 256, .rows = 128, .stages = 3, .together = 4}), "");
  EXPECT_NE(why({.columns = 256, .rows = 128, .stages = 4, .together = 4}).find("shared memory"),
            std::string::npos);
  EXPECT_NE(why({.columns = 128, .rows = 64, .stages = 8, .together = 3}).find("1 to 2 chunks"),
            std::string::npos);
  EXPECT_NE(why({.columns = 128, .stages = 4, .together = 0}).find("not 0"), std::string::npos);
  EXPECT_NE(why({.columns = 128, .stages = 4, .ranges = 2, .together = 2}).find("one range"),
            std::string::npos);
  EXPECT_THROW(grouped_source({.columns = 64}), UsageError);
}

// A block that asks for more waits for ever.
TEST(GroupedConfigTest, AskForNoMoreRegistersThanABlockHas) {
  for (const int columns : {128, 192, 256}) {
    for (const int ranges : {1, 2}) {
      for (const bool gathers : {false, true}) {
        for (const bool scatters : {false, true}) {
          const GroupedConfig config{
              .columns = columns, .ranges = ranges, .gathers = gathers, .scatters = scatters};
          EXPECT_TRUE(device::has_registers(config)) << describe(config);
        }
      }
    }
  }
}

TEST(GroupedConfigTest, FittedOnesAreLegalAndGrowWithTheRows) {
  for (const bool gathers : {false, true}) {
    for (const int64_t rows : {0, 1, 100, 5000, 20000, 100000}) {
      const GroupedConfig config = fitted(
          {.gathers = gathers}, {.rows = rows, .experts = 128, .columns = 2048, .k = 768}, 132);
      EXPECT_EQ(why_illegal(config), "") << describe(config);
      EXPECT_EQ(config.gathers, gathers);
    }
  }
}

// Bits hang on ranges of K, so these are of the shape alone.
TEST(GroupedConfigTest, HaveRangesOfKWhateverTheNumberOfSms) {
  const auto ranges_of = [](int64_t rows, int sms) {
    return fitted({}, {.rows = rows, .experts = 1, .columns = 4096, .k = 14336}, sms).ranges;
  };
  for (const int sms : {16, 78, 114, 132, 148}) {
    EXPECT_EQ(ranges_of(256, sms), 2) << "64 tiles would leave half of the SMs without one";
    EXPECT_EQ(ranges_of(512, sms), 1);
  }
}

// With the stages that a whole tile of such a K takes beside.
TEST(GroupedConfigTest, OfAShortKHandOverHalfATileAtOnce) {
  for (const bool gathers : {false, true}) {
    const auto fitted_to = [&](int64_t k, int64_t rows) {
      return fitted({.gathers = gathers}, {.rows = rows, .experts = 128, .columns = 4096, .k = k},
                    132);
    };
    for (const int64_t k : {96, 192, 256}) {
      for (const int64_t rows : {8192, 65536}) {
        const GroupedConfig config = fitted_to(k, rows);
        EXPECT_GT(config.together, 1) << describe(config);
        EXPECT_GE(config.stages, 4) << describe(config);
      }
    }
    EXPECT_EQ(fitted_to(264, 65536).together, 1);
    EXPECT_EQ(fitted_to(192, 1024).together, 1) << "few rows wait for weights";
  }
}

// bench/tests/test_grouped_tiles.py holds the bench to the same file.
TEST(GroupedConfigTest, FittedOnesAreThoseOfTheBench) {
  std::ifstream file(STRETTO_TEST_DIR "/grouped_tiles.txt");
  int lines = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const size_t colon = line.find(':');
    ASSERT_NE(colon, std::string::npos) << line;
    std::istringstream words(line.substr(0, colon)), tile(line.substr(colon + 1));
    GroupedShape shape;
    int num_sms = 0, columns = 0, rows = 0, stages = 0, ranges = 0, together = 0;
    words >> shape.rows >> shape.experts >> shape.columns >> shape.k >> num_sms;
    tile >> columns >> rows >> stages >> ranges >> together;
    ASSERT_TRUE(words && tile) << line;
    GroupedConfig config;
    for (std::string word; words >> word;) {
      config.gathers |= word == "gathers";
      config.scatters |= word == "scatters";
      if (word == "swiglu") config.follower = Follower::swiglu;
    }
    config = fitted(config, shape, num_sms);
    EXPECT_EQ(config.columns, columns) << line;
    EXPECT_EQ(config.rows, rows) << line;
    EXPECT_EQ(config.stages, stages) << line;
    EXPECT_EQ(config.ranges, ranges) << line;
    EXPECT_EQ(config.together, together) << line;
    ++lines;
  }
  EXPECT_GT(lines, 10);
}

TEST(GroupedOperandsTest, ThatDoNotFitAreRefused) {
  const GroupedConfig config = kWide;
  GroupedOperands right;
  right.experts = 4;
  right.most_rows = 100;
  right.tokens = {256, 100, 512, 512, DType::bf16};
  right.weights = {256, 3 * 80 + 64, 512, 512, DType::bf16};
  right.expert_rows = 80;
  right.output = {256, 100, 64, 64, DType::bf16};
  right.rows_of_expert = right.tickets = 256;
  const auto expect_refused = [&](const char* with, const GroupedConfig& kernel, auto&& spoil) {
    GroupedOperands operands = right;
    spoil(operands);
    try {
      grouped_params(kernel, operands);
      ADD_FAILURE() << "not refused, though it should say: " << with;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(with), std::string::npos) << error.what();
    }
  };
  expect_refused("1 to 512 experts", config, [](auto& o) { o.experts = 513; });
  expect_refused("4 experts of 64 columns, 80 rows apart, have 304 rows of weights, not 303",
                 config, [](auto& o) { o.weights.rows = 303; });
  expect_refused("63 rows apart", config, [](auto& o) { o.expert_rows = 63; });
  expect_refused("100 sorted rows do not fit into 99 rows of tokens", config,
                 [](auto& o) { o.tokens.rows = 99; });
  expect_refused("rows of the output", config, [](auto& o) { o.output.rows = 99; });
  expect_refused("needs K over 64", config,
                 [](auto& o) { o.tokens.columns = o.weights.columns = o.weights.stride = 64; });
  const GroupedConfig of_ranges{.columns = 128, .rows = 128, .stages = 6, .ranges = 2};
  expect_refused("of 2 ranges needs K over 192", of_ranges,
                 [](auto& o) { o.tokens.columns = o.weights.columns = o.weights.stride = 192; });
  expect_refused("a multiple of 8 columns", config, [](auto& o) {
    o.output.columns = 63;
    o.weights.rows = 3 * 80 + 63;
  });
  expect_refused("are bf16", config, [](auto& o) { o.output.dtype = DType::fp16; });
  expect_refused("two words of zeros", config, [](auto& o) { o.tickets = 0; });
  GroupedConfig gathering = config, scattering = config;
  gathering.gathers = true;
  scattering.scatters = true;
  expect_refused("sources", gathering, [](auto&) {});
  const auto await = [](GroupedOperands& o) {
    o.sources = o.targets = 256;
    o.is_partition_early = true;
    o.ahead = {.words = 256, .rows = 128, .low_from = 4, .times = 2};
  };
  expect_refused("stored in order", scattering, [&](auto& o) {
    await(o);
    o.stored = 256;
  });
  for (const GroupedConfig& cannot : {gathering, of_ranges}) {
    expect_refused("without ranges, gathering", cannot, await);
  }
  expect_refused("whose partition stands early", config, [&](auto& o) {
    await(o);
    o.is_partition_early = false;
  });
  expect_refused("have rows and are counted", config, [&](auto& o) {
    await(o);
    o.ahead.rows = 0;
  });
  expect_refused("1 choice or more", config, [](auto& o) { o.per = 0; });
  GroupedConfig joining = config;
  joining.follower = Follower::swiglu;
  expect_refused("lie alike", joining, [](auto&) {});
  const auto put_up = [](GroupedOperands& o, DevicePtr at) {
    o.up = o.weights;
    o.up.address = at;
  };
  expect_refused("not 0:", joining, [&](auto& o) { put_up(o, 256); });
  expect_refused("not 8:", joining, [&](auto& o) { put_up(o, 264); });
  expect_refused("allocate them together", joining,
                 [&](auto& o) { put_up(o, 256 + (DevicePtr{1} << 40)); });
}

class GroupedCompile : public NeedsCompiler, public testing::WithParamInterface<GroupedConfig> {};

// Quick is left out: code for each number of units takes the tallest tile two to five seconds.
TEST_P(GroupedCompile, DoesNotSpill) {
  GroupedConfig up = GetParam(), down = GetParam();
  const auto if_legal = [](GroupedConfig& config, bool GroupedConfig::*has) {
    config.*has = true;
    config.*has = why_illegal(config).empty();
  };
  up.bf16 = false;
  up.follower = Follower::swiglu;
  if_legal(up, &GroupedConfig::gathers);
  if (up.columns == 256) up.scatters = true;
  if_legal(down, &GroupedConfig::scatters);
  const Compiler compiler{JitCache("")};
  for (const GroupedConfig& config : {up, down}) {
    const CompiledKernel kernel = compiler.compile(grouped_source(config), "sm_90a");
    EXPECT_GT(most_registers(kernel.log), 0) << describe(config);
    EXPECT_EQ(spilled_bytes(kernel.log), 0) << describe(config);
  }
}

class GroupedBothCompile : public NeedsCompiler {};

// Warps that gather leave few registers to the one that scatters. Low tiles are quick to compile.
TEST_F(GroupedBothCompile, OfRowsByIndexOnBothSidesDoNotSpill) {
  const Compiler compiler{JitCache("")};
  std::vector<GroupedConfig> tiles = {{.columns = 256, .rows = 32, .stages = 5},
                                      {.columns = 192, .rows = 32, .stages = 5}};
  if (is_thorough()) tiles.insert(tiles.end(), {kWide, kMiddle, kOfThree, kOfRanges});
  for (GroupedConfig config : tiles) {
    config.gathers = config.scatters = true;
    const CompiledKernel kernel = compiler.compile(grouped_source(config), "sm_90a");
    EXPECT_EQ(spilled_bytes(kernel.log), 0) << describe(config);
  }
}

// Of each sort the highest; the middle ones are less than the wide one in everything.
INSTANTIATE_TEST_SUITE_P(
    Tiles, GroupedCompile,
    testing::ValuesIn(is_thorough()
                          ? std::vector{kWide, kTall, kOfThree, kOfRanges, kMiddle, kOfShortK,
                                        kTallOfShortK, kTallOfThree, kTallOfWide}
                          : std::vector{kWide, kTall, kOfThree, kOfRanges, kOfShortK, kTallOfShortK,
                                        kTallOfThree, kTallOfWide}),
    [](const auto& tile) {
      return fmt::format("{}x{}x{}", tile.param.columns, tile.param.rows, tile.param.together);
    });

}  // namespace
}  // namespace stretto::cuda
