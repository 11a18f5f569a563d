// cuBLAS alone, as it is simulated, against 389 products that one H200 measured
// (docs/notes/cublas-alone.md).
#include "sim/library_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/file.h"
#include "sim/calibration.h"
#include "sim/costs.h"

namespace stretto::sim {
namespace {

struct Product {
  LibraryProduct of;
  double warm_us, cold_us;

  double bytes() const { return static_cast<double>(2 * (of.rows + of.columns) * of.k); }
};

const std::vector<Product>& products() {
  static const std::vector<Product> all = [] {
    const auto file =
        std::filesystem::path(STRETTO_TEST_DIR) / "../../bench/results/products_h200_x1.json";
    const auto rows = nlohmann::json::parse(read_file(file.string(), size_t{1} << 20)).at("rows");
    std::vector<Product> found;
    for (const auto& row : rows) {
      found.push_back(
          {{row.at("m"), row.at("n"), row.at("k")}, row.at("warm_us"), row.at("cold_us")});
    }
    return found;
  }();
  return all;
}

double simulated_us(const Product& one, const Machine& machine) {
  return library_us(one.of, machine.sms, 1, machine);
}

TEST(LibraryProduct, IsNearWhatWasMeasured) {
  const Machine machine = load_machine("h200x8");
  std::vector<double> off;
  for (const Product& one : products()) {
    if (one.warm_us > 60) continue;  // beyond, power decides
    off.push_back(std::abs(simulated_us(one, machine) / one.warm_us - 1));
  }
  ASSERT_GT(off.size(), 200u);
  std::sort(off.begin(), off.end());
  EXPECT_LT(off[off.size() / 2], 0.07);
  EXPECT_LT(off[off.size() * 9 / 10], 0.19);
}

// Of few rows, whose time is that of reading.
TEST(LibraryProduct, ReadsFromTheCacheWhatFitsIntoMostOfIt) {
  const Machine machine = load_machine("h200x8");
  size_t kept = 0;
  for (const Product& one : products()) {
    if (one.of.rows > 32 || one.bytes() < 24e6 || one.bytes() > 46e6) continue;
    SCOPED_TRACE(testing::Message() << one.of.rows << " " << one.of.columns << " " << one.of.k);
    EXPECT_NEAR(simulated_us(one, machine) / one.warm_us, 1, 0.15);
    const double saved = move_us(one.bytes(), kLibraryReads.of_memory * machine.hbm_gb_per_s) -
                         reread_us(one.bytes(), kLibraryReads, machine);
    EXPECT_NEAR(saved, one.cold_us - one.warm_us, 1.5);
    ++kept;
  }
  EXPECT_GT(kept, 3u);
}

TEST(LibraryProduct, ReadsFromMemoryWhatIsAsLargeAsTheCache) {
  const Machine machine = load_machine("h200x8");
  const auto rate = [&](double bytes) { return bytes / reread_us(bytes, kLibraryReads, machine); };
  const double cache = machine.l2_bytes();
  EXPECT_NEAR(rate(cache), kLibraryReads.of_memory * machine.hbm_gb_per_s * 1e3, 1);
  EXPECT_NEAR(rate(2 * cache), rate(cache), 1);
  EXPECT_NEAR(rate(0.8 * cache), rate(0.1 * cache), 1);
  EXPECT_LT(rate(0.95 * cache), 0.8 * rate(0.8 * cache));
}

}  // namespace
}  // namespace stretto::sim
