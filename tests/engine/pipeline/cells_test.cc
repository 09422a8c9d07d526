// Images in cells: the lattice, and results against an implementation of the test's own in double.
#include "engine/pipeline/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/pipeline/image_run.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/reach.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/pipeline/fakes.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using test::RandomInt;

constexpr int kCellPx = 64;

TEST(CellAxisTest, CellsAreAnchoredAndOverlap) {
  for (const int cell_px : {64, 128, 256}) {
    for (int length = 1; length < 5 * cell_px; length += length < 2 * cell_px ? 1 : 7) {
      const CellAxis axis(length, cell_px);
      SCOPED_TRACE(::testing::Message() << length << " px in cells of " << cell_px);
      ASSERT_EQ(axis.count() == 1, length <= cell_px);
      ASSERT_EQ(axis.cell_length(), std::min(length, cell_px));
      ASSERT_EQ(axis.ResultBegin(0), 0);
      ASSERT_EQ(axis.ResultBegin(axis.count()), length);
      ASSERT_EQ(axis.Begin(axis.count() - 1) + axis.cell_length(), length);
      for (int i = 0; i + 1 < axis.count(); ++i) {
        if (i + 2 < axis.count()) {
          ASSERT_EQ(axis.Begin(i + 1), (i + 1) * (cell_px - 32));
        }
        const int shared = axis.Begin(i) + cell_px - axis.Begin(i + 1);
        ASSERT_GE(shared, CellAxis::kOverlapPx);
        // As many pixels are left out on one side of the blend as on the other.
        const int blend = axis.ResultBegin(i + 1);
        const int before = blend - axis.Begin(i + 1);
        const int behind = axis.Begin(i) + cell_px - blend - CellAxis::kBlendPx;
        ASSERT_GE(before, (CellAxis::kOverlapPx - CellAxis::kBlendPx) / 2);
        ASSERT_GE(behind, before);
        ASSERT_LE(behind, before + 1);
        // No pixel is blended from three cells.
        if (i > 0) {
          ASSERT_GE(blend, axis.ResultBegin(i) + CellAxis::kBlendPx);
        }
      }
    }
  }
}

// A 3x3 convolution with a border of zeros, times its mean over the image, each pixel repeated.
struct MeanNetwork {
  MeanNetwork(std::mt19937& random, int scale) : network(test::InputAlone()) {
    test::AppendConv(network, 3, 3);
    std::uniform_real_distribution<float> weight(0.02f, 0.06f);
    for (float& value : network.layers[1].weights) value = weight(random);
    test::AppendTimesMean(network, 1);
    if (scale > 1) {
      network.layers.push_back({.op = Op::kResizeNearest,
                                .name = "resize",
                                .inputs = {3},
                                .out_channels = 3,
                                .in_channels = 3,
                                .factor = scale});
    }
    network.scale = scale;
    network.cell_px = kCellPx;
  }

  Network network;
};

// Pixels in double, colour only.
struct Pixels {
  explicit Pixels(Size of) : size(of), values(3 * static_cast<size_t>(of.Area())) {}
  double& At(int x, int y, int c) {
    return values[3 * (static_cast<size_t>(y) * size.width + x) + c];
  }
  double At(int x, int y, int c) const { return const_cast<Pixels*>(this)->At(x, y, c); }

  Size size;
  std::vector<double> values;
};

Pixels ToPixels(const ImageView& image) {
  Pixels pixels(image.spec.size());
  for (int y = 0; y < image.height_px(); ++y) {
    for (int x = 0; x < image.width_px(); ++x) {
      for (int c = 0; c < 3; ++c) {
        const int i = x * image.spec.channels + c;
        pixels.At(x, y, c) = image.spec.type == SampleType::kU8
                                 ? image.row_as<uint8_t>(y)[i] / 255.0
                                 : image.row_as<uint16_t>(y)[i] / 65535.0;
      }
    }
  }
  return pixels;
}

// MeanNetwork over an image of its own.
Pixels Compute(const Network& network, const Pixels& image) {
  const auto [width, height] = image.size;
  Pixels sums(image.size);
  std::array<double, 3> mean = {};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int out = 0; out < 3; ++out) {
        for (int in = 0; in < 3; ++in) {
          for (int tap = 0; tap < 9; ++tap) {
            const int u = x + tap % 3 - 1, v = y + tap / 3 - 1;
            if (u < 0 || v < 0 || u >= width || v >= height) continue;
            sums.At(x, y, out) +=
                network.layers[1].weights[(out * 3 + in) * 9 + tap] * image.At(u, v, in);
          }
        }
        mean[out] += sums.At(x, y, out) / static_cast<double>(image.size.Area());
      }
    }
  }
  const int scale = network.scale;
  Pixels result({width * scale, height * scale});
  for (int y = 0; y < height * scale; ++y) {
    for (int x = 0; x < width * scale; ++x) {
      for (int c = 0; c < 3; ++c) {
        result.At(x, y, c) = sums.At(x / scale, y / scale, c) * mean[c];
      }
    }
  }
  return result;
}

