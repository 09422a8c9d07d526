#include "engine/model/tensors/safetensors.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/bad_file_test.h"
#include "tests/engine/model/weights_files.h"

namespace upscaled {
namespace {

using test::BadFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwo[] =
    R"({"__metadata__": {"format": "pt"},
        "module.b": {"dtype": "F16", "shape": [3], "data_offsets": [8, 14]},
        "module.a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "module.c": {"dtype": "BF16", "shape": [], "data_offsets": [14, 16]},
        "module.none": {"dtype": "F32", "shape": [0, 7], "data_offsets": [16, 16]}}   )";

std::string TwoValues() {
  return test::FloatBytes({1.5f, -2.0f}) + test::LittleEndian(0x3c00, 2) +
         test::LittleEndian(0xc000, 2) + test::LittleEndian(0x0001, 2) +
         test::LittleEndian(0xbf80, 2);
}

TEST(SafetensorsTest, ReadsAllTypesOfFloats) {
  const auto file = ParseSafetensors(test::Safetensors(kTwo, TwoValues()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 4u);
  EXPECT_THAT((*file)->Find("a")->shape, ElementsAre(2, 1));
  EXPECT_THAT((*file)->Read("a").value(), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT((*file)->Read("b").value(), ElementsAre(1.0f, -2.0f, 0x1p-24f));
  EXPECT_THAT((*file)->Read("c").value(), ElementsAre(-1.0f));
  EXPECT_THAT((*file)->Read("none").value(), ElementsAre());
  EXPECT_EQ((*file)->Read("d").status().code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsTest, OtherTypesAreNamedWhereTheyAreRead) {
  const auto file = ParseSafetensors(test::Safetensors(
      R"({"steps": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}})", "12345678"));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = (*file)->Read("steps").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'steps': has the type 'I64'"));
}

// In time in proportion: with a callback, the parser went over all tensors again at each one's end.
TEST(SafetensorsTest, ManyTensorsAreReadInOnePass) {
  constexpr int kTensors = 60'000;  // a minute and a half, once
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    header += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) +
              R"(": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";
  }
  const auto file = ParseSafetensors(test::Safetensors(header + "}", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), kTensors);
}

TEST(SafetensorsTest, TensorsAreLimited) {
  const auto parse = [](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i) {
      header += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) +
                R"(": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})";
    }
    return ParseSafetensors(test::Safetensors(header + "}", "")).status();
  };
  EXPECT_TRUE(parse(65536).ok());
  const absl::Status refused = parse(65537);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("more than 65536 tensors"));
}

TEST(SafetensorsTest, NamesOfTrainersAreDroppedAndThoseOfNetworksAreNot) {
  const auto first_of = [](const char* name) {
    const auto file = ParseSafetensors(test::SafetensorsOf({{name, {1}}}));
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? (*file)->tensors().begin()->first : "";
  };
  EXPECT_EQ(first_of("module.body.0.weight"), "body.0.weight");
  EXPECT_EQ(first_of("model.body.0.weight"), "body.0.weight");
  EXPECT_EQ(first_of("module.model.0.weight"), "model.0.weight");
  EXPECT_EQ(first_of("model.model.0.weight"), "model.0.weight");
  for (const char* wrapped :
       {"_orig_mod.body.0.weight", "module._orig_mod.body.0.weight",
        "_orig_mod.module.body.0.weight", "generator.body.0.weight", "net_g.body.0.weight",
        "params_ema.body.0.weight", "params.module.body.0.weight", "state_dict.body.0.weight"}) {
    EXPECT_EQ(first_of(wrapped), "body.0.weight") << wrapped;
  }
  EXPECT_EQ(first_of("module."), "module.") << "nothing would be left";
}

