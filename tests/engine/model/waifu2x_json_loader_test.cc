#include "engine/model/waifu2x_json_loader.h"

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "engine/backends/reference/run_tile.h"
#include "engine/graph/tile_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using Json = nlohmann::json;
using test::FreshRandom;
using ::testing::HasSubstr;

// Nested arrays [a][b][kernel][kernel] of random numbers.
Json RandomWeights(std::mt19937& random, int a, int b, int kernel_px) {
  std::normal_distribution<float> normal(0, 0.3f);
  Json weights = Json::array();
  for (int i = 0; i < a; ++i) {
    for (int j = 0; j < b; ++j) {
      for (int y = 0; y < kernel_px; ++y) {
        for (int x = 0; x < kernel_px; ++x) weights[i][j][y][x] = normal(random);
      }
    }
  }
  return weights;
}

Json Layer3x3(std::mt19937& random, int in, int out) {
  return {{"class_name", "nn.SpatialConvolutionMM"},
          {"nInputPlane", in},
          {"nOutputPlane", out},
          {"kW", 3},
          {"kH", 3},
          {"dW", 1},
          {"dH", 1},
          {"padW", 0},
          {"padH", 0},
          {"weight", RandomWeights(random, out, in, 3)},
          {"bias", Json(std::vector<float>(out, 0.125f))}};
}

// The shape of vgg_7, narrower.
Json Vgg7(std::mt19937& random) {
  Json layers = Json::array();
  const int widths[] = {3, 4, 4, 5, 5, 6, 6, 3};
  for (int i = 0; i < 7; ++i) layers.push_back(Layer3x3(random, widths[i], widths[i + 1]));
  layers[0]["model_config"] = {{"arch_name", "vgg_7"}, {"channels", 3}, {"scale_factor", 1}};
  return layers;
}

Json Upconv7(std::mt19937& random) {
  Json layers = Json::array();
  const int widths[] = {3, 4, 4, 5, 5, 6, 6};
  for (int i = 0; i < 6; ++i) layers.push_back(Layer3x3(random, widths[i], widths[i + 1]));
  Json last = Layer3x3(random, 6, 3);
  last["class_name"] = "cudnn.SpatialFullConvolution";
  last["weight"] = RandomWeights(random, 6, 3, 4);
  for (const char* key : {"kW", "kH"}) last[key] = 4;
  for (const char* key : {"dW", "dH"}) last[key] = 2;
  for (const char* key : {"padW", "padH"}) last[key] = 3;
  layers.push_back(last);
  layers[0]["model_config"] = {{"arch_name", "upconv_7"}, {"channels", 3}, {"scale_factor", 2}};
  return layers;
}

Image RunReference(const Network& network, const Image& source) {
  const Size size = source.spec().size();
  const Rect whole{0, 0, size.width, size.height};
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
  reference::RunTile(network, {std::make_shared<const TilePlan>(PlanTile(network, size, whole)),
                               source.view(), whole, result.mutable_view()});
  return result;
}

TEST(Waifu2xJsonLoaderTest, Upconv7) {
  std::mt19937 random = FreshRandom();
  const Json json = Upconv7(random);
  // It enlarges by itself, so that the file's name changes nothing.
  for (const bool enlarge_first : {false, true}) {
    const auto network = ParseWaifu2xJson(json.dump(), enlarge_first);
    ASSERT_TRUE(network.ok()) << network.status();
    EXPECT_EQ(network->scale, 2);
    EXPECT_EQ(network->pad_px, 7);
    EXPECT_EQ(network->align_px, 1);
    ASSERT_EQ(network->layers.size(), 8u);
    const Layer& first = network->layers[1];
    EXPECT_EQ(first.activation, Activation::kLeakyRelu);
    EXPECT_THAT(first.slope, ::testing::ElementsAre(0.1f));
    EXPECT_EQ(first.weights[(2 * 3 + 1) * 9 + 3 * 1 + 2], json[0]["weight"][2][1][1][2]);
    const Layer& last = network->layers[7];
    EXPECT_EQ(last.op, Op::kConvTranspose);
    EXPECT_EQ(last.activation, Activation::kNone);
    EXPECT_EQ(last.weights[(4 * 3 + 1) * 16 + 4 * 3 + 2], json[6]["weight"][4][1][3][2]);
  }
}

TEST(Waifu2xJsonLoaderTest, Vgg7ForTheSameSize) {
  std::mt19937 random = FreshRandom();
  const auto network = ParseWaifu2xJson(Vgg7(random).dump(), false);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->scale, 1);
  EXPECT_EQ(network->pad_px, 7);
}

