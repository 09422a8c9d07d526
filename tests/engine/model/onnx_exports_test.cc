// Spellings of exporters: computed sizes, curves, normalisations, rearrangements.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/image/image.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/model/loader_checks.h"
#include "tests/engine/model/onnx_files.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled::onnx_exports {  // whose names other tests of this program have too
namespace {

using test::OnnxFile;
using test::OnnxNode;
using ::testing::ElementsAre;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

absl::StatusOr<Network> Load(const OnnxFile& file) { return ParseOnnx(file.bytes()); }

std::vector<Op> Ops(const absl::StatusOr<Network>& network) {
  EXPECT_TRUE(network.ok()) << network.status();
  std::vector<Op> ops;
  for (size_t i = 1; network.ok() && i < network->layers.size(); ++i) {
    ops.push_back(network->layers[i].op);
  }
  return ops;
}

// Planes of doubles: [channel][row][column].
struct Pixels {
  int channels = 3, height = 0, width = 0;
  std::vector<double> values;

  Pixels(int channels, int height, int width)
      : channels(channels),
        height(height),
        width(width),
        values(static_cast<size_t>(channels) * height * width) {}
  double& at(int c, int y, int x) { return values[(c * height + y) * width + x]; }
  double at(int c, int y, int x) const { return values[(c * height + y) * width + x]; }
};

// Calls set(c, y, x) for each value.
Pixels Fill(int channels, int height, int width, const std::function<double(int, int, int)>& set) {
  Pixels pixels(channels, height, width);
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) pixels.at(c, y, x) = set(c, y, x);
    }
  }
  return pixels;
}

using Expected = std::function<Pixels(const Pixels&)>;

// Runs the file's network on an image of this size and compares all values with those expected.
void ExpectResult(const OnnxFile& file, Size size, const Expected& expected) {
  const absl::StatusOr<Network> network = Load(file);
  ASSERT_TRUE(network.ok()) << network.status();
  std::mt19937 random = test::FreshRandom();
  const Image source = test::RandomImage({size.width, size.height, 3, SampleType::kF32}, random);
  const auto backend = CreateReferenceBackend({});
  const auto executable = (*backend)->Compile(*network, Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  Image result({size.width * network->scale, size.height * network->scale, 3, SampleType::kF32});
  const absl::Status run =
      test::RunImage(*(*backend)->CreateStream(), **executable,
                     {test::WholeTask(**executable, source.view(), result.mutable_view())});
  ASSERT_TRUE(run.ok()) << run;
  const Pixels image = Fill(3, size.height, size.width, [&](int c, int y, int x) {
    return source.view().row_as<float>(y)[3 * x + c];
  });
  const Pixels wanted = expected(image);
  ASSERT_EQ(wanted.height, result.spec().height_px);
  ASSERT_EQ(wanted.width, result.spec().width_px);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < wanted.height; ++y) {
      for (int x = 0; x < wanted.width; ++x) {
        ASSERT_NEAR(result.view().row_as<float>(y)[3 * x + c], wanted.at(c, y, x), 1e-5)
            << c << " " << y << " " << x;
      }
    }
  }
}

// A function of each value by itself.
Expected Each(double (*function)(double)) {
  return [function](const Pixels& image) {
    Pixels result = image;
    for (double& value : result.values) value = function(value);
    return result;
  };
}

// shape: of x. height and width, numbers; and constants of many uses.
OnnxFile WithSides() {
  OnnxFile file;
  file.Ints("i1", {1}).Ints("i2", {2}).Ints("i3", {3}).Ints("i4", {4}).Ints("i0", {0});
  file.Ints("i12", {12}).Ints("minus", {-1}).Ints("axes", {2, 3}).Ints("zeros", {0, 0});
  file.Floats("half", {}, {0.5f}).Floats("one", {}, {1}).Floats("two", {}, {2});
  file.Add({"Shape", {"x"}, "shape"});
  file.Add({"Gather", {"shape", "i2"}, "height"}).Add({"Gather", {"shape", "i3"}, "width"});
  return file;
}

OnnxNode Join(const std::vector<std::string>& parts, const std::string& output) {
  return OnnxNode("Concat", parts, output).Int("axis", 0);
}

