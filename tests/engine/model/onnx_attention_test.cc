// Attention in windows as torch.onnx spells torchvision's, by hand-written nodes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/image/image.h"
#include "engine/model/onnx/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/onnx_files.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::onnx_attention {  // whose names other tests of this program have too
namespace {

using test::OnnxFile;
using test::OnnxNode;

constexpr int kWindow = 2, kChannels = 6, kHeads = 3, kTokens = kWindow * kWindow;

using Names = std::vector<std::string>;

// Changes of the published nodes.
struct Spelling {
  int roll_px = 1;
  int roll_back_px = 1;
  bool masks = true;
  int masked_roll_px = 1;            // whose seam the mask hides
  std::string mask_of = "of_key";    // what is compared with the queries' parts
  std::string mask_shape = "masks";  // of the mask
  bool hides_others = true;
  float hidden = -100;
  std::optional<int> softmax_axis = -1;
  int values = 2;                       // the third of the projection that is mixed
  std::string scores_plus;              // a value that is added to the scores
  std::string roll_end = "end";         // of the slices that roll
  std::string cut;                      // the end of a slice of the planes behind, if any
  std::string pad;                      // numbers that the planes are padded with, if any
  float scale_of = kChannels / kHeads;  // queries are divided by its root
  std::map<std::string, Names> shapes;  // others than published
  std::string read_twice;               // by a node of its own
  bool rolls_twice = false;
  std::vector<int64_t> bias_dims = {1, kHeads, kTokens, kTokens};
  bool of_rows = false;  // as SwinIR's: pixels in a row become planes, and windows squares first
  // As Swin2SR's: scores are cosines, times how sharp a head looks, and the bias is computed.
  bool cosines = false;
  std::string directed = "qk";  // which of them have a length of 1
  int64_t length_axis = -1;
  float least_length = 1e-12f;
  std::string lengths_like = "shape";  // of q or k
  std::vector<int64_t> sharpness_dims = {kHeads, 1, 1};
};

struct Weights {
  std::vector<float> first, qkv, qkv_bias, projection, last, bias, sharpness;
};

Weights RandomWeights(std::mt19937& random) {
  std::normal_distribution<float> normal;
  const auto values = [&](int count) {
    std::vector<float> result(count);
    for (float& value : result) value = normal(random);
    return result;
  };
  return {values(3 * kChannels), values(3 * kChannels * kChannels),
          values(3 * kChannels), values(kChannels * kChannels),
          values(3 * kChannels), values(kHeads * kTokens * kTokens),
          values(kHeads)};
}

// Planes rolled up and left by `px`, or back if it is negative.
void AddRoll(OnnxFile& file, const std::string& from, int px, const std::string& to,
             const std::string& end = "end", int second_axis = 2) {
  file.Ints(to + "_by", {px});
  std::string of = from;
  for (const int i : {1, 2}) {
    const int axis = i == 2 ? second_axis : i;
    const std::string name = to + std::to_string(i), result = i == 2 ? to : name;
    file.Ints(name + "_axis", {axis});
    file.Add({"Slice", {of, to + "_by", end, name + "_axis"}, name + "_behind"});
    file.Add({"Slice", {of, "zero", to + "_by", name + "_axis"}, name + "_before"});
    file.Add(OnnxNode("Concat", {name + "_behind", name + "_before"}, result).Int("axis", axis));
    of = result;
  }
}

// Hides pixels of a window from each other that lie on two sides of the roll's seam.
void AddMask(OnnxFile& file, const Spelling& spelling) {
  std::vector<float> below, right;
  for (int token = 0; token < kTokens; ++token) {
    below.push_back(token / kWindow >= kWindow - spelling.masked_roll_px ? 2 : 0);
    right.push_back(token % kWindow >= kWindow - spelling.masked_roll_px ? 1 : 0);
  }
  file.Floats("is_below", {kTokens}, below).Floats("is_right", {kTokens}, right);
  file.Ints("tall", {-1, 1}).Ints("queries", {-1, kTokens, 1}).Ints("keys", {-1, 1, kTokens});
  file.Ints("masks", {-1, 1, kTokens, kTokens}).Ints("masks_of_heads", {-1, kTokens, kTokens});
  file.Add({"Range", {"zero", "count", "one"}, "numbers"});
  file.Add({"Div", {"numbers", "columns"}, "row"});
  file.Add({"Mod", {"numbers", "columns"}, "column"});
  for (const auto& [place, sides, part] :
       {std::array{"row", "rows", "is_below"}, {"column", "columns", "is_right"}}) {
    const std::string name = place;
    file.Add({"Sub", {sides, "one"}, name + "_last"});
    file.Add({"Equal", {name, name + "_last"}, name + "_is_last"});
    file.Add(OnnxNode("Cast", {name + "_is_last"}, name + "_number").Int("to", 1));
    file.Add({"Reshape", {name + "_number", "tall"}, name + "_tall"});
    file.Add({"Mul", {name + "_tall", part}, name + "_parts"});
  }
  file.Add({"Add", {"row_parts", "column_parts"}, "regions"});
  file.Add({"Reshape", {"regions", "queries"}, "of_query"});
  file.Add({"Reshape", {"regions", "keys"}, "of_key"});
  file.Add({"Equal", {"of_query", spelling.mask_of}, "same"});
  const Names kept = {"same", "nothing", "hidden"}, swapped = {"same", "hidden", "nothing"};
  file.Add({"Where", spelling.hides_others ? kept : swapped, "unshaped"});
  file.Add({"Reshape", {"unshaped", spelling.mask_shape}, "mask"});
}

constexpr float kMaxSharpness = 1.5f;  // a logarithm

// Turns queries and keys into directions, "q_direction" and so on, and gives "sharpness".
void AddCosines(OnnxFile& file, const Weights& weights, const Spelling& spelling) {
  file.Floats("least", {}, {spelling.least_length}).Floats("most", {}, {kMaxSharpness});
  file.Floats("logarithms", {}, weights.sharpness);
  onnx::TensorProto& logarithms = *file.graph().mutable_initializer()->rbegin();
  logarithms.mutable_dims()->Assign(spelling.sharpness_dims.begin(), spelling.sharpness_dims.end());
  file.Add({"Clip", {"logarithms", "", "most"}, "limited"}).Add({"Exp", {"limited"}, "sharpness"});
  for (const std::string of : {"q", "k"}) {
    file.Add(OnnxNode("ReduceL2", {of}, of + "_length").Ints("axes", {spelling.length_axis}));
    file.Add({"Clip", {of + "_length", "least"}, of + "_long"}).Add({"Shape", {of}, of + "_shape"});
    file.Add({"Expand", {of + "_long", of + "_" + spelling.lengths_like}, of + "_lengths"});
    const bool directed = spelling.directed.find(of) != std::string::npos;
    file.Add({directed ? "Div" : "Add", {of, of + "_lengths"}, of + "_direction"});
  }
}

OnnxFile Attention(const Weights& weights, const Spelling& spelling) {
  OnnxFile file;
  file.Ints("zero", {0}).Ints("end", {INT64_MAX}).Ints("one", {1}).Ints("window", {kWindow});
  file.Ints("three", {3}).Ints("heads", {kHeads}).Ints("channels", {kChannels});
  file.Ints("depth", {kChannels / kHeads}).Ints("tokens", {kTokens}).Ints("rest", {-1});
  for (const char* part : {"q", "k", "v"}) {
    const int number = part[0] == 'q' ? 0 : part[0] == 'k' ? 1 : spelling.values;
    file.Ints(std::string(part) + "_number", {number});
  }
  file.Floats("scale_of", {}, {spelling.scale_of}).Floats("root", {}, {-0.5f});
  file.Add({"Pow", {"scale_of", "root"}, "scale"});
  file.Floats("hidden", {}, {spelling.hidden}).Floats("nothing", {}, {0});
  file.Floats("first_weights", {kChannels, 3, 1, 1}, weights.first);
  file.Floats("qkv_weights", {kChannels, 3 * kChannels}, weights.qkv);
  file.Floats("qkv_bias", {3 * kChannels}, weights.qkv_bias);
  file.Floats("projection", {kChannels, kChannels}, weights.projection);
  file.Floats("last_weights", {3, kChannels, 1, 1}, weights.last);
  file.Floats(spelling.cosines ? "logits" : "bias", {}, weights.bias);
  onnx::TensorProto& bias = *file.graph().mutable_initializer()->rbegin();
  bias.mutable_dims()->Assign(spelling.bias_dims.begin(), spelling.bias_dims.end());
  file.Add({"Conv", {"x", "first_weights"}, "features"});
  const auto shape = [&](const std::string& name, const Names& parts) {
    const auto other = spelling.shapes.find(name);
    file.Add(OnnxNode("Concat", other == spelling.shapes.end() ? parts : other->second, name)
                 .Int("axis", 0));
  };
  if (!spelling.of_rows) {
    file.Add(OnnxNode("Transpose", {"features"}, "planes").Ints("perm", {0, 2, 3, 1}));
  }
  file.Add({"Shape", {spelling.of_rows ? "features" : "planes"}, "size"});
  const std::string row_axis = spelling.of_rows ? "window" : "one",
                    column_axis = spelling.of_rows ? "three" : "window";  // 2 and 3, or 1 and 2
  for (const auto& [name, axis] : {std::pair{"rows", row_axis}, {"columns", column_axis}}) {
    const std::string side = name;
    file.Add(OnnxNode("Gather", {"size", axis}, side + "_px").Int("axis", 0));
    file.Add({"Div", {side + "_px", "window"}, side});
  }
  file.Add({"Mul", {"rows", "columns"}, "count"});
  if (spelling.of_rows) {
    shape("in_a_row", {"one", "channels", "rest"});
    shape("laid_out", {"one", "rows_px", "columns_px", "channels"});
    shape("squares", {"rest", "window", "window", "channels"});
    shape("squares_again", {"rest", "window", "window", "channels"});
    file.Add({"Reshape", {"features", "in_a_row"}, "channels_first"});
    file.Add(OnnxNode("Transpose", {"channels_first"}, "row_of_pixels").Ints("perm", {0, 2, 1}));
    file.Add({"Reshape", {"row_of_pixels", "laid_out"}, "planes"});
  }
  shape("split", {"one", "rows", "window", "columns", "window", "channels"});
  shape("pixels", {"rest", "tokens", "channels"});
  shape("by_head", {"rest", "tokens", "three", "heads", "depth"});
  shape("grouped_shape", {"one", "count", "heads", "tokens", "tokens"});
  shape("scores_shape", {"rest", "heads", "tokens", "tokens"});
  shape("attended_shape", {"count", "tokens", "channels"});
  shape("joined", {"one", "rows", "columns", "window", "window", "channels"});
  shape("whole", {"one", "rows_px", "columns_px", "channels"});
  std::string planes = "planes";
  file.Add({"Sub", {"rows_px", "one"}, "all_but_one"});
  for (const auto& [name, axis] : {std::pair{"below", "rows_px"}, {"right", "columns_px"}}) {
    file.Add(OnnxNode("Mod", {axis, "window"}, std::string(name) + "_missing"));
  }
  file.Add(
      OnnxNode("Concat",
               {"zero", "zero", "zero", "zero", "zero", "below_missing", "right_missing", "zero"},
               "missing")
          .Int("axis", 0));
  file.Add(OnnxNode("Concat", {"zero", "zero", "zero", "zero", "zero", "rows", "columns", "zero"},
                    "more")
               .Int("axis", 0));
  if (!spelling.pad.empty()) file.Add({"Pad", {"planes", spelling.pad}, planes = "padded"});
  if (spelling.roll_px != 0) {
    AddRoll(file, planes, spelling.roll_px, "rolled", spelling.roll_end,
            spelling.rolls_twice ? 1 : 2);
    planes = "rolled";
  }
  file.Add({"Reshape", {planes, "split"}, "parts"});
  file.Add(OnnxNode("Transpose", {"parts"}, "windows").Ints("perm", {0, 1, 3, 2, 4, 5}));
  if (spelling.of_rows) file.Add({"Reshape", {"windows", "squares"}, "square_windows"});
  file.Add({"Reshape",
            {spelling.of_rows ? "square_windows" : "windows", "pixels"},
            "tokens_of_windows"});
  file.Add({"MatMul", {"tokens_of_windows", "qkv_weights"}, "qkv_products"});
  file.Add({"Add", {"qkv_bias", "qkv_products"}, "qkv"});
  file.Add({"Reshape", {"qkv", "by_head"}, "thirds"});
  file.Add(OnnxNode("Transpose", {"thirds"}, "heads_first").Ints("perm", {2, 0, 3, 1, 4}));
  for (const std::string part : {"q", "k", "v"}) {
    file.Add(OnnxNode("Gather", {"heads_first", part + "_number"}, part).Int("axis", 0));
  }
  if (spelling.cosines) {
    AddCosines(file, weights, spelling);
    file.Add({"Sigmoid", {"logits"}, "share_of_bias"}).Floats("range", {}, {16});
    file.Add({"Mul", {"share_of_bias", "range"}, "bias"});
    file.Add(OnnxNode("Transpose", {"k_direction"}, "turned").Ints("perm", {0, 1, 3, 2}));
    file.Add({"MatMul", {"q_direction", "turned"}, "plain_products"});
    file.Add({"Mul", {"plain_products", "sharpness"}, "products"});
  } else {
    file.Add({"Mul", {"q", "scale"}, "scaled"});
    file.Add(OnnxNode("Transpose", {"k"}, "turned").Ints("perm", {0, 1, 3, 2}));
    file.Add({"MatMul", {"scaled", "turned"}, "products"});
  }
  file.Add({"Add", {"products", "bias"}, "biased"});
  std::string scores = "biased";
  if (spelling.masks) {
    AddMask(file, spelling);
    file.Add({"Reshape", {"biased", "grouped_shape"}, "grouped"});
    file.Add({"Add", {"grouped", "mask"}, "masked"});
    file.Add({"Reshape", {"masked", "scores_shape"}, scores = "scores"});
  }
  if (!spelling.scores_plus.empty()) {
    file.Add({"Add", {scores, spelling.scores_plus}, "scores_and_more"});
    scores = "scores_and_more";
  }
  OnnxNode softmax("Softmax", {scores}, "shares");
  if (spelling.softmax_axis) softmax.Int("axis", *spelling.softmax_axis);
  file.Add(softmax);
  file.Add({"MatMul", {"shares", "v"}, "mixed"});
  file.Add(OnnxNode("Transpose", {"mixed"}, "heads_last").Ints("perm", {0, 2, 1, 3}));
  file.Add({"Reshape", {"heads_last", "attended_shape"}, "attended"});
  file.Add({"MatMul", {"attended", "projection"}, "projected"});
  if (spelling.of_rows) {
    file.Add({"Reshape", {"projected", "squares_again"}, "projected_squares"});
  }
  file.Add({"Reshape",
            {spelling.of_rows ? "projected_squares" : "projected", "joined"},
            "joined_windows"});
  file.Add(OnnxNode("Transpose", {"joined_windows"}, "put_back").Ints("perm", {0, 1, 3, 2, 4, 5}));
  file.Add({"Reshape", {"put_back", "whole"}, "back"});
  std::string result = "back";
  if (spelling.roll_back_px != 0)
    AddRoll(file, "back", -spelling.roll_back_px, result = "unrolled", spelling.roll_end,
            spelling.rolls_twice ? 1 : 2);
  if (!spelling.cut.empty()) {
    file.Add({"Slice", {result, "zero", spelling.cut, "one"}, "cut"});
    result = "cut";
  }
  if (!spelling.read_twice.empty()) {
    file.Add({"Add", {spelling.read_twice, spelling.read_twice}, "read_again"});
  }
  file.Add(OnnxNode("Transpose", {result}, "result").Ints("perm", {0, 3, 1, 2}));
  file.Add({"Conv", {"result", "last_weights"}, "out"});
  return file;
}

// In double, window by window. The image's edge is repeated up to two windows each way, unless it
// is of rows: then it must have whole windows.
std::vector<double> Expected(const Weights& weights, const Spelling& spelling, const Image& image) {
  const int multiple = spelling.of_rows ? kWindow : 2 * kWindow;
  const auto whole = [&](int side) { return (side + multiple - 1) / multiple * multiple; };
  const int width = image.spec().width_px, height = image.spec().height_px;
  const int columns = whole(width), rows = whole(height);
  const auto qkv_at = [&](int x, int y) {
    const float* pixel =
        &image.view().row_as<float>(std::min(y, height - 1))[3 * std::min(x, width - 1)];
    std::vector<double> features(kChannels), qkv(3 * kChannels);
    for (int c = 0; c < kChannels; ++c) {
      for (int i = 0; i < 3; ++i) features[c] += double{pixel[i]} * weights.first[3 * c + i];
    }
    for (int c = 0; c < 3 * kChannels; ++c) {
      qkv[c] = weights.qkv_bias[c];
      for (int i = 0; i < kChannels; ++i) {
        qkv[c] += features[i] * weights.qkv[i * 3 * kChannels + c];
      }
    }
    return qkv;
  };
  const auto window = [&](int at) { return (at + kWindow - spelling.roll_px) / kWindow; };
  const auto place = [&](int x, int y) {
    const auto in = [&](int at) { return (at + kWindow - spelling.roll_px) % kWindow; };
    return in(y)*kWindow + in(x);
  };
  constexpr int kDepth = kChannels / kHeads;
  std::vector<double> result;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const std::vector<double> own = qkv_at(x, y);
      std::vector<double> attended(kChannels);
      for (int head = 0; head < kHeads; ++head) {
        double sum = 0;
        std::vector<double> mixed(kDepth);
        for (int v = 0; v < rows; ++v) {
          for (int u = 0; u < columns; ++u) {
            if (window(u) != window(x) || window(v) != window(y)) continue;
            const std::vector<double> other = qkv_at(u, v);
            const double bias =
                weights.bias[(head * kTokens + place(x, y)) * kTokens + place(u, v)];
            double product = 0, query = 0, key = 0;  // the latter two squared
            for (int i = 0; i < kDepth; ++i) {
              const double q = own[head * kDepth + i], k = other[kChannels + head * kDepth + i];
              product += q * k;
              query += q * q;
              key += k * k;
            }
            const double score =
                spelling.cosines
                    ? product / std::sqrt(query * key) *
                              std::exp(std::min(weights.sharpness[head], kMaxSharpness)) +
                          16 / (1 + std::exp(-bias))
                    : product / std::sqrt(double{spelling.scale_of}) + bias;
            sum += std::exp(score);
            for (int i = 0; i < kDepth; ++i) {
              mixed[i] += std::exp(score) * other[2 * kChannels + head * kDepth + i];
            }
          }
        }
        for (int i = 0; i < kDepth; ++i) attended[head * kDepth + i] = mixed[i] / sum;
      }
      for (int c = 0; c < 3; ++c) {
        double value = 0;
        for (int i = 0; i < kChannels; ++i) {
          for (int j = 0; j < kChannels; ++j) {
            value += attended[j] * weights.projection[j * kChannels + i] *
                     weights.last[c * kChannels + i];
          }
        }
        result.push_back(value);
      }
    }
  }
  return result;
}

