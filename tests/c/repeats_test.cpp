// Calls that come again, of objects that stand for another language's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "stretto/c_repeats.h"

namespace stretto {
namespace {

using testing::ElementsAre, testing::HasSubstr;

// DLPack's.
struct DlTensor {
  void* data;
  int32_t device_type, device_id, num_dims;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct Object {
  int type = 0;
  uint64_t address = 0;
  std::vector<int64_t> shape, strides;
  int device = 0;
  uint8_t bits = 16;
  bool has_view = true;

  explicit Object(uint64_t at, std::vector<int64_t> sizes = {4, 8})
      : address(at), shape(std::move(sizes)) {
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides.insert(strides.begin(), step);
  }
};
using List = std::vector<Object*>;

std::array<int, 3> types;
int locked = 1, cleared = 0, types_held = 0, status = STRETTO_GOOD;
std::vector<std::string> ran;

int view(void* object, void* to) {
  auto& of = *static_cast<Object*>(object);
  if (!of.has_view) return -1;
  *static_cast<DlTensor*>(to) = {reinterpret_cast<void*>(of.address),
                                 2,
                                 of.device,
                                 static_cast<int32_t>(of.shape.size()),
                                 4,
                                 of.bits,
                                 1,
                                 of.shape.data(),
                                 of.strides.data(),
                                 0};
  return 0;
}

void* item(void* list, ptrdiff_t index) {
  const List& all = *static_cast<List*>(list);
  return static_cast<size_t>(index) < all.size() ? all[static_cast<size_t>(index)] : nullptr;
}

void* type_of(void* object) {
  ++types_held;
  return &types[static_cast<size_t>(static_cast<Object*>(object)->type)];
}

const stretto_objects kObjects = {sizeof kObjects,
                                  view,
                                  [] { ++cleared; },
                                  item,
                                  type_of,
                                  [](void*) { --types_held; },
                                  []() -> void* {
                                    --locked;
                                    return &locked;
                                  },
                                  [](void* lock) { ++*static_cast<int*>(lock); },
                                  {&types[0], &types[1]}};

int run(stretto_operation*, int64_t rows, const stretto_call_tensor* tensors, size_t count, void*) {
  EXPECT_EQ(locked, 0);
  std::string said = std::to_string(rows);
  for (size_t i = 0; i < count; ++i) {
    said += std::string(" ") + tensors[i].name + "@" + std::to_string(tensors[i].address);
  }
  ran.push_back(said);
  return status;
}

// x, two weights of which one is behind the other, and what is added; then a result.
class Repeats : public testing::Test {
 protected:
  void SetUp() override {
    ran.clear();
    status = STRETTO_GOOD;
    cleared = 0;
  }
  void TearDown() override {
    EXPECT_EQ(stretto_repeat_close(repeat_), STRETTO_GOOD);
    EXPECT_EQ(types_held, 0);
    EXPECT_EQ(locked, 1);
  }

  int make() {
    EXPECT_EQ(stretto_repeat_close(repeat_), STRETTO_GOOD);
    stretto_repeat_request request = {
        sizeof request, run,       nullptr, 7, tensors_, 3, &kObjects, &inputs_, places_.data(),
        places_.size(), &outputs_, 1};
    return stretto_repeat_make(&request, &repeat_);
  }
  int again() { return stretto_repeat_run(repeat_, &inputs_, &outputs_, nullptr); }

