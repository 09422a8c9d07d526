// The pipeline on the real devices, with the network that ships.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/model/repository.h"
#include "engine/pipeline/frame_upscaler.h"
#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/stages.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/random_network.h"
#include "tests/engine/backends/tested_devices.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

std::shared_ptr<const Executable> CompileBundled(Backend& backend) {
  const auto repository = ModelRepository::Open({"engine/model/bundled"});
  EXPECT_TRUE(repository.ok()) << repository.status();
  const auto card = repository->Find("general-2x");
  EXPECT_TRUE(card.ok()) << card.status();
  const auto network = LoadNetwork(**card, (*card)->variants.front());
  EXPECT_TRUE(network.ok()) << network.status();
  auto executable = backend.Compile(*network, Precision::kExact);
  EXPECT_TRUE(executable.ok()) << executable.status();
  return *executable;
}

Image Upscale(const UpscalePlan& plan, const Image& image, TileExecutor& executor,
              std::mt19937& random) {
  test::ViewRows source(image.view());
  const auto upscaler = MakeUpscaler(plan, source, executor, nullptr);
  auto result = test::ReadAllInPortions(*upscaler, random);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Image(plan.result);
}

// `plan` with every pass in one tile.
UpscalePlan Uncut(UpscalePlan plan) {
  plan.tile_count = 0;
  for (PassSpec& pass : plan.passes) {
    pass.tile = pass.source.size();
    pass.bands = 1;
    pass.rows.reset();
    pass.cached_tiles = 0;
    plan.tile_count += PassTileCount(pass);
  }
  plan.stages = PlanStages(plan);
  return plan;
}

// `plan` with every pass that can in rows; how many passes that are is added to `passes`.
UpscalePlan InRows(UpscalePlan plan, int& passes) {
  plan.tile_count = 0;
  for (PassSpec& pass : plan.passes) {
    auto need = pass.executable->PlanRowStream(pass.source.size());
    if (need) {
      pass.spares_flat_areas = FlatAreas::ApplyInRows(pass, *need);
      pass.rows = need;
      const int height = pass.rows->sees_all ? pass.source.height_px : 8;
      pass.tile = {pass.source.width_px, std::min(height, pass.source.height_px)};
      pass.bands = 2 + BandsBelow(pass, pass.tile.height);
      ++passes;
    }
    plan.tile_count += PassTileCount(pass);
  }
  plan.stages = PlanStages(plan);
  return plan;
}

class PipelineOnDevice : public ::testing::TestWithParam<std::string> {};

TEST_P(PipelineOnDevice, GivesTheSameBytesForEveryCut) {
  BackendOptions options;
  options.threads = 2;
  const auto backend = test::CreateTestedBackend(GetParam(), options);
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = CompileBundled(**backend);
  const auto executor = MakeLocalExecutor(**backend);
  std::mt19937 random = test::FreshRandom();
  const std::vector<ImageSpec> specs = {
      {1, 1, 3, SampleType::kU8}, {53, 37, 4, SampleType::kU8}, {35, 67, 1, SampleType::kU16}};
  for (const ImageSpec& spec : specs) {
    const Image image = test::PhotoImage(spec, random);
    for (const bool tta : {false, true}) {
      if (tta && spec.channels == 1) continue;
      UpscaleOptions whole;
      whole.tta = tta;
      whole.result_type = spec.type;
      const Size result{2 * spec.width_px, 2 * spec.height_px};
      const auto plan = PlanUpscale(spec, result, {executable}, whole);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const Image expected = Upscale(Uncut(*plan), image, *executor, random);
      for (const int tile_px : {32, 17}) {
        UpscaleOptions cut = whole;
        cut.tile_px = tile_px;
        const auto cut_plan = PlanUpscale(spec, result, {executable}, cut);
        ASSERT_TRUE(cut_plan.ok()) << cut_plan.status();
        EXPECT_TRUE(
            test::SameImages(Upscale(*cut_plan, image, *executor, random).view(), expected.view()))
            << spec << ", tile_px " << tile_px << ", tta " << tta;
      }
    }
  }
}