// One of the eight flips and rotations.
Pixels Turned(const Pixels& image, int variant, bool back) {
  const auto [width, height] = image.size;
  const bool swap = (variant & 4) != 0;
  Pixels turned(swap ? Size{height, width} : Size{width, height});
  const Size upright = back ? turned.size : image.size;
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x) {
      int u = (variant & 1) != 0 ? upright.width - 1 - x : x;
      int v = (variant & 2) != 0 ? upright.height - 1 - y : y;
      if (swap) std::swap(u, v);
      for (int c = 0; c < 3; ++c) {
        if (back) {
          turned.At(x, y, c) = image.At(u, v, c);
        } else {
          turned.At(u, v, c) = image.At(x, y, c);
        }
      }
    }
  }
  return turned;
}

Pixels ComputeTta(const Network& network, const Pixels& image) {
  Pixels sum({image.size.width * network.scale, image.size.height * network.scale});
  for (int variant = 0; variant < 8; ++variant) {
    const Pixels result =
        Turned(Compute(network, Turned(image, variant, false)), variant, /*back=*/true);
    for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += result.values[i] / 8;
  }
  return sum;
}

// Where cells begin along an axis.
std::vector<int> Begins(int length) {
  std::vector<int> begins = {0};
  while (begins.back() + kCellPx < length) {
    begins.push_back(std::min(begins.back() + kCellPx - 32, length - kCellPx));
  }
  return begins;
}

// The weight of each cell at the middle of a pixel of the result, along one axis.
std::vector<double> Weights(const std::vector<int>& begins, int at, int scale) {
  const double place = (at + 0.5) / scale;
  std::vector<double> weights(begins.size(), 0.0);
  double left = 1;
  for (size_t i = begins.size() - 1; i > 0; --i) {
    const double middle = std::floor((begins[i] + begins[i - 1] + kCellPx) / 2.0);
    const double share = std::clamp((place - middle + 8) / 16, 0.0, 1.0);
    weights[i] = left * share;
    left *= 1 - share;
  }
  weights[0] = left;
  return weights;
}

Pixels ComputeInCells(const Network& network, const Pixels& image, bool tta) {
  const int scale = network.scale;
  const std::vector<int> columns = Begins(image.size.width), rows = Begins(image.size.height);
  Pixels result({image.size.width * scale, image.size.height * scale});
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t column = 0; column < columns.size(); ++column) {
      Pixels cell({std::min(kCellPx, image.size.width), std::min(kCellPx, image.size.height)});
      const int left = columns[column], top = rows[row];
      for (int y = 0; y < cell.size.height; ++y) {
        for (int x = 0; x < cell.size.width; ++x) {
          for (int c = 0; c < 3; ++c) cell.At(x, y, c) = image.At(left + x, top + y, c);
        }
      }
      const Pixels computed = tta ? ComputeTta(network, cell) : Compute(network, cell);
      for (int y = 0; y < computed.size.height; ++y) {
        const double of_row = Weights(rows, top * scale + y, scale)[row];
        for (int x = 0; x < computed.size.width; ++x) {
          const double weight = of_row * Weights(columns, left * scale + x, scale)[column];
          for (int c = 0; c < 3; ++c) {
            result.At(left * scale + x, top * scale + y, c) += weight * computed.At(x, y, c);
          }
        }
      }
    }
  }
  return result;
}