TEST(OnnxExportsTest, BlocksOfPixelsByComputedSizes) {
  OnnxFile file = WithSides();
  file.Add({"Div", {"height", "i2"}, "h2"}).Add({"Div", {"width", "i2"}, "w2"});
  file.Add(Join({"i1", "i3", "h2", "i2", "w2", "i2"}, "six")).Add({"Reshape", {"x", "six"}, "a"});
  file.Add(OnnxNode("Transpose", {"a"}, "b").Ints("perm", {0, 1, 3, 5, 2, 4}));
  file.Add(Join({"i1", "i12", "h2", "w2"}, "four")).Add({"Reshape", {"b", "four"}, "c"});
  // And back, in another way.
  file.Add(Join({"i1", "i3", "i2", "i2", "h2", "w2"}, "back")).Add({"Reshape", {"c", "back"}, "d"});
  file.Add(OnnxNode("Transpose", {"d"}, "e").Ints("perm", {0, 1, 4, 2, 5, 3}));
  OnnxFile same = file;
  same.Ints("rest", {1, 3, -1}).Add({"Reshape", {"e", "rest"}, "f"});
  same.Add({"Reshape", {"f", "shape"}, "out"});
  // As one look at the same pixels.
  EXPECT_THAT(Ops(Load(same)), ElementsAre());
  OnnxFile seen = WithSides();
  seen.Add(OnnxNode("SpaceToDepth", {"x"}, "a").Int("blocksize", 2)).Add({"Relu", {"a"}, "b"});
  seen.Ints("order", {9, 0, 5}).Add(OnnxNode("Gather", {"b", "order"}, "c").Int("axis", 1));
  seen.Floats("scales", {4}, {1, 1, 2, 2}).Add({"Resize", {"c", "", "scales"}, "out"});
  // Channels of [row][column][colour].
  constexpr std::array<int, 3> kRow = {1, 0, 0}, kColumn = {1, 0, 1}, kColour = {0, 0, 2};
  ExpectResult(seen, {6, 8}, [&](const Pixels& image) {
    return Fill(3, 8, 6, [&](int c, int y, int x) {
      return image.at(kColour[c], y / 2 * 2 + kRow[c], x / 2 * 2 + kColumn[c]);
    });
  });
}

TEST(OnnxExportsTest, ResizesAndCropsByComputedSizes) {
  OnnxFile file = WithSides();
  // Twice the size, by way of floats.
  file.Add(OnnxNode("Cast", {"height"}, "hf").Int("to", 1)).Add({"Mul", {"hf", "two"}, "h2f"});
  file.Add({"Floor", {"h2f"}, "h2g"}).Add(OnnxNode("Cast", {"h2g"}, "h2").Int("to", 7));
  file.Add({"Mul", {"width", "i2"}, "w2"}).Add(Join({"i1", "i3", "h2", "w2"}, "sizes"));
  file.Add(OnnxNode("Resize", {"x", "", "", "sizes"}, "big")
               .String("mode", "nearest")
               .String("coordinate_transformation_mode", "asymmetric")
               .String("nearest_mode", "floor"));
  // All but four pixels on every side.
  file.Add({"Shape", {"big"}, "bs"}).Add({"Slice", {"bs", "i2", "i4"}, "sides"});
  file.Ints("fours", {4, 4}).Add({"Sub", {"sides", "fours"}, "ends"});
  file.Add({"Slice", {"big", "fours", "ends", "axes"}, "out"});
  const absl::StatusOr<Network> network = Load(file);
  EXPECT_THAT(Ops(network), ElementsAre(Op::kResizeNearest, Op::kCrop));
  EXPECT_EQ(network->layers[1].factor, 2);
  EXPECT_EQ(network->layers[2].crop_px, 4);
  EXPECT_EQ(network->pad_px, 2);
}

// The pixels that are missing to a multiple of 4, for `side`.
using Spelling =
    std::function<void(OnnxFile&, const std::string& side, const std::string& missing)>;

TEST(OnnxExportsTest, PaddingToMultiplesInEverySpelling) {
  const Spelling kSpellings[] = {
      [](OnnxFile& f, const std::string& side, const std::string& missing) {  // (4 - s % 4) % 4
        f.Add({"Mod", {side, "i4"}, side + "m"}).Add({"Sub", {"i4", side + "m"}, side + "n"});
        f.Add({"Mod", {side + "n", "i4"}, missing});
      },
      [](OnnxFile& f, const std::string& side, const std::string& missing) {  // -s % 4
        f.Add({"Neg", {side}, side + "m"}).Add({"Mod", {side + "m", "i4"}, missing});
      },
      [](OnnxFile& f, const std::string& side, const std::string& missing) {  // ceil(s / 4) * 4 - s
        f.Floats("four", {}, {4}).Add(OnnxNode("Cast", {side}, side + "m").Int("to", 1));
        f.Add({"Div", {side + "m", "four"}, side + "n"}).Add({"Ceil", {side + "n"}, side + "o"});
        f.Add({"Mul", {side + "o", "four"}, side + "p"});
        f.Add(OnnxNode("Cast", {side + "p"}, side + "q").Int("to", 7));
        f.Add({"Sub", {side + "q", side}, missing});
      },
      [](OnnxFile& f, const std::string& side,
         const std::string& missing) {  // ((s - 1) / 4 + 1) * 4 - s
        f.Add({"Sub", {side, "i1"}, side + "m"}).Add({"Div", {side + "m", "i4"}, side + "n"});
        f.Add({"Add", {side + "n", "i1"}, side + "o"}).Add({"Mul", {side + "o", "i4"}, side + "p"});
        f.Add({"Sub", {side + "p", side}, missing});
      },
  };
  for (const Spelling& spell : kSpellings) {
    OnnxFile file = WithSides();
    spell(file, "height", "mh");
    spell(file, "width", "mw");
    file.Add(Join({"i0", "i0", "i0", "i0", "i0", "i0", "mh", "mw"}, "pads"));
    file.Add(OnnxNode("Pad", {"x", "pads"}, "padded").String("mode", "edge"));
    file.Add(OnnxNode("SpaceToDepth", {"padded"}, "a").Int("blocksize", 4));
    file.Add(OnnxNode("DepthToSpace", {"a"}, "b").Int("blocksize", 4));
    file.Add({"Add", {"b", "one"}, "c"}).Add(Join({"height", "width"}, "sides"));
    OnnxFile whole = file;
    file.Add({"Slice", {"c", "zeros", "sides", "axes"}, "out"});
    const absl::StatusOr<Network> network = Load(file);
    ASSERT_TRUE(network.ok()) << network.status();
    ExpectResult(file, {5, 7}, Each([](double v) { return v + 1; }));
    whole.Add({"Identity", {"c"}, "out"});
    ExpectError(Load(whole), kInvalid, "and does not cut that off again");
  }
}