class OnnxAttentionTest : public ::testing::Test {
 protected:
  void ExpectSame(const Spelling& spelling, Size size) {
    const Weights weights = RandomWeights(random_);
    const absl::StatusOr<Network> network = ParseOnnx(Attention(weights, spelling).bytes());
    ASSERT_TRUE(network.ok()) << network.status();
    const Image image = test::RandomImage({size.width, size.height, 3, SampleType::kF32}, random_);
    const auto backend = CreateReferenceBackend({});
    const auto executable = (*backend)->Compile(*network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    Image result(image.spec());
    const absl::Status run =
        test::RunImage(*(*backend)->CreateStream(), **executable,
                       {test::WholeTask(**executable, image.view(), result.mutable_view())});
    ASSERT_TRUE(run.ok()) << run;
    const std::vector<double> expected = Expected(weights, spelling, image);
    size_t i = 0;
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < 3 * size.width; ++x, ++i) {
        ASSERT_NEAR(result.view().row_as<float>(y)[x], expected[i],
                    1e-3 * (1 + std::abs(expected[i])))
            << x / 3 << ", " << y << " of " << size.width << "x" << size.height;
      }
    }
  }

  // As it would be without the pattern.
  void ExpectRefused(const Spelling& spelling) {
    EXPECT_FALSE(ParseOnnx(Attention(RandomWeights(random_), spelling).bytes()).ok());
  }

  std::mt19937 random_ = test::FreshRandom();
};