  stretto_call_tensor tensors_[3] = {{sizeof *tensors_, "a", 0, 0, 1, 8},
                                     {sizeof *tensors_, "b", 0, 0, 2, 8},
                                     {sizeof *tensors_, "out", 0, 0, 3, 8}};
  Object x_{0x1000}, w_{0x2000}, behind_{0x2040, {2, 8}}, added_{0x3002, {8}}, out_{0x4000};
  List inputs_ = {&x_, &w_, &behind_, &added_}, outputs_ = {&out_};
  std::vector<int32_t> places_ = {0, 1, STRETTO_BEHIND, STRETTO_ADDED};
  stretto_repeat* repeat_ = nullptr;
};

TEST_F(Repeats, RunsWithTheAddressesOfTheObjects) {
  ASSERT_EQ(make(), STRETTO_GOOD) << stretto_last_error();
  tensors_[0].name = "forgotten since";
  EXPECT_EQ(again(), STRETTO_GOOD);
  x_.address = 0x5000, x_.type = 1, out_.address = 0x6000;
  EXPECT_EQ(stretto_repeat_takes(repeat_, &inputs_), STRETTO_GOOD);
  EXPECT_EQ(again(), STRETTO_GOOD);
  EXPECT_THAT(ran, ElementsAre("7 a@4096 b@8192 out@16384", "7 a@20480 b@8192 out@24576"));
  status = STRETTO_SYSTEM_FAULT;
  EXPECT_EQ(again(), STRETTO_SYSTEM_FAULT);
}

TEST_F(Repeats, LeavesObjectsThatAreOtherwise) {
  ASSERT_EQ(make(), STRETTO_GOOD);
  const auto otherwise = [&](auto& what, auto other, bool is_output = false) {
    const auto before = what;
    what = other;
    EXPECT_EQ(stretto_repeat_takes(repeat_, &inputs_),
              is_output ? STRETTO_GOOD : STRETTO_OTHERWISE);
    EXPECT_EQ(again(), STRETTO_OTHERWISE);
    what = before;
  };
  const List fewer(inputs_.begin(), inputs_.end() - 1), none;
  otherwise(x_.type, 2);
  otherwise(x_.has_view, false);
  otherwise(x_.device, 1);
  otherwise(w_.bits, uint8_t{32});
  otherwise(w_.shape, std::vector<int64_t>{8, 4});
  otherwise(w_.shape, std::vector<int64_t>{4, 8, 1});
  otherwise(w_.strides, std::vector<int64_t>{16, 1});
  otherwise(w_.address, uint64_t{0x2008});
  otherwise(behind_.address, uint64_t{0x2050});
  otherwise(inputs_, fewer);
  otherwise(outputs_, none, true);
  otherwise(out_.device, 1, true);
  otherwise(out_.address, uint64_t{0x4008}, true);
  for (const uint64_t overlapping : {0x1030, 0x0fd0, 0x2050, 0x3000}) {
    otherwise(out_.address, overlapping, true);
  }
  EXPECT_EQ(cleared, 5);
  EXPECT_TRUE(ran.empty());
  EXPECT_EQ(again(), STRETTO_GOOD);
}

TEST_F(Repeats, DimensionsOfOneElementHaveAnyStride) {
  x_.shape = {1, 32}, x_.strides = {5, 1};
  ASSERT_EQ(make(), STRETTO_GOOD);
  EXPECT_EQ(again(), STRETTO_GOOD);
}

TEST_F(Repeats, MistakesAreOneLine) {
  const auto says = [&](const char* what) {
    EXPECT_EQ(make(), STRETTO_BAD_USAGE);
    EXPECT_THAT(stretto_last_error(), HasSubstr(what));
    EXPECT_EQ(repeat_, nullptr);
  };
  places_[0] = 2;
  says("input 0 has place 2; 0 to 1");
  places_[0] = STRETTO_BEHIND;
  says("input 0 has place -1");
  places_[0] = 0;
  x_.strides[0] = 9;
  says("input 0 is no contiguous tensor");
  x_.strides[0] = 8;
  tensors_[1].name = nullptr;
  says("request.tensors.name is NULL");
  EXPECT_EQ(stretto_repeat_run(nullptr, &inputs_, &outputs_, nullptr), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("repeat is NULL"));
  EXPECT_EQ(stretto_repeat_takes(nullptr, &inputs_), STRETTO_BAD_USAGE);
  EXPECT_EQ(stretto_repeat_make(nullptr, &repeat_), STRETTO_BAD_USAGE);
  EXPECT_THAT(stretto_last_error(), HasSubstr("request is NULL"));
}

}  // namespace
}  // namespace stretto