// Blocks of 2x2 pixels of the image with such a border, their corner's value; cut to the size.
OnnxFile BlocksBehindPad(const char* mode, const char* right, const std::string& added) {
  OnnxFile file = WithSides();
  file.Add({"Mod", {"height", "i2"}, "mh"}).Add({"Mod", {"width", "i2"}, "mw"});
  file.Add({"Add", {"i4", "mh"}, "ph"}).Add({"Add", {"i4", right}, "pw"});
  file.Add(Join({"i0", "i0", "i4", "i4", "i0", "i0", "ph", "pw"}, "pads"));
  file.Add(OnnxNode("Pad", {"x", "pads"}, "p").String("mode", mode));
  file.Add(OnnxNode("SpaceToDepth", {"p"}, "s").Int("blocksize", 2)).Ints("last", {9, 10, 11});
  file.Add(OnnxNode("Gather", {"s", "last"}, "g").Int("axis", 1));
  file.Floats("scales", {4}, {1, 1, 2, 2}).Add({"Resize", {"g", "", "scales"}, "r"});
  file.Ints("four", {4, 4})
      .Ints("ends", {-4, -4})
      .Add({"Slice", {"r", "four", "ends", "axes"}, "t"});
  file.Add(Join({"height", "width"}, "sides")).Add({"Slice", {"t", "zeros", "sides", "axes"}, "c"});
  return file.Add({"Add", {"c", added}, "out"});
}

TEST(OnnxExportsTest, PaddingToMultiplesInEveryMode) {
  const auto expect = [](const char* mode, const std::string& added) {
    ExpectResult(BlocksBehindPad(mode, "mw", added), {5, 7}, [&](const Pixels& image) {
      return Fill(3, 7, 5, [&](int c, int y, int x) {
        const int from_y = y / 2 * 2 + 1, from_x = x / 2 * 2 + 1;
        const bool reflects = std::string(mode) == "reflect", outside = from_y > 6 || from_x > 4;
        const auto inside = [&](int at, int last) {
          return at <= last ? at : reflects ? 2 * last - at : last;
        };
        const bool is_constant = std::string(mode) == "constant";
        const double seen =
            outside && is_constant ? 0 : image.at(c, inside(from_y, 6), inside(from_x, 4));
        return seen + (added == "x" ? image.at(c, y, x) : 1);
      });
    });
  };
  for (const char* mode : {"edge", "reflect", "constant"}) {
    SCOPED_TRACE(mode);
    expect(mode, "one");
    // The plain image joins what was cut to its size.
    expect(mode, "x");
  }
  ExpectError(Load(BlocksBehindPad("edge", "i3", "one")), kUnimplemented,
              "pads are not supported, must be the same");
}

double Mish(double v) { return v * std::tanh(std::log1p(std::exp(v))); }
double Silu(double v) { return v / (1 + std::exp(-v)); }
double Gelu(double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; }
double GeluTanh(double v) {
  return v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))) / 2;
}

struct Curve {
  const char* name;
  std::vector<OnnxNode> nodes;  // from x to out
  Activation activation;
  double (*function)(double);
};

class OnnxCurveTest : public ::testing::TestWithParam<Curve> {};

