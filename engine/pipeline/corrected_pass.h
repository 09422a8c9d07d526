// A network over an image of RGB or RGBA, with its result corrected by its source.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/gray_areas.h"
#include "engine/pipeline/kept_colours.h"
#include "engine/pipeline/pass_rows.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/shared_rows.h"
#include "engine/pipeline/stage.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// The rows of a network's result, corrected by its source.
class Corrections final : public RowSource {
 public:
  // Corrections read the source by themselves: `source` gives rows for each of SourceReaders(pass).
  // `result` has the samples of UncorrectedResult(pass). All must outlive it.
  Corrections(const PassSpec& pass, RowSource& result,
              absl::FunctionRef<RowSource&(int reader)> source);

  static int SourceReaders(const PassSpec& pass);

  const ImageSpec& spec() const override { return gray_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override { return gray_.ReadRows(rows); }

 private:
  std::vector<std::unique_ptr<KeptColours>> kept_;  // one for each round
  GrayAreas gray_;
};

class CorrectedPass final : public RowSource {
 public:
  // As NetworkPass.
  CorrectedPass(const PassSpec& pass, RowSource& source, TileRun& run);

  const ImageSpec& spec() const override { return corrections_.spec(); }
  absl::Status ReadRows(MutableImageView rows) override { return corrections_.ReadRows(rows); }
  // Has the first tiles run before there is a reader of their rows.
  absl::Status Begin() { return pass_->SubmitBandsAhead(); }

 private:
  SharedRows source_;  // for the network and the corrections
  const std::unique_ptr<PassRows> pass_;
  Corrections corrections_;
};

// CorrectedPass as a stage; planning it takes no longer for many tiles.
Stage PlanCorrectedPass(const PassSpec& pass);

// How far around its place a corrected pixel depends on the source and on the network's result.
int CorrectionBorderPx(const PassSpec& pass);
// How far around its place a colour of the result depends on colours of the source.
int ColourBorderPx(const PassSpec& pass);
// The network's own result.
ImageSpec UncorrectedResult(const PassSpec& pass);
// Bound on the memory of its corrections, apart from memory that grows with the pass's tiles.
size_t CorrectionBytes(const PassSpec& pass);
// Bound on the source rows read beyond the last one with a result row read so far.
int CorrectedPassReadAheadRows(const PassSpec& pass);

}  // namespace upscaled