TEST_F(OnnxAttentionTest, IsOneLayer) {
  for (const Size size : {Size{8, 4}, {7, 5}, {1, 1}}) {
    ExpectSame({.roll_px = 0, .roll_back_px = 0, .masks = false}, size);
    ExpectSame({}, size);
  }
}

TEST_F(OnnxAttentionTest, ImagesArePaddedToTwoWindows) {
  const auto network = ParseOnnx(Attention(RandomWeights(random_), {}).bytes());
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].op, Op::kPad);
  EXPECT_EQ(network->layers[1].factor, 2 * kWindow);
  EXPECT_EQ(network->layers[1].pad_mode, PadMode::kReplicate);
}

TEST_F(OnnxAttentionTest, PixelsInARowAreLaidOutAsPlanes) {
  // An axis of one window is rolled, too.
  for (const Size size : {Size{8, 4}, {2, 6}, {2, 2}}) {
    ExpectSame({.roll_px = 0, .roll_back_px = 0, .masks = false, .of_rows = true}, size);
    ExpectSame({.of_rows = true}, size);
  }
  const auto network = ParseOnnx(Attention(RandomWeights(random_), {.of_rows = true}).bytes());
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->layers[1].op, Op::kPad);
  EXPECT_EQ(network->layers[1].factor, kWindow);
  const std::vector<std::pair<std::string, Names>> kOthers = {
      {"laid_out", {"one", "columns_px", "rows_px", "channels"}},
      {"laid_out", {"one", "rest", "columns_px", "channels"}},
      {"squares", {"rest", "tokens", "one", "channels"}},
      {"squares", {"rest", "channels", "window", "window"}},
      {"squares_again", {"rest", "tokens", "one", "channels"}},
      {"joined", {"one", "columns", "rows", "window", "window", "channels"}}};
  for (const auto& [name, shape] : kOthers) {
    SCOPED_TRACE(name);
    ExpectRefused({.shapes = {{name, shape}}, .of_rows = true});
  }
  for (const char* name : {"square_windows", "projected_squares", "projected"}) {
    SCOPED_TRACE(name);
    ExpectRefused({.read_twice = name, .of_rows = true});
  }
  ExpectRefused({.masks = false, .of_rows = true});
  ExpectRefused({.masked_roll_px = 0, .of_rows = true});
}

