// A network over an image of RGBA. Alpha is computed as a gray image of its own.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/corrected_pass.h"
#include "engine/pipeline/flat_alpha.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/shared_rows.h"
#include "engine/pipeline/stage.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// Three channels of RGBA as RGB.
class ChannelsAsRgb final : public RowSource {
 public:
  // `source` must outlive it.
  ChannelsAsRgb(RowSource& source, std::array<int, kRgbChannels> channels);

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  RowSource& source_;
  const ImageSpec spec_;
  const std::array<int, kRgbChannels> channels_;
  Image row_;
};

// Both images have tiles in flight at a time. Where alpha is flat its tiles are spared, as those of
// colours are.
class AlphaPass final : public RowSource {
 public:
  // As NetworkPass, the source being RGBA.
  AlphaPass(const PassSpec& pass, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override;

 private:
  // The readers of the source.
  enum Reader { kColours, kComputedAlpha, kFlatAlpha, kReaders };

  const ImageSpec spec_;
  SharedRows source_;
  ChannelsAsRgb colour_source_, alpha_source_;
  CorrectedPass colours_, computed_alpha_;
  FlatAlpha alpha_;
  Image colour_row_, alpha_row_, row_;
};

// AlphaPass as a stage; planning it takes no longer for many tiles.
Stage PlanAlphaPass(const PassSpec& pass);

}  // namespace upscaled
