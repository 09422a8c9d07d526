// The name of a result changes with each part behind its bytes, and with nothing else.
#include "server/results/result_key.h"

#include <dlfcn.h>

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "engine/base/build_id.h"
#include "engine/image/arithmetic.h"
#include "engine/image/memory_io.h"

namespace upscaled::server {
namespace {

ResultParts Parts() {
  return {.source = DigestOf(AsBytes("source")),
          .networks = {DigestOf(AsBytes("first pass")), DigestOf(AsBytes("second pass"))},
          .part = {0, 0, 200, 150},
          .result = {400, 300},
          .prefilter = BilateralOptions{1.5, 20},
          .encode = {.format = ImageFormat::kJpeg}};
}

EngineFingerprint Engine() {
  return {.software = "1.2.3",
          .image = "libjpeg 2",
          .tuning = "cpu\tconv\twinograd\n",
          .device = "CPU, avx2"};
}

struct Request {
  ResultParts parts = Parts();
  EngineFingerprint engine = Engine();
  std::string Name() const { return ResultName(RequestKey(parts), engine); }
};

std::string NameAfter(const std::function<void(Request&)>& change) {
  Request request;
  change(request);
  return request.Name();
}

TEST(ResultKeyTest, IsAHexadecimalDigest) {
  EXPECT_TRUE(IsHexDigest(Request().Name()));
  EXPECT_EQ(Request().Name(), Request().Name());
}

TEST(ResultKeyTest, EachPartChangesIt) {
  const std::function<void(Request&)> changes[] = {
      [](Request&) {},
      [](Request& r) { r.parts.tenant = "shop"; },
      [](Request& r) { r.parts.source[31] ^= 1; },
      [](Request& r) { r.parts.networks[0][0] ^= 1; },
      [](Request& r) { r.parts.networks[1][0] ^= 1; },
      [](Request& r) { std::swap(r.parts.networks[0], r.parts.networks[1]); },
      [](Request& r) { r.parts.networks.pop_back(); },
      [](Request& r) { r.parts.networks.clear(); },
      [](Request& r) { r.parts.frame = 0; },
      [](Request& r) { r.parts.frame = 2; },
      [](Request& r) { r.parts.frame_is_asked = true; },
      [](Request& r) { r.parts.part.x = 1; },
      [](Request& r) { r.parts.part.y = 1; },
      [](Request& r) { r.parts.part.width = 201; },
      [](Request& r) { r.parts.part.height = 151; },
      [](Request& r) { r.parts.result.width = 401; },
      [](Request& r) { r.parts.result.height = 301; },
      [](Request& r) { std::swap(r.parts.result.width, r.parts.result.height); },
      [](Request& r) { r.parts.prefilter.reset(); },
      [](Request& r) { r.parts.prefilter->sigma_space = 1.6; },
      [](Request& r) { r.parts.prefilter->sigma_range = 21; },
      [](Request& r) { r.parts.tta = true; },
      [](Request& r) { r.parts.seamless = true; },
      [](Request& r) { r.parts.encode.format = ImageFormat::kWebp; },
      [](Request& r) { r.parts.encode.format = ImageFormat::kPng; },
      [](Request& r) { r.parts.encode.quality = 91; },
      [](Request& r) { r.parts.sample_type = SampleType::kU16; },
      [](Request& r) { r.parts.precision = Precision::kFast; },
      [](Request& r) { r.parts.alpha = AlphaMethod::kNetwork; },
      [](Request& r) { r.parts.alpha = AlphaMethod::kResample; },
      [](Request& r) { r.parts.alpha_colour = AlphaColour::kBleed; },
      [](Request& r) { r.parts.alpha_colour = AlphaColour::kKeep; },
      [](Request& r) { r.parts.keep_colours = false; },
      [](Request& r) { r.parts.keep_colours = true; },
      [](Request& r) { r.parts.metadata = MetadataPolicy::kStrip; },
      [](Request& r) { r.parts.metadata = MetadataPolicy::kStripLocation; },
      [](Request& r) { r.parts.metadata = MetadataPolicy::kIcc; },
      [](Request& r) { r.parts.fill_damage = true; },
      [](Request& r) { r.parts.warnings = {"a warning"}; },
      [](Request& r) {
        r.parts.warnings = {"a", " warning"};
      },
      [](Request& r) { r.engine.software = "1.2.4"; },
      [](Request& r) { r.engine.image = "libjpeg 3"; },
      [](Request& r) { r.engine.tuning = ""; },
      [](Request& r) { r.engine.device = "CPU, avx512"; },
      [](Request& r) { r.engine.device = ""; }};
  std::set<std::string> names;
  for (size_t i = 0; i < std::size(changes); ++i) {
    EXPECT_TRUE(names.insert(NameAfter(changes[i])).second) << i;
  }
}

TEST(ResultKeyTest, OptionsOfOtherFormatsDoNotChangeIt) {
  for (const ImageFormat format : {ImageFormat::kPng, ImageFormat::kTiff, ImageFormat::kJpeg,
                                   ImageFormat::kWebp, ImageFormat::kAvif, ImageFormat::kJxl}) {
    const auto name = [format](int quality, int compression) {
      return NameAfter([&](Request& r) {
        r.parts.encode = {.format = format, .quality = quality, .compression = compression};
      });
    };
    const bool deflates = format == ImageFormat::kPng || format == ImageFormat::kTiff;
    EXPECT_EQ(name(90, 2) == name(50, 2), deflates) << FormatName(format);
    EXPECT_EQ(name(90, 2) == name(90, 9), !deflates) << FormatName(format);
  }
}

TEST(ResultKeyTest, ThreadsDoNotChangeIt) {
  EXPECT_EQ(NameAfter([](Request& r) { r.parts.encode.threads = 4; }), Request().Name());
}

TEST(ResultKeyTest, WithoutANetworkItsOptionsDoNotChangeIt) {
  const auto bare = [](Request& r) {
    r.parts.networks.clear();
    r.engine.device.clear();
  };
  const std::string name = NameAfter(bare);
  EXPECT_EQ(name, NameAfter([&](Request& r) {
              bare(r);
              r.parts.tta = true;
              r.parts.precision = Precision::kFast;
              r.engine.tuning = "other";
            }));
}

TEST(ResultKeyTest, EqualForEveryDevice) {
  EXPECT_EQ(RequestKey(Parts()), RequestKey(Parts()));
  EXPECT_NE(ResultName(RequestKey(Parts()), Engine()), ToHex(RequestKey(Parts())));
}

TEST(ResultKeyTest, NamesTheLibrariesThatRun) {
  EXPECT_NE(ImageArithmetic().find("libwebp"), std::string::npos);
  const void* const libjpeg = dlsym(RTLD_DEFAULT, "jpeg_std_error");
  ASSERT_NE(libjpeg, nullptr);
  ASSERT_NE(BuildIdOf(libjpeg), "");
  EXPECT_NE(ImageArithmetic().find("libjpeg " + BuildIdOf(libjpeg)), std::string::npos)
      << ImageArithmetic();
  EXPECT_EQ(ImageArithmetic(), ImageArithmetic());
}

TEST(DigestTest, IsThatOfFips180) {
  EXPECT_EQ(ToHex(DigestOf(AsBytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(IsHexDigest("BA7816"));
  EXPECT_FALSE(IsHexDigest(std::string(64, '/')));
  EXPECT_FALSE(DigestFromBytes("short").has_value());
}

TEST(DigestTest, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE(Sha256().Field("ab").Field("c").Finish(), Sha256().Field("a").Field("bc").Finish());
  EXPECT_NE(Sha256().Field(0.0).Finish(), Sha256().Field(-0.0).Finish());
}

}  // namespace
}  // namespace upscaled::server