class CellPassTest : public ::testing::Test {
 protected:
  UpscalePlan Plan(const Network& network, const ImageSpec& spec, UpscaleOptions options = {}) {
    options.max_whole_bytes = 0;
    options.keep_colours = false;
    options.result_type = spec.type;
    auto plan = PlanUpscale(spec, {spec.width_px * network.scale, spec.height_px * network.scale},
                            {*backend_->Compile(network, Precision::kExact)}, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }

  Image Run(const UpscalePlan& plan, const Image& image) {
    const auto executor = MakeLocalExecutor(*backend_);
    test::ViewRows source(image.view());
    std::atomic<int64_t> most = 0;
    const auto upscaler = MakeUpscaler(
        plan, source, *executor, nullptr, {.on_tile = [&](int64_t done, int64_t total) {
          EXPECT_EQ(total, plan.tile_count);
          for (int64_t seen = most; seen < done && !most.compare_exchange_weak(seen, done);) {
          }
        }});
    absl::StatusOr<Image> result = test::ReadAllInPortions(*upscaler, random_);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(most, plan.tile_count);
    return result.ok() ? *std::move(result) : Image(plan.result);
  }

  std::mt19937 random_ = test::FreshRandom();
  const std::unique_ptr<Backend> backend_ = *CreateReferenceBackend({.threads = 2});
};

TEST_F(CellPassTest, GivesEachCellAsAnImageOfItsOwnAndBlendsThem) {
  const Size kSizes[] = {{kCellPx, kCellPx}, {kCellPx + 1, 9},       {5, kCellPx + 1},
                         {1, 200},           {kCellPx - 1, 97},      {96, 97},
                         {129, 95},          {2 * kCellPx + 33, 70}, {150, 131}};
  for (const Size size : kSizes) {
    for (const bool tta : {false, true}) {
      const MeanNetwork mean(random_, RandomInt(random_, 1, 3));
      const Image image =
          test::RandomImage({size.width, size.height, 3, SampleType::kU16}, random_);
      const UpscalePlan plan = Plan(mean.network, image.spec(),
                                    {.tta = tta,
                                     .tile_px = RandomInt(random_, 0, 40),
                                     .concurrency = RandomInt(random_, 1, 4)});
      SCOPED_TRACE(::testing::Message()
                   << image.spec() << ", scale " << mean.network.scale << (tta ? ", TTA" : ""));
      EXPECT_EQ(plan.passes[0].cells.has_value(), size != (Size{kCellPx, kCellPx}));
      const Pixels result = ToPixels(Run(plan, image).view());
      const Pixels expected = ComputeInCells(mean.network, ToPixels(image.view()), tta);
      ASSERT_EQ(result.size, expected.size);
      double difference = 0;
      for (size_t i = 0; i < result.values.size(); ++i) {
        difference = std::max(difference, std::abs(result.values[i] - expected.values[i]));
      }
      // Cells are rounded to 16 bits, and so is their blend.
      EXPECT_LT(difference, 1.5 / 65535);
    }
  }
}

TEST_F(CellPassTest, LeavesNoSeamWhereCellsAgree) {
  const MeanNetwork mean(random_, 2);
  // Inside, where no cell's border of zeros reaches.
  Image image({140, 101, 3, SampleType::kU8});
  for (int y = 0; y < 101; ++y) std::fill_n(image.mutable_view().row(y), 3 * 140, uint8_t{177});
  const Image result = Run(Plan(mean.network, image.spec()), image);
  const ImageView view = result.view();
  for (int y = 4; y < view.height_px() - 4; ++y) {
    for (int x = 3 * 4; x < 3 * (view.width_px() - 4); ++x) {
      ASSERT_EQ(view.row(y)[x], view.row(4)[12 + x % 3]) << "at " << x / 3 << ", " << y;
    }
  }
}

TEST_F(CellPassTest, KeepsAlphaAndComputesColoursAsWithoutIt) {
  const MeanNetwork mean(random_, 2);
  Image opaque = test::RandomImage({150, 90, 4, SampleType::kU16}, random_);
  Image colours({150, 90, 3, SampleType::kU16});
  for (int y = 0; y < 90; ++y) {
    for (int x = 0; x < 150; ++x) {
      uint16_t* pixel = opaque.mutable_view().row_as<uint16_t>(y) + 4 * x;
      pixel[3] = 65535;
      std::copy_n(pixel, 3, colours.mutable_view().row_as<uint16_t>(y) + 3 * x);
    }
  }
  const Image expected = Run(Plan(mean.network, colours.spec()), colours);
  for (const AlphaMethod alpha : {AlphaMethod::kNetwork, AlphaMethod::kResample}) {
    const Image result = Run(Plan(mean.network, opaque.spec(), {.alpha = alpha}), opaque);
    for (int y = 0; y < result.spec().height_px; ++y) {
      for (int x = 0; x < result.spec().width_px; ++x) {
        const uint16_t* pixel = result.view().row_as<uint16_t>(y) + 4 * x;
        ASSERT_EQ(pixel[3], 65535);
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(pixel[c], expected.view().row_as<uint16_t>(y)[3 * x + c]);
        }
      }
    }
  }
}

TEST_F(CellPassTest, EndsWhenItIsCancelled) {
  const MeanNetwork mean(random_, 1);
  const Image image = test::RandomImage({700, 70, 3, SampleType::kU8}, random_);
  for (const bool tta : {false, true}) {
    const UpscalePlan plan = Plan(mean.network, image.spec(), {.tta = tta, .concurrency = 2});
    const auto executor = MakeLocalExecutor(*backend_);
    test::ViewRows source(image.view());
    Cancellation cancellation;
    const auto upscaler = MakeUpscaler(plan, source, *executor, &cancellation,
                                       {.on_tile = [&](int64_t done, int64_t) {
                                         if (done == 3)
                                           cancellation.Cancel(absl::CancelledError("enough"));
                                       }});
    EXPECT_EQ(test::ReadAll(*upscaler).status(), absl::CancelledError("enough"));
  }
}