TEST_F(OnnxAttentionTest, ScoresMayBeCosines) {
  for (const bool of_rows : {false, true}) {
    ExpectSame(
        {.roll_px = 0, .roll_back_px = 0, .masks = false, .of_rows = of_rows, .cosines = true},
        {8, 4});
    ExpectSame({.of_rows = of_rows, .cosines = true}, {4, 8});
  }
  ExpectSame({.cosines = true, .length_axis = 3}, {8, 4});
  ExpectSame({.cosines = true, .sharpness_dims = {1, kHeads, 1, 1}}, {8, 4});
  for (const char* directed : {"", "q", "k"}) {
    SCOPED_TRACE(directed);
    ExpectRefused({.cosines = true, .directed = directed});
  }
  ExpectRefused({.cosines = true, .length_axis = 2});
  ExpectRefused({.cosines = true, .least_length = 1});
  ExpectRefused({.cosines = true, .lengths_like = "length"});
  ExpectRefused({.cosines = true, .sharpness_dims = {1, 1, kHeads}});
  for (const char* name : {"q", "k", "q_direction", "k_direction", "q_lengths", "k_long",
                           "q_length", "plain_products", "products"}) {
    SCOPED_TRACE(name);
    ExpectRefused({.read_twice = name, .cosines = true});
  }
}