TEST_P(OnnxCurveTest, IsOneActivation) {
  OnnxFile file =
      WithSides().Floats("root2", {}, {1.41421356f}).Floats("inverse", {}, {0.70703125f});
  file.Floats("three", {}, {3}).Floats("cubic", {}, {0.044715f}).Floats("beta", {}, {0.79788456f});
  for (const OnnxNode& node : GetParam().nodes) file.Add(node);
  const absl::StatusOr<Network> network = Load(file);
  EXPECT_THAT(Ops(network), ElementsAre(Op::kActivation));
  EXPECT_EQ(network->layers[1].activation, GetParam().activation);
  ExpectResult(file, {3, 2}, Each(GetParam().function));
}

const Curve kCurves[] = {
    {"Mish",
     {{"Softplus", {"x"}, "a"}, {"Tanh", {"a"}, "b"}, {"Mul", {"x", "b"}, "out"}},
     Activation::kMish,
     Mish},
    {"MishBySteps",
     {{"Exp", {"x"}, "a"},
      {"Add", {"one", "a"}, "b"},
      {"Log", {"b"}, "c"},
      {"Tanh", {"c"}, "d"},
      {"Mul", {"d", "x"}, "out"}},
     Activation::kMish,
     Mish},
    {"Silu", {{"Sigmoid", {"x"}, "a"}, {"Mul", {"a", "x"}, "out"}}, Activation::kSilu, Silu},
    {"SiluBehindCasts",
     {OnnxNode("Cast", {"x"}, "a").Int("to", 10),
      {"Sigmoid", {"a"}, "b"},
      {"Identity", {"x"}, "c"},
      {"Mul", {"b", "c"}, "out"}},
     Activation::kSilu,
     Silu},
    {"Gelu",
     {{"Div", {"x", "root2"}, "a"},
      {"Erf", {"a"}, "b"},
      {"Add", {"b", "one"}, "c"},
      {"Mul", {"x", "c"}, "d"},
      {"Mul", {"d", "half"}, "out"}},
     Activation::kGelu,
     Gelu},
    {"GeluOfHalves",
     {{"Mul", {"x", "half"}, "a"},
      {"Mul", {"x", "inverse"}, "b"},
      {"Erf", {"b"}, "c"},
      {"Add", {"one", "c"}, "d"},
      {"Mul", {"d", "a"}, "out"}},
     Activation::kGelu,
     Gelu},
    {"GeluByDivision",
     {{"Mul", {"x", "inverse"}, "b"},
      {"Erf", {"b"}, "c"},
      {"Add", {"one", "c"}, "d"},
      {"Mul", {"d", "x"}, "e"},
      {"Div", {"e", "two"}, "out"}},
     Activation::kGelu,
     Gelu},
    {"GeluTanh",
     {{"Mul", {"x", "x"}, "a"},
      {"Mul", {"a", "x"}, "b"},
      {"Mul", {"b", "cubic"}, "c"},
      {"Add", {"x", "c"}, "d"},
      {"Mul", {"d", "beta"}, "e"},
      {"Tanh", {"e"}, "f"},
      {"Add", {"f", "one"}, "g"},
      {"Mul", {"x", "g"}, "h"},
      {"Mul", {"half", "h"}, "out"}},
     Activation::kGeluTanh,
     GeluTanh},
    {"GeluTanhByPower",
     {{"Pow", {"x", "three"}, "b"},
      {"Mul", {"b", "cubic"}, "c"},
      {"Add", {"c", "x"}, "d"},
      {"Mul", {"d", "beta"}, "e"},
      {"Tanh", {"e"}, "f"},
      {"Add", {"f", "one"}, "g"},
      {"Mul", {"x", "half"}, "h"},
      {"Mul", {"g", "h"}, "out"}},
     Activation::kGeluTanh,
     GeluTanh},
    {"GeluTanhFactored",
     {{"Pow", {"x", "two"}, "a"},
      {"Mul", {"a", "cubic"}, "b"},
      {"Add", {"b", "one"}, "c"},
      {"Mul", {"x", "c"}, "d"},
      {"Mul", {"d", "beta"}, "e"},
      {"Tanh", {"e"}, "f"},
      {"Add", {"f", "one"}, "g"},
      {"Mul", {"x", "g"}, "h"},
      {"Mul", {"h", "half"}, "out"}},
     Activation::kGeluTanh,
     GeluTanh},
};