TEST_P(PipelineOnDevice, GivesTheSameBytesInRows) {
  const auto backend =
      test::CreateTestedBackend(GetParam(), {.threads = 2, .poisons_memory = true});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  std::mt19937 random = test::FreshRandom();
  int passes = 0;
  int64_t spared_px = 0;
  // More rounds until flat areas are spared.
  for (int round = 0; round < 20 || (passes > 0 && spared_px == 0 && round < 200); ++round) {
    const Network network = test::RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const auto executable =
        (*backend)->Compile(network, round % 2 ? Precision::kExact : Precision::kFast);
    if (absl::IsUnimplemented(executable.status())) continue;
    ASSERT_TRUE(executable.ok()) << executable.status();
    if (!(*executable)->PlanRowStream({1, 1})) continue;
    const bool is_plain = round % 4 >= 2;
    const int side = is_plain ? 240 : 70;
    const ImageSpec spec{test::RandomInt(random, 1, side), test::RandomInt(random, 1, side),
                         test::RandomInt(random, 3, 4), SampleType::kU8};
    const int scale = (*executable)->network().scale;
    const int chain = round % 3 == 0 && scale <= 2 ? 2 : 1;
    const int factor = chain == 2 ? scale * scale : scale;
    const auto plan =
        PlanUpscale(spec, {factor * spec.width_px, factor * spec.height_px},
                    std::vector<std::shared_ptr<const Executable>>(chain, *executable),
                    {.result_type = SampleType::kU16, .concurrency = 2});
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (plan->cost > 5'000'000'000) continue;
    const Image image =
        is_plain ? test::PlainGroundImage(spec, random) : test::PhotoImage(spec, random);
    const Image expected = Upscale(*plan, image, *executor, random);
    test::ViewRows source(image.view());
    const auto upscaler = MakeUpscaler(InRows(*plan, passes), source, *executor, nullptr,
                                       {.on_spared = [&](int64_t px) { spared_px += px; }});
    const auto in_rows = test::ReadAllInPortions(*upscaler, random);
    ASSERT_TRUE(in_rows.ok()) << in_rows.status();
    EXPECT_TRUE(test::SameImages(in_rows->view(), expected.view())) << spec << ", passes " << chain;
  }
  EXPECT_TRUE(passes > 0 || GetParam() != "cpu");
  EXPECT_TRUE(spared_px > 0 || GetParam() != "cpu");
}

// The image moved by (x, y); what leaves it comes in at the opposite border.
Image Rolled(const ImageView& image, int x, int y) {
  Image rolled(image.spec);
  const Size size = image.spec.size();
  const size_t pixel_bytes = image.spec.pixel_bytes();
  for (int row = 0; row < size.height; ++row)
    for (int column = 0; column < size.width; ++column)
      std::memcpy(rolled.mutable_view().row((row + y) % size.height) +
                      (column + x) % size.width * pixel_bytes,
                  image.row(row) + column * pixel_bytes, pixel_bytes);
  return rolled;
}

// Wherever a texture is cut, its result is the same.
TEST(SeamlessTest, RolledTexturesGiveRolledResults) {
  const auto backend = test::CreateTestedBackend("cpu", {.threads = 2});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  const auto executable = CompileBundled(**backend);
  std::mt19937 random = test::FreshRandom();
  int otherwise = 0;  // the difference of images that are not seamless
  struct Case {
    int passes;
    int times, by;  // the factor as a fraction, also of those by which no margin has whole pixels
  };
  for (const Case& c : {Case{1, 2, 1},
                        {2, 4, 1},
                        {2, 3, 1},
                        {1, 3, 2},
                        {1, 7, 5},
                        {1, 17, 13},
                        {0, 1, 2},
                        {0, 5, 4},
                        {0, 3, 7},
                        {0, 1, 10},
                        {0, 1, 41},
                        {0, 23, 17}})
    for (const int channels : {1, 3, 4})
      for (const bool tta : {false, true}) {
        const Size size{c.by * test::RandomInt(random, 1, 40 / c.by + 2),
                        c.by * test::RandomInt(random, 1, 40 / c.by + 2)};
        const ImageSpec spec{size.width, size.height, channels, SampleType::kU8};
        std::optional<BilateralOptions> prefilter;
        if (test::RandomInt(random, 0, 2) == 0) prefilter = {.sigma_space = 8, .sigma_range = 40};
        // A photograph's opposite borders differ.
        const Image image = test::PhotoImage(spec, random);
        const auto upscale = [&](const Image& source, bool seamless) {
          const auto plan = PlanUpscale(
              spec, {size.width / c.by * c.times, size.height / c.by * c.times},
              std::vector<std::shared_ptr<const Executable>>(c.passes, executable),
              {.prefilter = prefilter, .tta = tta, .seamless = seamless, .concurrency = 2});
          EXPECT_TRUE(plan.ok()) << plan.status();
          test::ViewRows rows(source.view());
          FrameUpscaler frames(*plan, /*frames=*/1, *executor, nullptr, {});
          const auto result = frames.Next(rows);
          EXPECT_TRUE(result.ok()) << result.status();
          return *test::ReadAllInPortions(**result, random);
        };
        const int x = test::RandomInt(random, 0, 11), y = test::RandomInt(random, 0, 11);
        const auto difference = [&](bool seamless) {
          const Image moved = upscale(Rolled(image.view(), c.by * x, c.by * y), seamless);
          const Image expected = Rolled(upscale(image, seamless).view(), c.times * x, c.times * y);
          return test::LargestDifference(moved.view(), expected.view());
        };
        EXPECT_LE(difference(true), 1)
            << spec << ", moved by " << c.by * x << ", " << c.by * y << ", passes " << c.passes
            << ", scale " << c.times << " / " << c.by << ", tta " << tta;
        if (channels == 3 && !tta) otherwise = std::max(otherwise, difference(false));
      }
  EXPECT_GT(otherwise, 1) << "borders differ, if nothing is wrapped";
}

TEST(SeamlessTest, RefusesToReduceBeyondItsMargins) {
  const ImageSpec spec{4000, 30, 3, SampleType::kU8};
  EXPECT_TRUE(PlanUpscale(spec, {12, 30}, {}, {.seamless = true}).ok());
  const absl::Status status = PlanUpscale(spec, {11, 30}, {}, {.seamless = true}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "seamless: to make 4000x30 as small as 11x30 takes 1091 pixels beyond each border; the "
            "limit is 1024");
}

// A network whose tiles compute several times their pixels.
Network DeepChain() {
  Network network = test::InputAlone();
  for (int i = 0; i < 40; ++i) test::AppendConv(network, 64, 3);
  test::AppendConv(network, 3, 3);
  return network;
}

TEST(RowPassTest, DeepNetworksTakeRows) {
  const auto backend = test::CreateTestedBackend("cpu", {.threads = 2});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  const auto executable = (*backend)->Compile(DeepChain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec{260, 150, 4, SampleType::kU8};
  const auto plan_with = [&](const UpscaleOptions& options) {
    const auto plan = PlanUpscale(spec, spec.size(), {*executable}, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  };
  const UpscalePlan plan = plan_with({});
  ASSERT_TRUE(plan.passes[0].rows.has_value());
  const int64_t own = (*executable)->Plan({0, 0, 260, 150}, spec.size()).Cost(/*cached=*/false);
  EXPECT_EQ(plan.cost, own) << "nothing is computed twice";
  EXPECT_GT(plan.tile_count, 1) << "it gives way to others";
  EXPECT_FALSE(plan_with({.tta = true}).passes[0].rows.has_value());
  EXPECT_FALSE(plan_with({.tile_px = 64}).passes[0].rows.has_value());
  EXPECT_FALSE(plan_with({.row_stream_bytes = 1 << 20}).passes[0].rows.has_value());

  const Image image = test::PhotoImage(spec, random);
  test::ViewRows source(image.view());
  int64_t done = 0;
  const auto upscaler =
      MakeUpscaler(plan, source, *executor, nullptr, {.on_tile = [&](int64_t now, int64_t total) {
                     EXPECT_GT(now, done);
                     EXPECT_EQ(total, plan.tile_count);
                     done = now;
                   }});
  const auto result = test::ReadAllInPortions(*upscaler, random);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(done, plan.tile_count);
  EXPECT_TRUE(
      test::SameImages(result->view(), Upscale(Uncut(plan), image, *executor, random).view()));
}

TEST(RowPassTest, ACancelledImageEnds) {
  const auto backend = test::CreateTestedBackend("cpu", {.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  const auto executable = (*backend)->Compile(DeepChain(), Precision::kExact);
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::mt19937 random = test::FreshRandom();
  const ImageSpec spec{260, 600, 3, SampleType::kU8};
  const auto plan = PlanUpscale(spec, spec.size(), {*executable}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(plan->passes[0].rows.has_value());
  const Image image = test::PhotoImage(spec, random);
  test::ViewRows source(image.view());
  Cancellation cancellation;
  std::atomic<int64_t> parts = 0;
  const auto upscaler =
      MakeUpscaler(*plan, source, *executor, &cancellation, {.on_tile = [&](int64_t, int64_t) {
        if (++parts == 2) cancellation.Cancel(absl::CancelledError("gone"));
      }});
  EXPECT_EQ(test::ReadAllInPortions(*upscaler, random).status(), absl::CancelledError("gone"));
  EXPECT_LT(parts, plan->tile_count);
}

// Drawings give the same bytes whether their flat areas are computed or copied: the arithmetic of a
// pixel depends only on its view and on its place in the kernels' blocks.
TEST_P(PipelineOnDevice, CopiesFlatAreasToTheByte) {
  const auto backend = test::CreateTestedBackend(GetParam(), {.threads = 2});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  std::mt19937 random = test::FreshRandom();
  int64_t spared_px = 0;
  // More where all of these were too costly to compute whole, or had nothing to spare.
  for (int round = 0; round < 30 || (spared_px == 0 && round < 300); ++round) {
    const Network network = test::RandomNetwork(random);
    SCOPED_TRACE(test::Describe(network));
    const auto executable =
        round == 0 ? CompileBundled(**backend)
                   : (*backend)->Compile(network, round % 3 ? Precision::kExact : Precision::kFast);
    if (absl::IsUnimplemented(executable.status())) continue;
    ASSERT_TRUE(executable.ok()) << executable.status();
    const ImageSpec spec{test::RandomInt(random, 60, 240), test::RandomInt(random, 60, 240),
                         test::RandomInt(random, 3, 4),
                         round % 2 ? SampleType::kU8 : SampleType::kU16};
    UpscaleOptions options{
        .tta = round % 5 == 4, .result_type = SampleType::kU16, .concurrency = 2};
    const int passes = round % 4 == 0 ? 2 : 1;
    int scale = 1;
    for (int i = 0; i < passes; ++i) scale *= (*executable)->network().scale;
    const auto plan_for = [&](bool spare_flat_areas) {
      options.spare_flat_areas = spare_flat_areas;
      const auto plan =
          PlanUpscale(spec, {scale * spec.width_px, scale * spec.height_px},
                      std::vector<std::shared_ptr<const Executable>>(passes, *executable), options);
      EXPECT_TRUE(plan.ok()) << plan.status();
      return *plan;
    };
    const int64_t max_cost = GetParam() != "cpu" ? 500'000'000 : 20'000'000'000;
    if (plan_for(false).cost > max_cost) continue;
    const Image image = test::PlainGroundImage(spec, random);
    test::ViewRows source(image.view());
    const auto upscaler = MakeUpscaler(plan_for(true), source, *executor, nullptr,
                                       {.on_spared = [&](int64_t px) { spared_px += px; }});
    const auto result = test::ReadAllInPortions(*upscaler, random);
    ASSERT_TRUE(result.ok()) << result.status();
    const Image expected = Upscale(plan_for(false), image, *executor, random);
    EXPECT_TRUE(test::SameImages(result->view(), expected.view()))
        << spec << ", passes " << passes << ", tta " << options.tta;
  }
  EXPECT_GT(spared_px, 0);
}

// The limit for pooled networks, so that the reference runs them eight times in seconds.
constexpr double kMaxMacsPerPx = 10'000;

TEST_P(PipelineOnDevice, PoolsOverTheWholeImageHoweverItIsCut) {
  const auto backend = test::CreateTestedBackend(GetParam(), {.threads = 2});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executor = MakeLocalExecutor(**backend);
  std::mt19937 random = test::FreshRandom();
  for (int round = 0; round < 8; ++round) {
    const Network network = test::RandomPooledNetwork(random, kMaxMacsPerPx);
    SCOPED_TRACE(test::Describe(network));
    const auto executable = (*backend)->Compile(network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const ImageSpec spec{test::RandomInt(random, 1, 60), test::RandomInt(random, 1, 60),
                         test::RandomInt(random, 3, 4),
                         round % 2 ? SampleType::kU8 : SampleType::kU16};
    const Image image = test::RandomImage(spec, random);
    // Twice, and again for transformed images, if this is not too much.
    const int passes = round < 6 ? 1 : 2;
    const int scale = passes == 1 ? network.scale : network.scale * network.scale;
    UpscaleOptions options{.tta = round % 3 == 2,
                           .keep_colours = false,  // the network itself is the reference
                           .result_type = spec.type,
                           .concurrency = 2};
    const auto plan_for = [&](int tile_px, size_t activation_cache_bytes) {
      options.tile_px = tile_px;
      options.activation_cache_bytes = activation_cache_bytes;
      const auto plan = PlanUpscale(
          spec, {scale * spec.width_px, scale * spec.height_px},
          std::vector<std::shared_ptr<const Executable>>(passes, *executable), options, 1 << 16);
      EXPECT_TRUE(plan.ok()) << plan.status();
      return *plan;
    };
    const Image expected = Upscale(Uncut(plan_for(0, 0)), image, *executor, random);
    for (const size_t activation_cache_bytes : {size_t{0}, size_t{300'000}, size_t{1} << 30}) {
      const int tile_px = test::RandomInt(random, 5, 40);
      const Image result =
          Upscale(plan_for(tile_px, activation_cache_bytes), image, *executor, random);
      EXPECT_TRUE(test::SameImages(result.view(), expected.view()))
          << spec << ", tile_px " << tile_px << ", tta " << options.tta << ", memory of tiles "
          << activation_cache_bytes;
    }
    if (options.tta || passes > 1 || spec.channels > 3) continue;
    Image alone(expected.spec());
    const absl::Status status =
        test::RunImage(*(*backend)->CreateStream(), **executable,
                       {test::WholeTask(**executable, image.view(), alone.mutable_view())});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(test::SameImages(alone.view(), expected.view())) << spec;
  }
}

size_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_P(PipelineOnDevice, HoldsPooledImagesWithinThePlan) {
  if (BytesInUse() == 0) GTEST_SKIP() << "the allocator keeps no account (sanitizers)";
  const auto backend = test::CreateTestedBackend(GetParam(), {.threads = 1});
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  std::mt19937 random = test::FreshRandom();
  for (const bool tta : {false, true}) {
    const Network network = test::RandomPooledNetwork(random, kMaxMacsPerPx);
    SCOPED_TRACE(test::Describe(network));
    const auto executable = (*backend)->Compile(network, Precision::kExact);
    ASSERT_TRUE(executable.ok()) << executable.status();
    const Image image = test::RandomImage({150, 170, 3, SampleType::kU8}, random);
    const auto plan = PlanUpscale(
        image.spec(), {150 * network.scale, 170 * network.scale}, {*executable},
        {.tta = tta, .tile_px = 60, .activation_cache_bytes = size_t{10} << 20}, 1 << 16);
    ASSERT_TRUE(plan.ok()) << plan.status();
    Image result(plan->result);
    const auto run = [&](const UpscaleProgress& hooks) {
      const auto executor = MakeLocalExecutor(**backend);
      test::ViewRows source(image.view());
      const auto upscaler = MakeUpscaler(*plan, source, *executor, nullptr, hooks);
      ASSERT_TRUE(upscaler->ReadRows(result.mutable_view()).ok());
    };
    run({});  // drivers load kernels when they are first needed
    const size_t before = BytesInUse();
    size_t most = before;
    run({.on_tile = [&](int64_t, int64_t) { most = std::max(most, BytesInUse()); }});
    const PassSpec& pass = plan->passes[0];
    EXPECT_LE(most - before, plan->memory_bytes + (*executable)->WorkspaceBytes(pass.tile))
        << "activation caches " << pass.cached_tiles;
  }
}

TEST_P(PipelineOnDevice, EnlargesSmoothShadingFaithfully) {
  const auto backend = test::CreateTestedBackend(GetParam());
  if (absl::IsUnavailable(backend.status())) GTEST_SKIP() << backend.status();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto executable = CompileBundled(**backend);
  const auto executor = MakeLocalExecutor(**backend);
  std::mt19937 random = test::FreshRandom();
  // A ramp: every result pixel must be near the ramp's value at its place.
  Image ramp({40, 24, 3, SampleType::kU8});
  for (int y = 0; y < 24; ++y) {
    for (int x = 0; x < 40; ++x) {
      for (int c = 0; c < 3; ++c) ramp.mutable_view().row(y)[3 * x + c] = 20 + 4 * x + 2 * y;
    }
  }
  const auto plan = PlanUpscale(ramp.spec(), {160, 96}, {executable, executable}, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Image result = Upscale(*plan, ramp, *executor, random);
  for (int y = 8; y < 88; ++y) {
    for (int x = 8; x < 152; ++x) {
      const double expected = 20 + 4 * ((x + 0.5) / 4 - 0.5) + 2 * ((y + 0.5) / 4 - 0.5);
      for (int c = 0; c < 3; ++c) {
        ASSERT_NEAR(result.view().row(y)[3 * x + c], expected, 6) << x << ", " << y;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineOnDevice, ::testing::ValuesIn(test::TestedDevices()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace upscaled
