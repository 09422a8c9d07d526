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

// Makes the rounds of kept colours after `result`.
std::vector<std::unique_ptr<KeptColours>> KeepColours(int rounds, RowSource& result,
                                                      absl::FunctionRef<RowSource&(int)> source) {
  std::vector<std::unique_ptr<KeptColours>> kept;
  RowSource* rows = &result;
  for (int i = 0; i < rounds; ++i)
    rows = kept.emplace_back(std::make_unique<KeptColours>(*rows, source(i))).get();
  return kept;
}

}  // namespace

Corrections::Corrections(const PassSpec& pass, RowSource& result,
                         absl::FunctionRef<RowSource&(int)> source)
    : kept_(KeepColours(RoundsOf(pass), result, source)),
      gray_(kept_.empty() ? result : *kept_.back(), source(RoundsOf(pass)), pass.result_type) {}

int Corrections::SourceReaders(const PassSpec& pass) { return RoundsOf(pass) + 1; }

CorrectedPass::CorrectedPass(const PassSpec& pass, RowSource& source, TileRun& run)
    : source_(source, 1 + Corrections::SourceReaders(pass), CorrectedPassReadAheadRows(pass)),
      pass_(MakePass(NetworkOf(pass), source_.reader(0), run)),
      corrections_(pass, *pass_,
                   [this](int reader) -> RowSource& { return source_.reader(1 + reader); }) {}

int CorrectedPassReadAheadRows(const PassSpec& pass) {
  const int corrections = RoundsOf(pass) * (kKeptColoursBorderPx + 1) + kGrayAreasBorderPx + 1;
  return std::min(pass.source.height_px, MaxReadAheadRows(pass) + corrections);
}

int CorrectionBorderPx(const PassSpec& pass) {
  return std::max(RoundsOf(pass) * kKeptColoursBorderPx, kGrayAreasBorderPx);
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
