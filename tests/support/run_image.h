// An image's tiles, run with the global average poolings of all of them first.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/pipeline/image_run.h"

namespace upscaled::test {

// `tile` of an image, with its part of the source.
inline TileTask MakeTask(const Executable& executable, const ImageView& source, const Rect& tile,
                         const MutableImageView& result, const Rect& src_rect) {
  return {std::make_shared<const TilePlan>(executable.Plan(tile, source.spec.size())),
          source.Crop(src_rect), src_rect, result.Crop(Scale(tile, executable.network().scale))};
}

// The same with no more of the source than it needs.
inline TileTask MakeTask(const Executable& executable, const Image& source, const Rect& tile,
                         Image& result) {
  return MakeTask(executable, source.view(), tile, result.mutable_view(),
                  executable.Plan(tile, source.spec().size()).input);
}

// The whole image as one tile.
inline TileTask WholeTask(const Executable& executable, const ImageView& source,
                          const MutableImageView& result) {
  const Rect whole{0, 0, source.width_px(), source.height_px()};
  return MakeTask(executable, source, whole, result, whole);
}

// `tiles` cover the image and run on one stream. With `keep` half of them have an activation cache.
inline absl::Status RunImage(Stream& stream, const Executable& executable,
                             std::vector<TileTask> tiles, bool keep = false) {
  const int64_t cached_tiles = keep ? (std::ssize(tiles) + 1) / 2 : 0;
  return ImageRun(executable, std::move(tiles), cached_tiles)
      .Run([&](std::span<const TileTask> tasks) { return stream.Run(executable, tasks); });
}

}  // namespace upscaled::test
