#include "engine/pipeline/corrected_pass.h"

#include <algorithm>
#include <memory>

#include "engine/pipeline/network_pass.h"

namespace upscaled {
namespace {

// The network gives 16 bits if arithmetic follows.
PassSpec NetworkOf(PassSpec pass) {
  if (pass.keeps_colours) pass.result_type = SampleType::kU16;
  return pass;
}

int RoundsOf(const PassSpec& pass) { return pass.keeps_colours ? kKeptColoursRounds : 0; }

}  // namespace

CorrectedPass::CorrectedPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : source_(source, kKept + RoundsOf(pass), CorrectedPassReadAheadRows(pass)),
      pass_(MakePass(NetworkOf(pass), source_.reader(kNetwork), run)),
      gray_(KeepColours(RoundsOf(pass)), source_.reader(kGray), pass.result_type) {}

RowSource& CorrectedPass::KeepColours(int rounds) {
  RowSource* rows = pass_.get();
  for (int i = 0; i < rounds; ++i) {
    rows =
        kept_.emplace_back(std::make_unique<KeptColours>(*rows, source_.reader(kKept + i))).get();
  }
  return *rows;
}

int CorrectedPassReadAheadRows(const PassSpec& pass) {
  const int corrections = RoundsOf(pass) * (kKeptColoursBorderPx + 1) + kGrayAreasBorderPx + 1;
  return std::min(pass.source.height_px, MaxReadAheadRows(pass) + corrections);
}

int ColourBorderPx(const PassSpec& pass) {
  return std::max(pass.reach.halo_px() + RoundsOf(pass) * kKeptColoursBorderPx, kGrayAreasBorderPx);
}

ImageSpec UncorrectedResult(const PassSpec& pass) { return PassResult(NetworkOf(pass)); }

size_t CorrectionBytes(const PassSpec& pass) {
  const ImageSpec result = UncorrectedResult(pass);
  return GrayAreas::Bytes(pass.source, result) +
         static_cast<size_t>(RoundsOf(pass)) * KeptColours::Bytes(pass.source, result);
}

Stage PlanCorrectedPass(const PassSpec& pass) {
  Stage stage = PlanPass(NetworkOf(pass));
  stage.memory_bytes +=
      SharedRows::Bytes(pass.source, CorrectedPassReadAheadRows(pass)) + CorrectionBytes(pass);
  stage.border_px = std::max(stage.border_px, ColourBorderPx(pass));
  stage.result.type = pass.result_type;
  stage.make = [pass](RowSource& rows, TileRun& run) {
    return std::make_unique<CorrectedPass>(pass, rows, run);
  };
  return stage;
}

}  // namespace upscaled