TEST_F(CellPassTest, CostGrowsWithTheAreaAndMemoryWithTheWidth) {
  Network network = test::NormalisedNetwork(3);
  network.cell_px = kCellPx;
  const auto plan = [&](int width, int height) {
    return Plan(network, {width, height, 3, SampleType::kU8}, {.concurrency = 2});
  };
  const UpscalePlan one = plan(kCellPx + 1, kCellPx + 1);  // four cells
  EXPECT_EQ(one.tile_count, 4 * (3 + 1));
  const UpscalePlan many = plan(32 * 60 + 32, 32 * 40 + 32);
  EXPECT_EQ(many.cost, one.cost / 4 * 60 * 40);
  EXPECT_EQ(plan(32 * 60 + 32, 32 * 400 + 32).memory_bytes, many.memory_bytes);
  EXPECT_EQ(many.passes[0].tile, (Size{kCellPx, kCellPx}));
}

TEST(CellsOfTest, AreOfNetworksWithSumsBeyondTheBytes) {
  Network network = test::InputAlone();
  test::AppendConv(network, 16, 3);
  const Size image{300, 200};
  // The input and what follows from it.
  const double bytes = 300 * 200 * (3 + 16) * sizeof(float);
  EXPECT_EQ(WholeImageBytes(network, image), bytes);
  test::AppendConv(network, 3, 3);
  EXPECT_EQ(WholeImageBytes(network, image), bytes);
  EXPECT_FALSE(CellsOf(network, image, 0).has_value()) << "a local network";
  network = test::NormalisedNetwork(1);
  const auto whole_bytes = static_cast<size_t>(WholeImageBytes(network, image));
  EXPECT_FALSE(CellsOf(network, image, whole_bytes).has_value());
  ASSERT_TRUE(CellsOf(network, image, whole_bytes - 1).has_value());
  EXPECT_EQ(CellsOf(network, image, 0)->cell(), (Size{256, 200}));
  EXPECT_FALSE(CellsOf(network, {256, 256}, 0).has_value()) << "no larger than a cell";
}

TEST(CellsOfTest, AreOfNetworksThatReadAnywhere) {
  Network network = test::InputAlone();
  network.layers.push_back({.op = Op::kPad,
                            .name = "wrapped",
                            .inputs = {0},
                            .out_channels = 3,
                            .in_channels = 3,
                            .padding_px = 1,
                            .pad_mode = PadMode::kReplicate});
  EXPECT_FALSE(CellsOf(network, {300, 200}).has_value());
  network.layers.back().pad_mode = PadMode::kWrap;
  ASSERT_TRUE(CellsOf(network, {300, 200}).has_value()) << "whatever its layers take";
  EXPECT_FALSE(CellsOf(network, {256, 256}).has_value()) << "no larger than a cell";
}

TEST(CellsOfTest, ImagesWithinACellThatAreReadAnywhereAreOneTile) {
  const auto executable = test::FakeExecutable::ThatReadsAnywhere(2);
  EXPECT_TRUE(SeesWholeImage(*executable));
  EXPECT_FALSE(SeesWholeImage(test::FakeExecutable(2)));
  for (const Size image : {Size{1, 1}, Size{65, 7}, Size{200, 150}, Size{256, 256}}) {
    const ImageSpec source{image.width, image.height, 3, SampleType::kU8};
    const Size result{2 * image.width, 2 * image.height};
    SCOPED_TRACE(::testing::Message() << source);
    EXPECT_EQ(TileSizeFor(*executable, image, image, /*halo_px=*/1, /*streams=*/4), image);
    EXPECT_EQ(ReachOf(*executable, image).halo_px(), kWholeImageHaloPx);
    for (const bool tta : {false, true}) {
      const auto plan =
          PlanUpscale(source, result, {executable}, {.tta = tta, .concurrency = 4}, 1 << 16);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->passes.front().tile, image);
      EXPECT_EQ(plan->tile_count, tta ? 8 : 1);
      const int64_t cost = executable->Plan({0, 0, image.width, image.height}, image).Cost(true);
      EXPECT_EQ(plan->cost, tta ? 8 * cost : cost);
    }
  }
  const auto cut =
      PlanUpscale({256, 256, 3, SampleType::kU8}, {512, 512}, {executable}, {.tile_px = 100});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_LE(cut->passes.front().tile.width, 100) << "as asked for";
}

}  // namespace
}  // namespace upscaled