INSTANTIATE_TEST_SUITE_P(Curves, OnnxCurveTest, ::testing::ValuesIn(kCurves),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(OnnxExportsTest, NearlyACurveIsNone) {
  // The constants of other functions.
  OnnxFile file = WithSides();
  file.Add({"Erf", {"x"}, "a"}).Add({"Add", {"a", "one"}, "b"}).Add({"Mul", {"x", "b"}, "c"});
  file.Add({"Mul", {"c", "half"}, "out"});
  ExpectError(Load(file), kUnimplemented, "(Erf): is an error function outside of GELU");
  OnnxFile other = WithSides();
  other.Add({"Relu", {"x"}, "y"}).Add({"Sigmoid", {"y"}, "a"}).Add({"Mul", {"a", "x"}, "out"});
  ExpectResult(other, {3, 2}, Each([](double v) { return v / (1 + std::exp(-std::max(v, 0.0))); }));
}

TEST(OnnxExportsTest, TanhAndArithmetic) {
  ExpectResult(WithSides().Add({"Tanh", {"x"}, "out"}), {3, 2},
               Each([](double v) { return std::tanh(v); }));
  OnnxFile file = WithSides().Floats("d", {3, 1, 1}, {2, 4, -1});
  file.Add({"Div", {"x", "d"}, "a"}).Add({"Neg", {"a"}, "b"}).Add({"Pow", {"b", "two"}, "c"});
  file.Add({"Tanh", {"c"}, "e"}).Add({"Relu", {"e"}, "out"});
  ExpectResult(file, {3, 2}, [](const Pixels& image) {
    constexpr std::array<double, 3> kBy = {2, 4, -1};
    return Fill(3, 2, 3, [&](int c, int y, int x) {
      const double v = image.at(c, y, x) / kBy[c];
      return std::tanh(v * v);
    });
  });
  ExpectError(Load(WithSides().Add({"Pow", {"x", "half"}, "out"})), kUnimplemented, "the powers 1");
  ExpectError(Load(WithSides().Add({"Div", {"one", "x"}, "out"})), kUnimplemented,
              "input 0 is a constant");
}

// (v - mean) / sqrt(variance + epsilon) over the values that `in_group` has with (c, y, x).
Expected Normalised(double epsilon, bool centred, const std::function<int(int, int, int)>& group,
                    const std::array<double, 3>& factor, const std::array<double, 3>& offset) {
  return [=](const Pixels& image) {
    const auto mean = [&](int of, const std::function<double(double)>& f) {
      double sum = 0;
      int count = 0;
      for (int c = 0; c < 3; ++c) {
        for (int y = 0; y < image.height; ++y) {
          for (int x = 0; x < image.width; ++x) {
            if (group(c, y, x) != of) continue;
            sum += f(image.at(c, y, x));
            ++count;
          }
        }
      }
      return sum / count;
    };
    return Fill(3, image.height, image.width, [&](int c, int y, int x) {
      const int of = group(c, y, x);
      const double middle = centred ? mean(of, [](double v) { return v; }) : 0;
      const double square = mean(of, [&](double v) { return (v - middle) * (v - middle); });
      return (image.at(c, y, x) - middle) / std::sqrt(square + epsilon) * factor[c] + offset[c];
    });
  };
}

constexpr Size kSmall = {3, 2};
int PixelOf(int, int y, int x) { return y * kSmall.width + x; }
int ChannelOf(int c, int, int) { return c; }
int TheImage(int, int, int) { return 0; }

TEST(OnnxExportsTest, NormalisationOfPixelsBySteps) {
  // Along the second axis, and along the last of transposed planes; by Div, and by a reciprocal.
  for (const int axis : {1, 3}) {
    for (const bool by_reciprocal : {false, true}) {
      for (const bool centred : {true, false}) {
        OnnxFile file = WithSides().Floats("e", {}, {0.25f});
        file.Floats("w", {3}, {1, 2, 3}).Floats("w1", {3, 1, 1}, {1, 2, 3});
        file.Add(OnnxNode("Transpose", {"x"}, "last").Ints("perm", {0, 2, 3, 1}));
        const std::string x = axis == 1 ? "x" : "last";
        file.Add(OnnxNode("ReduceMean", {x}, "mean").Ints("axes", {axis}));
        file.Add({"Sub", {x, centred ? "mean" : "nothing"}, "d"}).Floats("nothing", {}, {0});
        // Another node of the same, as exporters leave it.
        file.Add({"Sub", {x, centred ? "mean" : "nothing"}, "d2"});
        file.Add({"Pow", {"d2", "two"}, "s"});
        file.Add(OnnxNode("ReduceMean", {"s"}, "v").Ints("axes", {axis}).Int("keepdims", 1));
        file.Add({"Add", {"v", "e"}, "ve"}).Add({"Sqrt", {"ve"}, "r"});
        if (by_reciprocal) file.Add({"Reciprocal", {"r"}, "i"}).Add({"Mul", {"i", "d"}, "n"});
        if (!by_reciprocal) file.Add({"Div", {"d", "r"}, "n"});
        file.Add({"Mul", {axis == 1 ? "w1" : "w", "n"}, "f"}).Add({"Add", {"f", "one"}, "g"});
        if (axis == 1) file.Add({"Identity", {"g"}, "out"});
        if (axis == 3) file.Add(OnnxNode("Transpose", {"g"}, "out").Ints("perm", {0, 3, 1, 2}));
        if (centred) {
          EXPECT_THAT(Ops(Load(file)), ElementsAre(Op::kPixelNorm));
        }
        ExpectResult(file, kSmall, Normalised(0.25, centred, PixelOf, {1, 2, 3}, {1, 1, 1}));
      }
    }
  }
}

TEST(OnnxExportsTest, GroupNorms) {
  // By a reshape to groups, as instance norm, and as GroupNormalization of both kinds.
  OnnxFile by_reshape = WithSides().Floats("s", {1}, {1}).Floats("b", {1}, {0});
  by_reshape.Ints("groups", {0, 1, -1}).Floats("w", {3, 1, 1}, {1, 2, 3});
  by_reshape.Add({"Reshape", {"x", "groups"}, "a"});
  by_reshape.Add(OnnxNode("InstanceNormalization", {"a", "s", "b"}, "c").Float("epsilon", 0.25f));
  by_reshape.Add({"Reshape", {"c", "shape"}, "d"}).Add({"Mul", {"d", "w"}, "out"});
  ExpectResult(by_reshape, kSmall, Normalised(0.25, true, TheImage, {1, 2, 3}, {0, 0, 0}));

  OnnxFile of_channels = WithSides().Floats("s", {3}, {1, 2, 3}).Floats("b", {3}, {4, 5, 6});
  of_channels.Add(OnnxNode("InstanceNormalization", {"x", "s", "b"}, "out").Float("epsilon", 0.5f));
  ExpectResult(of_channels, kSmall, Normalised(0.5, true, ChannelOf, {1, 2, 3}, {4, 5, 6}));

  OnnxFile plain = WithSides().Floats("s", {3}, {1, 2, 3}).Floats("b", {3}, {4, 5, 6});
  plain.Add(OnnxNode("GroupNormalization", {"x", "s", "b"}, "out")
                .Int("num_groups", 1)
                .Float("epsilon", 0.5f));
  ExpectResult(plain, kSmall, Normalised(0.5, true, TheImage, {1, 2, 3}, {4, 5, 6}));

  OnnxFile by_steps = WithSides().Floats("e", {}, {0.5f}).Ints("groups", {1, 3, -1});
  by_steps.Add({"Reshape", {"x", "groups"}, "y"});
  by_steps.Add(OnnxNode("ReduceMean", {"y"}, "m").Ints("axes", {-1})).Add({"Sub", {"y", "m"}, "d"});
  by_steps.Add({"Mul", {"d", "d"}, "s"}).Add(OnnxNode("ReduceMean", {"s"}, "v").Ints("axes", {-1}));
  by_steps.Add({"Add", {"v", "e"}, "ve"}).Add({"Sqrt", {"ve"}, "r"}).Add({"Div", {"d", "r"}, "n"});
  by_steps.Add({"Reshape", {"n", "shape"}, "out"});
  ExpectResult(by_steps, kSmall, Normalised(0.5, true, ChannelOf, {1, 1, 1}, {0, 0, 0}));
}

TEST(OnnxExportsTest, BatchNormGoesIntoTheConvolution) {
  OnnxFile file = OnnxFile().Kernel("w", 3, 3, 1).Add({"Conv", {"x", "w"}, "y"});
  file.Floats("s", {3}, {2, 2, 2}).Floats("b", {3}, {1, 2, 3}).Floats("m", {3}, {1, 1, 1});
  file.Floats("v", {3}, {3, 3, 3});
  file.Add(OnnxNode("BatchNormalization", {"y", "s", "b", "m", "v"}, "out").Float("epsilon", 1));
  const absl::StatusOr<Network> network = Load(file);
  EXPECT_THAT(Ops(network), ElementsAre(Op::kConv));
  EXPECT_THAT(network->layers[1].weights, ::testing::Each(1.0f));
  EXPECT_THAT(network->layers[1].bias, ElementsAre(0, 1, 2));
}

TEST(OnnxExportsTest, SplitAndScatter) {
  OnnxFile file = WithSides().Ints("parts", {2, 1});
  OnnxNode split("Split", {"x", "parts"}, "a");
  split.Int("axis", 1).proto().add_output("b");
  file.Add(split).Add(OnnxNode("Concat", {"b", "a"}, "c").Int("axis", 1));
  // c[:, 1:3] = a + 1
  file.Add({"Add", {"a", "one"}, "u"});
  file.Add({"Shape", {"c"}, "cs"}).Add({"Gather", {"cs", "i1"}, "n"});
  file.Ints("n0", {0}).Ints("last", {-1});
  for (const char* scalar : {"n", "i0", "i1"}) {
    file.Add(OnnxNode("Squeeze", {scalar, "i0"}, std::string(scalar) + "s"));
  }
  file.Add({"Range", {"i0s", "ns", "i1s"}, "all"}).Ints("three", {3});
  file.Add({"Slice", {"all", "i1", "three", "i0"}, "some"});
  file.Ints("column", {1, 2, 1}).Add({"Reshape", {"some", "column"}, "channels"});
  file.Add({"Mul", {"channels", "i0"}, "batches"});
  file.Add(OnnxNode("Concat", {"batches", "channels"}, "places").Int("axis", -1));
  file.Add({"ScatterND", {"c", "places", "u"}, "out"});
  ExpectResult(file, kSmall, [](const Pixels& image) {
    return Fill(3, 2, 3, [&](int c, int y, int x) {
      return c == 0 ? image.at(2, y, x) : image.at(c - 1, y, x) + 1;
    });
  });
}

TEST(OnnxExportsTest, RepeatedAndRearrangedChannels) {
  // [c0 c0 c1 c1 c2 c2] by Expand, [c0 c1 c2 c0 c1 c2] by Tile; the means of pairs of each.
  for (const bool tile : {false, true}) {
    OnnxFile file = WithSides().Ints("five", {1, 1, 2, 1, 1}).Ints("six", {6});
    file.Add(Join({"i1", "six", "height", "width"}, "sides"));
    file.Add(Join({"i1", "i3", "i2", "height", "width"}, "pairs"));
    file.Ints("times", {1, 2, 1, 1}).Add({"Tile", {"x", "times"}, "tiled"});
    file.Add({"Unsqueeze", {"x", "i2"}, "a"}).Add({"Expand", {"a", "five"}, "b"});
    file.Add({"Reshape", {"b", "sides"}, "c"});
    file.Add({"Reshape", {tile ? "tiled" : "c", "pairs"}, "d"});
    file.Add(OnnxNode("ReduceMean", {"d"}, "out").Ints("axes", {2}).Int("keepdims", 0));
    ExpectResult(file, kSmall, [tile](const Pixels& image) {
      return Fill(3, 2, 3, [&](int c, int y, int x) {
        const int first = tile ? 2 * c % 3 : c, second = tile ? (2 * c + 1) % 3 : c;
        return (image.at(first, y, x) + image.at(second, y, x)) / 2;
      });
    });
  }
}

TEST(OnnxExportsTest, ProductsAlongTheLastAxis) {
  OnnxFile file = WithSides().Floats("m", {3, 3}, {1, 0, 2, 0, 3, 0, 0, 1, 0});
  file.Floats("b", {3}, {1, 2, 3})
      .Add(OnnxNode("Transpose", {"x"}, "a").Ints("perm", {0, 2, 3, 1}));
  file.Add({"MatMul", {"a", "m"}, "c"}).Add({"Add", {"b", "c"}, "d"});
  file.Add(OnnxNode("Transpose", {"d"}, "out").Ints("perm", {0, 3, 1, 2}));
  ExpectResult(file, kSmall, [](const Pixels& image) {
    return Fill(3, 2, 3, [&](int c, int y, int x) {
      if (c == 0) return image.at(0, y, x) + 1;
      return c == 1 ? 3 * image.at(1, y, x) + image.at(2, y, x) + 2 : 2 * image.at(0, y, x) + 3;
    });
  });
  ExpectError(Load(WithSides().Add({"MatMul", {"x", "x"}, "out"})), kUnimplemented, "is attention");
}

TEST(OnnxExportsTest, UnsupportedOperatorsHaveNames) {
  const auto load = [](const char* op) { return Load(OnnxFile().Add({op, {"x"}, "out"})); };
  ExpectError(load("Softmax"), kUnimplemented, "(Softmax): is attention, which is not supported");
  ExpectError(load("Softmax"), kUnimplemented, "; use the network's .pth or .safetensors");
  ExpectError(load("GridSample"), kUnimplemented,
              "is sampling at places that follow from the image");
  ExpectError(load("MaxPool"), kUnimplemented, "is pooling to smaller planes");
  ExpectError(load("Loop"), kUnimplemented, "is control flow");
  ExpectError(load("DequantizeLinear"), kUnimplemented, "is quantized arithmetic");
  ExpectError(load("ConstantOfShape"), kUnimplemented,
              "is only supported for the image's size and for constants");
}

TEST(OnnxExportsTest, DeadNodesAreNoLayers) {
  OnnxFile file = WithSides();
  file.Add(OnnxNode("Slice", {"x"}, "s").Ints("starts", {0}).Ints("ends", {1}).Ints("axes", {1}));
  file.Add({"Shape", {"s"}, "ss"}).Add({"Relu", {"x"}, "out"});
  EXPECT_THAT(Ops(Load(file)), ElementsAre(Op::kActivation));
}

// Requests of hostile files are refused before they are computed.
TEST(OnnxExportsTest, NumbersThatExplode) {
  ExpectError(Load(OnnxFile().Ints("s", {1 << 20, 1 << 20}).Add({"ConstantOfShape", {"s"}, "out"})),
              kExhausted, "gives numbers of the shape [1048576, 1048576], the limit is");
  ExpectError(Load(OnnxFile().Ints("s", {-1, 5}).Add({"ConstantOfShape", {"s"}, "out"})), kInvalid,
              "gives numbers of the shape [-1, 5]");
  ExpectError(
      Load(OnnxFile().Ints("s", {INT64_MAX}).Ints("v", {1}).Add({"Expand", {"v", "s"}, "o"})),
      kExhausted, "the limit is");
  OnnxFile range = OnnxFile().Ints("a", {0}).Ints("b", {INT64_MAX}).Ints("c", {1});
  ExpectError(Load(range.Add({"Range", {"a", "b", "c"}, "out"})), kExhausted, "the limit is");
  OnnxFile endless = OnnxFile().Ints("a", {0}).Ints("b", {1}).Ints("c", {0});
  ExpectError(Load(endless.Add({"Range", {"a", "b", "c"}, "out"})), kExhausted, "the limit is");
  ExpectError(Load(OnnxFile().Ints("a", {1}).Ints("b", {0}).Add({"Div", {"a", "b"}, "out"})),
              kInvalid, "divides by 0");
  ExpectError(Load(WithSides().Add({"Range", {"i0", "height", "i1"}, "out"})), kUnimplemented,
              "gives as many numbers as the image has pixels");
  // Each node doubles what the one before it gave.
  OnnxFile doubling = OnnxFile().Ints("v0", {1});
  for (int i = 0; i < 40; ++i) {
    const std::string from = "v" + std::to_string(i);
    doubling.Add(OnnxNode("Concat", {from, from}, "v" + std::to_string(i + 1)).Int("axis", 0));
  }
  ExpectError(Load(doubling), kExhausted, "computes more than 16777216 numbers");
  // Many nodes read a large constant each.
  OnnxFile reading =
      OnnxFile().Ints("s", {1 << 20}).Ints("i", {0}).Add({"ConstantOfShape", {"s"}, "v"});
  for (int i = 0; i < 40; ++i) reading.Add({"Gather", {"v", "i"}, "g" + std::to_string(i)});
  ExpectError(Load(reading), kExhausted, "computes more than 16777216 numbers");
}

TEST(OnnxExportsTest, GraphsThatNeverEnd) {
  OnnxFile cycle;
  cycle.Add({"Add", {"x", "b"}, "a"}).Add({"Relu", {"a"}, "b"}).Add({"Relu", {"b"}, "out"});
  ExpectError(Load(cycle), kInvalid, "reads 'b', which no earlier node gives");
  // Cycles of curves, as far as patterns look back.
  OnnxFile gates;
  gates.Add({"Tanh", {"b"}, "a"}).Add({"Softplus", {"a"}, "b"}).Add({"Mul", {"a", "b"}, "out"});
  ExpectError(Load(gates), kInvalid, "which no earlier node gives");
  OnnxFile copies;
  copies.Add({"Identity", {"b"}, "a"})
      .Add({"Identity", {"a"}, "b"})
      .Add({"Mul", {"a", "b"}, "out"});
  ExpectError(Load(copies), kInvalid, "which no earlier node gives");
  OnnxFile many;
  for (int i = 0; i <= kMaxOnnxNodes; ++i) many.graph().add_node()->set_op_type("Relu");
  ExpectError(Load(many), kExhausted, "has 65537 nodes, the limit is 65536");
  // A product of 2^40 factors, as a pattern would spell it out.
  OnnxFile products;
  for (int i = 0; i < 40; ++i) {
    const std::string from = i == 0 ? "x" : "p" + std::to_string(i);
    products.Add({"Mul", {from, from}, "p" + std::to_string(i + 1)});
  }
  products.Add({"Identity", {"p40"}, "out"});
  EXPECT_EQ(Ops(Load(products)).size(), 40u);
}

TEST(OnnxExportsTest, ViewsThatCannotBe) {
  const auto reshape = [](std::initializer_list<int64_t> sides) {
    return Load(OnnxFile().Ints("s", sides).Add({"Reshape", {"x", "s"}, "out"}));
  };
  ExpectError(reshape({1, 2, -1, 0}), kUnimplemented, "does not split channels, rows and columns");
  ExpectError(reshape({-1, -1}), kUnimplemented, "does not split");
  ExpectError(reshape({-7, 3, 0, 0}), kUnimplemented, "does not split");
  ExpectError(reshape({INT64_MAX, INT64_MIN, 0, 0}), kUnimplemented, "does not split");
  ExpectError(reshape({1, 1, 1, 1, 1, 1, 1, 1, 3}), kUnimplemented, "does not split");
  ExpectError(Load(OnnxFile().Ints("n", {1 << 30, 1, 1, 1}).Add({"Expand", {"x", "n"}, "out"})),
              kUnimplemented, "only channels are repeated");
  ExpectError(Load(OnnxFile().Add(OnnxNode("Transpose", {"x"}, "out").Ints("perm", {0, 0, 1, 2}))),
              kInvalid, "have one twice");
}

}  // namespace
}  // namespace upscaled::onnx_exports
