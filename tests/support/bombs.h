// Small files that claim, or inflate to, far more than they hold.
#pragma once

#include <cstddef>
#include <random>
#include <string>

#include "tests/support/odd_files.h"

namespace upscaled::test {

// A PNG that ends after IHDR, which claims 100000 x 100000 pixels.
std::string HugePng();
// A progressive JPEG of a few blocks, whose header claims 65500 x 65500 pixels.
std::string HugeJpeg(std::mt19937& random);
// A JPEG of 1000 x 1000 pixels that repeats its last scan `more_scans` times.
std::string ManyScansJpeg(int more_scans, std::mt19937& random);
// Markers of 64 KiB, one after the other, and no picture.
std::string MetadataJpeg(int markers);

// `file` with compressed text (zTXt and iTXt) that inflates to `bytes` each.
std::string TextBombPng(const PngFile& file, size_t bytes);
// `file` with a colour profile (iCCP) that says truly that it inflates to `bytes`.
std::string ProfileBombPng(const PngFile& file, size_t bytes);
// A PNG of 8 x 8 pixels whose pixel data go on to `bytes`.
std::string PixelBombPng(size_t bytes);

}  // namespace upscaled::test
