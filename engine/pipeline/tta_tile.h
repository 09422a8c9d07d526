// Test-time augmentation of one tile: the mean of the network's results for the eight flips and
// rotations of the image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/aligned_buffer.h"
#include "engine/image/image.h"
#include "engine/pipeline/dihedral.h"
#include "engine/pipeline/tile_run.h"

namespace upscaled {

// A tile in the coordinates of its image's variants, in order of Dihedral; without augmentation in
// the image's only.
struct TileVariants {
  std::vector<std::shared_ptr<const TilePlan>> plans;
  Rect input;  // the pixels of the upright image that all of them need
};
TileVariants PlanVariants(const Executable& executable, const Rect& tile, Size image, bool tta);

// An upright tile and the sources of its variants.
struct TtaTask {
  TileVariants variants;
  ImageView src;         // the pixels of variants.input
  MutableImageView dst;  // gets the rounded mean
  // One for each variant, with global average poolings; otherwise empty. Outlive the run.
  std::span<const PoolingPass> passes = {};
  // The tile is an image of its own: each variant gathers its poolings by itself, in one or more
  // runs.
  bool is_image = false;
};

// Runs one variant after the other, the next from the executor's thread of the last one: the sum
// has one order, and the memory is one variant's. Each variant is a tile of the whole transformed
// image, so the mean does not depend on where tiles lie. Reused from tile to tile.
class TtaTile {
 public:
  // For tiles of up to these sizes in source pixels: Start allocates nothing large.
  TtaTile(Size tile, Size input, int scale, SampleType source_type);

  // Computes the tasks, at least one, one after the other; only the first counts for the progress,
  // if at all. `finished` is called when nobody uses the tasks' pixels or this object any more;
  // whether it went well is the run's status.
  void Start(TileRun& run, const std::shared_ptr<const Executable>& executable,
             std::vector<TtaTask> tasks, std::function<void()> finished,
             TileRun::Progress progress = TileRun::Progress::kCounts);

  // Bytes allocated by the constructor.
  static size_t Bytes(Size tile, Size input, int scale, SampleType source_type);

 private:
  void StartTask();
  void SubmitVariant();
  void Finish();
  void AddToSum();
  void WriteMean() const;

  TileRun* run_ = nullptr;
  std::shared_ptr<const Executable> executable_;
  std::vector<TtaTask> tasks_;
  size_t next_task_ = 0;
  TtaTask task_;
  std::function<void()> finished_;
  TileRun::Progress progress_ = TileRun::Progress::kNone;  // of the task
  int variant_ = 0;
  AlignedBuffer<uint8_t> source_;  // the transformed source pixels, RGB
  AlignedBuffer<float> result_;    // the transformed result, RGB
  AlignedBuffer<float> sum_;       // upright, RGB
};

// The colour of `src` (kU8 or kU16) as a variant sees it, to `dst` without gaps.
void CopyTransformed(const ImageView& src, Dihedral variant, uint8_t* dst);

}  // namespace upscaled
