// How many rows experts have under a routing, and the floor of their products.
#include "measure/expert_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>

namespace stretto::runtime {
namespace {

using testing::Each;
using testing::ElementsAre;

const OperatorSegment& first_routed(const Operator& op) {
  for (const OperatorSegment& segment : op.segments) {
    if (segment.product && segment.product->is_routed()) return segment;
  }
  throw std::runtime_error("no row chooses");
}

std::vector<int64_t> rows_of(const std::string& text, const Routing& routing = {}) {
  const Operator op = parse_operator(text);
  return expert_rows(op, first_routed(op), bench_data(routing));
}

int64_t sum(const std::vector<int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

Routing table_of(std::vector<int32_t> ids, int64_t top_k) {
  const auto table = std::make_shared<RoutingTable>();
  table->ids = std::move(ids);
  table->top_k = top_k;
  return {RoutingKind::uniform, table};
}

TEST(ExpertRows, AreThoseThatTokensChoose) {
  const std::string op = "moe-ep t=3 h=16 f=16 experts=4 k=2 ranks=1 dtype=bf16";
  EXPECT_THAT(rows_of(op, table_of({0, 1, 3, 1, 1, 0}, 2)), ElementsAre(2, 3, 0, 1));
  EXPECT_THAT(rows_of(op, table_of({0, -1, 3, 9, -7, 0}, 2)), ElementsAre(2, 0, 0, 1))
      << "what is no expert has no rows";
}

TEST(ExpertRows, AreAsManyAsThereAreChoices) {
  for (const RoutingKind kind : {RoutingKind::uniform, RoutingKind::zipf, RoutingKind::one_hot}) {
    const auto rows =
        rows_of("moe-tp t=999 h=16 f=32 experts=8 k=3 ranks=2 dtype=bf16", {kind, nullptr});
    EXPECT_EQ(sum(rows), 999 * 3);
    const auto most = *std::max_element(rows.begin(), rows.end());
    EXPECT_EQ(most == 999, kind == RoutingKind::one_hot) << to_string(kind);
  }
}

TEST(ExpertRows, OfSlicesAreThoseOfTheirExperts) {
  // Slice 0 of all experts, then slice 1 of all.
  EXPECT_THAT(rows_of("moe-ep-slices t=3 h=16 f=16 experts=4 k=2 slices=2 ranks=1 dtype=bf16",
                      table_of({0, 1, 3, 1, 1, 0}, 2)),
              ElementsAre(2, 3, 0, 1, 2, 3, 0, 1));
}

TEST(ExpertRows, AreEvenWhereScoresChoose) {
  EXPECT_THAT(rows_of("moe-ep-router t=64 h=16 f=16 experts=8 k=2 ranks=1 dtype=bf16"), Each(16));
  EXPECT_EQ(sum(rows_of("moe-tp-router t=61 h=16 f=32 experts=8 k=3 ranks=2 dtype=bf16")), 61 * 3);
}

TEST(ExpertRows, AreOfARoutingWhereTheCallerGivesIds) {
  const auto takes = [](const char* text) { return takes_routing(parse_operator(text)); };
  EXPECT_TRUE(takes("moe-ep t=8 h=16 f=16 experts=4 k=2 ranks=1 dtype=bf16"));
  EXPECT_TRUE(takes("moe-ep-slices t=8 h=16 f=16 experts=4 k=2 slices=2 ranks=1 dtype=bf16"));
  EXPECT_FALSE(takes("moe-ep-router t=8 h=16 f=16 experts=4 k=2 ranks=1 dtype=bf16"));
  EXPECT_FALSE(takes("embedding-a2a bags=8 tables=4 rows=9 dim=16 pool=2 ranks=1 dtype=bf16"));
}

TEST(OwnMatrices, AreThoseThatRanksWereDealt) {
  const Operator op = parse_operator("moe-ep t=8 h=16 f=16 experts=5 k=2 ranks=2 dtype=bf16");
  const int stack = *op.find_tensor("wg");
  const OwnMatrices first = own_matrices(op, stack, 0), last = own_matrices(op, stack, 1);
  EXPECT_EQ(first.first, 0);
  EXPECT_EQ(last.first, first.count);
  EXPECT_EQ(first.count + last.count, 5);
  const Operator cut = parse_operator("moe-tp t=8 h=16 f=16 experts=5 k=2 ranks=2 dtype=bf16");
  EXPECT_EQ(own_matrices(cut, *cut.find_tensor("wg"), 1).first, 0);
  EXPECT_EQ(own_matrices(cut, *cut.find_tensor("wg"), 1).count, 5);
}

// A token of 64 columns is 128 bytes, and so is the sum that comes back.
TEST(RoutedLinkBytes, AreThoseOfTheBusiestPort) {
  const Operator op = parse_operator("moe-ep t=8 h=64 f=32 experts=4 k=2 ranks=2 dtype=bf16");
  const auto bytes = [&](std::vector<int32_t> ids) {
    return routed_link_bytes(op, bench_data(table_of(std::move(ids), 2)));
  };
  EXPECT_EQ(bytes({0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}), 0) << "all stay at home";
  EXPECT_EQ(bytes({0, 1, 0, 1, 0, 1, 0, 2, 2, 3, 2, 3, 2, 3, 2, 3}), 128) << "and one goes";
  EXPECT_EQ(bytes({2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3}), 4 * 128)
      << "both choices of a token go together";
  EXPECT_EQ(bytes({2, 3, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1, 0, 1, 0, 1}), 2 * 4 * 128)
      << "each port has tokens one way and sums the other";
}

TEST(RoutedLinkBytes, AreOthersWhereNothingIsDispatched) {
  for (const char* text : {"moe-tp t=64 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                           "moe-ep-router t=64 h=64 f=64 experts=4 k=2 ranks=2 dtype=bf16",
                           "gemm-rs m=64 n=64 k=64 ranks=2 dtype=bf16"}) {
    const Operator op = parse_operator(text);
    EXPECT_GT(link_bytes(op), 0);
    EXPECT_DOUBLE_EQ(routed_link_bytes(op, bench_data({})), link_bytes(op)) << text;
  }
  // Experts all as likely, of one choice each: what the operator takes for the mean.
  const Operator even = parse_operator("moe-ep t=8192 h=64 f=64 experts=8 k=1 ranks=4 dtype=bf16");
  EXPECT_NEAR(routed_link_bytes(even, bench_data({})) / link_bytes(even), 1, 0.1);
}

class ExpertFloor : public testing::Test {
 protected:
  ExpertFloor() {
    machine_.gemm_tflops = 1;     // 1e6 multiply-adds in 2 us
    machine_.hbm_gb_per_s = 1e9;  // no time at all
  }
  double floor(const std::string& text, const Routing& routing = {}) const {
    return expert_floor_us(parse_operator(text), machine_, bench_data(routing));
  }
  Machine machine_ = default_machine(2);
};

// Three products of 64 x 32 weights for each choice.
constexpr double kOfAChoice = 3.0 * 64 * 32 * 2 / 1e6;

TEST_F(ExpertFloor, IsTheMultiplyAddsOfTheBusiestRank) {
  const std::string op = "moe-ep t=100 h=64 f=32 experts=4 k=1 ranks=2 dtype=bf16";
  std::vector<int32_t> ids(100, 0);
  EXPECT_NEAR(floor(op, table_of(ids, 1)), 100 * kOfAChoice, 1e-9);
  for (size_t i = 0; i < 40; ++i) ids[i] = 3;  // the other rank's
  EXPECT_NEAR(floor(op, table_of(ids, 1)), 60 * kOfAChoice, 1e-9);
}

TEST_F(ExpertFloor, OfExpertsThatRanksCutIsAShareOfAll) {
  const std::string op = "moe-tp t=100 h=64 f=64 experts=4 k=1 ranks=2 dtype=bf16";
  EXPECT_NEAR(floor(op), 100 * kOfAChoice, 1e-9);
}

TEST_F(ExpertFloor, IsTheWeightsOfExpertsWithRowsWhereTheseAreFew) {
  machine_.gemm_tflops = 1e9;
  machine_.hbm_gb_per_s = 1;  // 1e3 bytes in a us
  const std::string op = "moe-ep t=2 h=64 f=32 experts=8 k=2 ranks=1 dtype=bf16";
  const double of_one = 3.0 * 64 * 32 * 2 / 1e3;
  EXPECT_NEAR(floor(op, table_of({0, 1, 1, 0}, 2)), 2 * of_one, 1e-9);
  EXPECT_NEAR(floor(op, table_of({0, 1, 2, 7}, 2)), 4 * of_one, 1e-9);
}

TEST_F(ExpertFloor, HasTheSharedExpertAndTheScoresToo) {
  const std::string sizes = " t=64 h=64 f=32 experts=4 k=2 ranks=1 dtype=bf16";
  const double alone = floor("moe-ep" + sizes);
  EXPECT_NEAR(floor("moe-ep-router" + sizes) - alone, 2.0 * 64 * 64 * 4 / 1e6, 1e-9);
  EXPECT_NEAR(floor("moe-ep-shared t=64 h=64 f=32 s=32 experts=4 k=2 ranks=1 dtype=bf16") - alone,
              64 * kOfAChoice, 1e-9);
}

TEST_F(ExpertFloor, IsNoneOfOtherOperators) {
  EXPECT_EQ(floor("gemm-rs m=64 n=64 k=64 ranks=2 dtype=bf16"), 0);
}

}  // namespace
}  // namespace stretto::runtime