TEST_F(OnnxAttentionTest, SpellingsOfTheSameAreTaken) {
  const Size size{8, 4};
  ExpectSame({.cut = "rows_px"}, size);
  ExpectSame({.pad = "missing"}, size);
  ExpectSame({.scale_of = 7}, size);
  ExpectSame({.bias_dims = {kHeads, kTokens, kTokens}}, size);
  ExpectSame({.shapes = {{"split", {"one", "rows", "window", "rest", "window", "channels"}}}},
             size);
}

TEST_F(OnnxAttentionTest, OtherMasksAndRollsAreRefused) {
  ExpectRefused({.masks = false});
  ExpectRefused({.roll_px = 0, .roll_back_px = 0});
  ExpectRefused({.mask_of = "features"});
  ExpectRefused({.mask_of = "of_query"});  // hides nothing
  ExpectRefused({.masked_roll_px = 0});
  ExpectRefused({.masked_roll_px = 2});
  ExpectRefused({.mask_shape = "masks_of_heads"});
  ExpectRefused({.hides_others = false});
  ExpectRefused({.hidden = -1});
  ExpectRefused({.roll_back_px = 0});
  ExpectRefused({.roll_px = 0, .masks = false});
  ExpectRefused({.rolls_twice = true});
}

// Numbers that follow from the size are looked at.
TEST_F(OnnxAttentionTest, OtherCutsAndPadsAreRefused) {
  ExpectRefused({.cut = "all_but_one"});
  ExpectRefused({.cut = "rows"});
  ExpectRefused({.roll_end = "all_but_one"});
  ExpectRefused({.roll_end = "rows"});
  ExpectRefused({.pad = "more"});
}

