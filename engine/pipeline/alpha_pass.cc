#include "engine/pipeline/alpha_pass.h"

#include <algorithm>
#include <memory>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/image/convert.h"
#include "engine/pipeline/network_pass.h"
#include "engine/pipeline/row_spec.h"

namespace upscaled {
namespace {

constexpr int kRgbaChannels = kRgbChannels + 1;

// The pass to run twice: over colours, and over alpha.
PassSpec OfRgb(PassSpec pass) {
  pass.source.channels = kRgbChannels;
  pass.result_type = SampleType::kU16;
  return pass;
}

int ReadAheadRows(const PassSpec& pass) {
  return CorrectedPassReadAheadRows(OfRgb(pass)) + kFlatAlphaBorderPx + 1;
}

ImageSpec WithType(ImageSpec spec, SampleType type) {
  spec.type = type;
  return spec;
}

template <typename T>
void PickChannels(const ImageView& from, const std::array<int, kRgbChannels>& channels, T* to) {
  const T* pixel = from.row_as<T>(0);
  for (int x = 0; x < from.width_px(); ++x, pixel += kRgbaChannels) {
    for (const int channel : channels) *to++ = pixel[channel];
  }
}

}  // namespace

ChannelsAsRgb::ChannelsAsRgb(RowSource& source, std::array<int, kRgbChannels> channels)
    : source_(source),
      spec_{source.spec().width_px, source.spec().height_px, kRgbChannels, source.spec().type},
      channels_(channels),
      row_(OneRow(source.spec())) {
  UPSCALED_CHECK(source.spec().channels == kRgbaChannels);
}

absl::Status ChannelsAsRgb::ReadRows(MutableImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y) {
    RETURN_IF_ERROR(source_.ReadRows(row_.mutable_view()));
    if (spec_.type == SampleType::kU8) {
      PickChannels(row_.view(), channels_, rows.row_as<uint8_t>(y));
    } else {
      PickChannels(row_.view(), channels_, rows.row_as<uint16_t>(y));
    }
  }
  return absl::OkStatus();
}

AlphaPass::AlphaPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : spec_(PassResult(pass)),
      source_(source, kReaders, ReadAheadRows(pass)),
      colour_source_(source_.reader(kColours), {0, 1, 2}),
      alpha_source_(source_.reader(kComputedAlpha), {3, 3, 3}),
      colours_(OfRgb(pass), colour_source_, run),
      computed_alpha_(OfRgb(pass), alpha_source_, run),
      alpha_(computed_alpha_, source_.reader(kFlatAlpha)),
      colour_row_(OneRow(colours_.spec())),
      alpha_row_(OneRow(alpha_.spec())),
      row_(OneRow(WithType(spec_, SampleType::kU16))) {}

absl::Status AlphaPass::ReadRows(MutableImageView rows) {
  for (int y = 0; y < rows.height_px(); ++y) {
    // The tiles of alpha need not wait until those of colours are through.
    RETURN_IF_ERROR(colours_.Begin());
    RETURN_IF_ERROR(computed_alpha_.Begin());
    RETURN_IF_ERROR(colours_.ReadRows(colour_row_.mutable_view()));
    RETURN_IF_ERROR(alpha_.ReadRows(alpha_row_.mutable_view()));
    const uint16_t* colour = colour_row_.view().row_as<uint16_t>(0);
    const uint16_t* alpha = alpha_row_.view().row_as<uint16_t>(0);
    uint16_t* pixel = row_.mutable_view().row_as<uint16_t>(0);
    for (int x = 0; x < spec_.width_px; ++x, colour += kRgbChannels, pixel += kRgbaChannels) {
      std::copy_n(colour, kRgbChannels, pixel);
      pixel[kRgbChannels] = alpha[x];
    }
    ConvertPixels(row_.view(), rows.Crop({0, y, spec_.width_px, 1}));
  }
  return absl::OkStatus();
}

Stage PlanAlphaPass(const PassSpec& pass) {
  const Stage colours = PlanCorrectedPass(OfRgb(pass));
  const ImageSpec result = PassResult(pass);
  Stage stage;
  stage.source = pass.source;
  stage.result = result;
  stage.border_px = std::max(colours.border_px, kFlatAlphaBorderPx);
  // The rows held at a time: two of the source, and of the result its parts and itself.
  const size_t rows = 2 * ImageBytes(OneRow(pass.source)) +
                      2 * ImageBytes(OneRow(WithType(result, SampleType::kU16)));
  stage.memory_bytes = 2 * colours.memory_bytes +
                       SharedRows::Bytes(pass.source, ReadAheadRows(pass)) +
                       FlatAlpha::Bytes(pass.source, pass.executable->network().scale) + rows;
  stage.make = [pass](RowSource& source, TileRun& run) {
    return std::make_unique<AlphaPass>(pass, source, run);
  };
  return stage;
}

}  // namespace upscaled
