// The pipeline on the real devices, with the network that ships.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "engine/pipeline/local_executor.h"
#include "engine/pipeline/upscaler.h"
#include "tests/engine/backends/tested_devices.h"
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

Image Upscale(const UpscalePlan& plan, const Image& picture, TileExecutor& executor,
              std::mt19937& random) {
  test::ViewRows source(picture.view());
  const auto upscaler = MakeUpscaler(plan, source, executor, 1, nullptr);
  auto result = test::ReadAllInPortions(*upscaler, random);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : Image(plan.result);
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
    const Image picture = test::PhotoImage(spec, random);
    for (const bool tta : {false, true}) {
      if (tta && spec.channels == 1) continue;
      UpscaleOptions whole;
      whole.tta = tta;
      whole.result_type = spec.type;
      const Size result{2 * spec.width_px, 2 * spec.height_px};
      const auto plan = PlanUpscale(spec, result, {executable}, whole);
      ASSERT_TRUE(plan.ok()) << plan.status();
      UpscalePlan uncut = *plan;
      uncut.pass_tile = {spec.size()};
      uncut.pass_bands = {1};
      uncut.tile_count = tta ? 8 : 1;
      const Image expected = Upscale(uncut, picture, *executor, random);
      for (const int tile_px : {32, 17}) {
        UpscaleOptions cut = whole;
        cut.tile_px = tile_px;
        const auto cut_plan = PlanUpscale(spec, result, {executable}, cut);
        ASSERT_TRUE(cut_plan.ok()) << cut_plan.status();
        EXPECT_TRUE(test::SameImages(Upscale(*cut_plan, picture, *executor, random).view(),
                                     expected.view()))
            << spec << ", tile_px " << tile_px << ", tta " << tta;
      }
    }
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