TEST_F(OnnxAttentionTest, OtherShapesAreRefused) {
  const std::vector<std::pair<std::string, Names>> kOthers = {
      {"split", {"one", "columns", "window", "rows", "window", "channels"}},
      {"split", {"one", "rest", "window", "rest", "window", "channels"}},
      {"pixels", {"rest", "channels", "tokens"}},
      {"pixels", {"one", "rest", "channels"}},
      {"by_head", {"tokens", "rest", "three", "heads", "depth"}},
      {"by_head", {"rest", "tokens", "three", "heads", "heads"}},
      {"grouped_shape", {"count", "one", "heads", "tokens", "tokens"}},
      {"grouped_shape", {"one", "heads", "count", "tokens", "tokens"}},
      {"scores_shape", {"rest", "tokens", "heads", "tokens"}},
      {"scores_shape", {"heads", "rest", "tokens", "tokens"}},
      {"attended_shape", {"tokens", "count", "channels"}},
      {"joined", {"one", "columns", "rows", "window", "window", "channels"}},
      {"whole", {"one", "columns_px", "rows_px", "channels"}}};
  for (const auto& [name, shape] : kOthers) {
    SCOPED_TRACE(name);
    ExpectRefused({.shapes = {{name, shape}}});
  }
  ExpectRefused({.bias_dims = {1, kTokens, kHeads, kTokens}});
}

