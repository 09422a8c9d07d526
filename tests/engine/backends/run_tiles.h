// An image in tiles, to compare tilings, kernels or devices.
#pragma once

#include <vector>

#include "engine/backends/backend.h"
#include "gtest/gtest.h"
#include "tests/support/run_image.h"

namespace upscaled::test {

// The result in samples of `type`, computed in tiles of at most `tile` on one stream. Fails the
// test when a run fails.
inline Image RunTiles(Backend& backend, const Executable& executable, const Image& source,
                      Size tile, SampleType type = SampleType::kF32) {
  const Size size = source.spec().size();
  const int scale = executable.network().scale;
  Image result({size.width * scale, size.height * scale, 3, type});
  std::vector<TileTask> tasks;
  for (int y = 0; y < size.height; y += tile.height) {
    for (int x = 0; x < size.width; x += tile.width) {
      const Rect part = Intersect({x, y, tile.width, tile.height}, {0, 0, size.width, size.height});
      tasks.push_back(MakeTask(executable, source, part, result));
    }
  }
  const absl::Status status = RunImage(*backend.CreateStream(), executable, tasks);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

}  // namespace upscaled::test