TEST(Waifu2xJsonLoaderTest, Vgg7ForScale2SeesPixelsRepeated) {
  std::mt19937 random = FreshRandom();
  const std::string json = Vgg7(random).dump();
  const auto same_size = ParseWaifu2xJson(json, false), scale2 = ParseWaifu2xJson(json, true);
  ASSERT_TRUE(same_size.ok()) << same_size.status();
  ASSERT_TRUE(scale2.ok()) << scale2.status();
  EXPECT_EQ(scale2->scale, 2);

  const Image small = test::RandomImage({9, 6, 3, SampleType::kU8}, random);
  Image large({18, 12, 3, SampleType::kU8});
  for (int y = 0; y < 12; ++y) {
    for (int i = 0; i < 3 * 18; ++i) {
      large.mutable_view().row(y)[i] = small.view().row(y / 2)[i / 6 * 3 + i % 3];
    }
  }
  EXPECT_TRUE(test::SameImages(RunReference(*scale2, small).view(),
                               RunReference(*same_size, large).view()));
}

void ExpectError(Json json, absl::StatusCode code, const std::string& message) {
  const auto network = ParseWaifu2xJson(json.dump(), false);
  EXPECT_EQ(network.status().code(), code);
  EXPECT_THAT(std::string(network.status().message()), HasSubstr(message));
}

TEST(Waifu2xJsonLoaderTest, Errors) {
  std::mt19937 random = FreshRandom();
  const Json good = Vgg7(random);
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto unimplemented = absl::StatusCode::kUnimplemented;
  const auto with = [&](int layer, const char* key, Json value) {
    Json json = good;
    json[layer][key] = std::move(value);
    return json;
  };
  EXPECT_EQ(ParseWaifu2xJson(good.dump().substr(0, 1000), false).status().message(),
            "is no JSON array of 1..4095 layers");
  ExpectError(Json::object(), invalid, "is no JSON array");
  // Refused before a parser makes gigabytes of them.
  EXPECT_EQ(ParseWaifu2xJson(std::string(1 << 20, '['), false).status().message(),
            "is nested more than 6 levels deep");
  std::string many = "[[]";
  for (int i = 0; i < 2 << 20; ++i) many += ",[]";
  EXPECT_EQ(ParseWaifu2xJson(many + "]", false).status(),
            absl::ResourceExhaustedError("has more than 4194304 values, the limit"));
  EXPECT_EQ(ParseWaifu2xJson(R"([{"class_name": "[[[[[[[\"[[["}])", false).status().message(),
            R"(layer 0: class_name '[[[[[[["[[[' is not supported)");
  ExpectError(Json::array(), invalid, "is no JSON array");
  ExpectError({1, 2}, invalid, "layer 0: is not an object");
  ExpectError(with(0, "class_name", "nn.Sequential"), unimplemented,
              "layer 0: class_name 'nn.Sequential' is not supported");
  ExpectError(with(0, "class_name", 5), unimplemented, "class_name '' is not supported");
  ExpectError(with(0, "nInputPlane", 1), invalid, "layer 0: takes 1 planes, must be 3");
  ExpectError(with(2, "nInputPlane", 9), invalid, "layer 2: takes 9 planes, must be 4");
  ExpectError(with(1, "nOutputPlane", 2000000000), invalid,
              "layer 1: nOutputPlane is 2e+09, must be an integer in 1..8192");
  ExpectError(with(1, "nOutputPlane", 8192), invalid, "weight has 4 values along an axis of 8192");
  ExpectError(with(1, "kW", 5), unimplemented, "kernel 5x3");
  ExpectError(with(1, "kW", 2.5), invalid, "kW is 2.5");
  ExpectError(with(1, "kW", "3"), invalid, "has no number 'kW'");
  ExpectError(with(1, "dilationW", 2), invalid, "dilationW is 2");
  ExpectError(with(1, "weight", 0), invalid, "weight has no values along an axis of 4");
  ExpectError(with(1, "bias", {1, 2, 3, "x"}), invalid, "bias holds something else than numbers");
  ExpectError(with(1, "bias", {1, 2, 3}), invalid, "bias has 3 values along an axis of 4");
  ExpectError(with(1, "bias", {1, 2, 3, 1e200}), invalid, "bias values[3] is inf");
  ExpectError(with(0, "model_config", {{"channels", 1}}), invalid, "channels is 1");
  ExpectError(with(0, "model_config", {{"scale_factor", 2}}), invalid, "scale_factor is 2");
}

}  // namespace
}  // namespace upscaled
