// Reading of the golden images: outputs of an independent float64 implementation for real weights.
// Deliberately without the engine's own codecs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/image/image.h"

namespace upscaled::test {

struct Golden {
  std::string model;  // relative to models/, without extension
  std::string image;  // file in inputs/, without extension
  int scale = 0;
  int pad_px = 0;
  int align_px = 0;
};

// The folder with models/ and golden/: $UPSCALED_TEST_MODELS, otherwise ../shared next to the
// sources.
std::filesystem::path SharedFolder();

// Empty when the folder is absent: the test should skip itself.
std::vector<Golden> ListGoldens();

// An 8-bit RGB image. Aborts the test program on an invalid file.
Image ReadPng(const std::filesystem::path& path);
// A float32 .npy of planes x height x width, as interleaved RGB.
Image ReadNpy(const std::filesystem::path& path);

// Largest difference of any sample of two kF32 images of one size.
float MaxAbsError(const ImageView& a, const ImageView& b);

// How two kU8 images of one size differ.
struct LevelDifference {
  int max_levels = 0;
  double equal_share = 0;
};
LevelDifference CompareLevels(const ImageView& a, const ImageView& b);

}  // namespace upscaled::test