// As AveragedModel of PyTorch saves it.
TEST(SafetensorsTest, CountsOfAveragedNetworksAreDropped) {
  const auto file =
      ParseSafetensors(test::SafetensorsOf({{"module.body.0.weight", {1}}, {"n_averaged", {}}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 1u);
  EXPECT_TRUE((*file)->Has("body.0.weight"));
}

class BadSafetensorsTest : public test::BadFileTest {};

TEST_P(BadSafetensorsTest, IsRefused) {
  const auto file = Load(ParseSafetensors);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(GetParam().message));
}

std::string OneTensor(const std::string& fields, size_t bytes) {
  return test::Safetensors("{\"a\": {" + fields + "}}", std::string(bytes, '\0'));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadSafetensorsTest,
    ::testing::Values(
        BadFile{"Short", "1234567", "cut short"},
        BadFile{"HeaderOf2To63", test::LittleEndian(uint64_t{1} << 63, 8) + "{}",
                "a header of 9223372036854775808 bytes, at most 2 are"},
        BadFile{"HeaderOf2To64", test::LittleEndian(~uint64_t{0}, 8) + "{}", "at most 2"},
        BadFile{"HeaderBeyondLimit", test::Safetensors(std::string((16 << 20) + 1, ' '), ""),
                "at most 16777216"},
        BadFile{"NoJson", test::Safetensors("{\"a\": ", ""), "no JSON object"},
        BadFile{"Array", test::Safetensors("[]", ""), "no JSON object"},
        BadFile{"Nested", test::Safetensors("{\"a\":" + std::string(100000, '['), ""), "nested"},
        BadFile{"Twice",
                test::Safetensors(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                                      "a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
                                  "12345678"),
                "'a' twice"},
        BadFile{"NamelessTwice", test::Safetensors(R"({"": 1, "": 2})", ""), "'' twice"},
        BadFile{
            "FieldTwice",
            OneTensor(R"("dtype": "F16", "dtype": "F32", "shape": [1], "data_offsets": [0, 4])", 4),
            "'dtype' twice"},
        BadFile{"NoType", OneTensor(R"("shape": [1], "data_offsets": [0, 4])", 4), "'dtype'"},
        BadFile{"UnknownField",
                OneTensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4], "x": 1)", 4),
                "and no more"},
        BadFile{"NegativeSide",
                OneTensor(R"("dtype": "F32", "shape": [-1], "data_offsets": [0, 4])", 4),
                "whole numbers 'shape'"},
        BadFile{"FractionalSide",
                OneTensor(R"("dtype": "F32", "shape": [1.0], "data_offsets": [0, 4])", 4),
                "whole numbers 'shape'"},
        BadFile{"HugeSide",
                OneTensor(R"("dtype": "F32", "shape": [18446744073709551615], )"
                          R"("data_offsets": [0, 4])",
                          4),
                "0..100000000 values"},
        BadFile{"HugeProduct",
                OneTensor(R"("dtype": "F32", "shape": [65536, 65536, 65536, 65536], )"
                          R"("data_offsets": [0, 4])",
                          4),
                "0..100000000 values"},
        BadFile{"Axes",
                OneTensor(R"("dtype": "F32", "shape": [1, 1, 1, 1, 1, 1, 1, 1, 1], )"
                          R"("data_offsets": [0, 4])",
                          4),
                "9 axes"},
        BadFile{"OneOffset", OneTensor(R"("dtype": "F32", "shape": [1], "data_offsets": [4])", 4),
                "two offsets"},
        BadFile{"Backwards",
                OneTensor(R"("dtype": "F32", "shape": [1], "data_offsets": [4, 0])", 4),
                "lies at [4, 0]"},
        BadFile{"BeyondTheEnd",
                OneTensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 8])", 4),
                "within 4 bytes"},
        BadFile{"OtherSize",
                OneTensor(R"("dtype": "F32", "shape": [2], "data_offsets": [0, 4])", 4),
                "of 2 in F32 needs 8 bytes, has 4"},
        BadFile{"GapAtTheEnd",
                OneTensor(R"("dtype": "F32", "shape": [1], "data_offsets": [0, 4])", 6),
                "a gap between the bytes 4 and 6"},
        BadFile{"GapAtTheBegin",
                OneTensor(R"("dtype": "F32", "shape": [1], "data_offsets": [2, 6])", 6),
                "a gap between the bytes 0 and 2"},
        BadFile{"Overlap",
                test::Safetensors(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                                      "b": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})",
                                  "123456"),
                "overlap between the bytes 2 and 4"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace upscaled
