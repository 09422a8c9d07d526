// The results of a network for areas of one repeated block of pixels: computed once for each block,
// on a small image of it, and copied to wherever such areas lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/image/image.h"
#include "engine/pipeline/pass_spec.h"
#include "engine/pipeline/small_image.h"
#include "engine/pipeline/tile_run.h"
#include "engine/pipeline/tta_tile.h"

namespace upscaled {

// The result of one block.
class FlatResult {
 public:
  FlatResult(const PassSpec& pass, const SmallImage& small);

  // Its block, and the last band with a use for it.
  bool IsOf(const ImageView& block) const;
  int last_band = -1;

  // Makes it the result of this block, from a copy. Not while it is being computed.
  void Reset(const ImageView& block);
  // Computes the result, once; `finished` is called as by TtaTile::Start.
  void Compute(TileRun& run, std::function<void()> finished);
  bool is_begun() const { return begun_; }
  // Copies the result of `area`, in pixels of the large image's source, to `dst`. Alpha is left
  // undefined. Once computed.
  void CopyTo(const Rect& area, const MutableImageView& dst) const;

  static size_t Bytes(const PassSpec& pass, const SmallImage& small);

 private:
  std::shared_ptr<const Executable> executable_;
  SmallImage small_;
  int block_px_;
  int scale_;
  bool begun_ = false;
  bool empty_ = true;
  Image source_;
  Image result_;
  std::optional<TtaTile> tta_;
};

// The results of one pass, few enough to be held. Made when they are first needed.
class FlatResults {
 public:
  FlatResults(const PassSpec& pass, const SmallImage& small) : pass_(pass), small_(small) {}

  // The result of `block` for `band`, or null when all are used by bands from `oldest_band` on.
  FlatResult* Find(const ImageView& block, int band, int oldest_band);

  static size_t Bytes(const PassSpec& pass, const SmallImage& small);

 private:
  const PassSpec& pass_;
  const SmallImage small_;
  std::vector<std::unique_ptr<FlatResult>> results_;
};

}  // namespace upscaled