// The nodes would compute it of other values than before.
TEST_F(OnnxAttentionTest, ValuesThatOthersReadAreRefused) {
  for (const char* name : {"qkv_products", "qkv", "thirds", "heads_first", "q", "v", "scaled",
                           "turned", "products", "biased", "scores", "shares", "attended"}) {
    SCOPED_TRACE(name);
    ExpectRefused({.read_twice = name});
  }
}

TEST_F(OnnxAttentionTest, OtherProductsAreRefused) {
  ExpectRefused({.softmax_axis = 1});
  ExpectRefused({.softmax_axis = std::nullopt});
  ExpectRefused({.values = 1});
  ExpectRefused({.scores_plus = "bias"});
  ExpectRefused({.scores_plus = "mask"});
}

// An operator of our own in a file has no other meaning than the one that we would give it.
TEST_F(OnnxAttentionTest, ItsOwnOperatorIsChecked) {
  const auto file = [&](auto change, const char* behind = "Identity") {
    OnnxFile written;
    written.Floats("factors", {2}, {2, 3});
    written.Floats("weights", {6, 3, 1, 1}, std::vector<float>(18, 0.5f));
    written.Floats("last", {3, 2, 1, 1}, std::vector<float>(6, 0.5f));
    written.Floats("bias", {1, 4, 4}, std::vector<float>(16, 0.5f));
    written.Add({"Conv", {"x", "weights"}, "qkv"});
    written.Add(OnnxNode("Transpose", {"qkv"}, "planes").Ints("perm", {0, 2, 3, 1}));
    OnnxNode attention("upscaled.WindowAttention", {"planes", "bias"}, "attended");
    change(attention);
    written.Add(attention);
    const bool is_plain = std::string_view(behind) == "Identity";
    written.Add(OnnxNode(behind,
                         is_plain ? std::vector<std::string>{"attended"}
                                  : std::vector<std::string>{"attended", "factors"},
                         "scaled"));
    written.Add(OnnxNode("Transpose", {"scaled"}, "back").Ints("perm", {0, 3, 1, 2}));
    written.Add({"Conv", {"back", "last"}, "out"});
    return ParseOnnx(written.bytes());
  };
  const auto attention = [&](int64_t heads, int64_t rows, int64_t columns, int64_t roll) {
    return file([=](OnnxNode& node) {
      node.Int("heads", heads).Ints("window", {rows, columns}).Ints("roll", {roll, 0});
    });
  };
  EXPECT_TRUE(attention(1, 2, 2, 1).ok()) << attention(1, 2, 2, 1).status();
  for (const char* behind : {"Mul", "Add", "Sub"}) {  // which no bias of it takes over
    const auto sound = [](OnnxNode& node) {
      node.Int("heads", 1).Ints("window", {2, 2}).Ints("roll", {0, 0});
    };
    EXPECT_TRUE(file(sound, behind).ok()) << behind << ": " << file(sound, behind).status();
  }
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError(attention(0, 2, 2, 0), kInvalid, "of 0 heads");
  ExpectError(attention(4, 2, 2, 0), kInvalid, "of 4 heads");
  ExpectError(attention(int64_t{1} << 62, 2, 2, 0), kInvalid, "heads");
  ExpectError(attention(1, 0, 2, 0), kInvalid, "window must be two numbers");
  ExpectError(attention(1, 2, 1 << 20, 0), kInvalid, "window must be two numbers");
  ExpectError(attention(1, 2, 2, 2), kInvalid, "roll must be two numbers");
  ExpectError(attention(1, 2, 2, -1), kInvalid, "roll must be two numbers");
  ExpectError(attention(1, 2, 3, 0), kInvalid, "has a bias of 1x4x4");
  ExpectError(file([](OnnxNode& node) { node.Int("heads", 1); }), kInvalid, "window");
}

}  // namespace
}  // namespace upscaled::onnx_attention
