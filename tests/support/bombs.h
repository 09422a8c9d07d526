// Small files with a claim, or an inflated size, far above their own.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

#include "tests/support/odd_files.h"

namespace upscaled::test {

// A PNG with its end after IHDR, and a claim of 100000 x 100000 pixels.
std::string HugePng();
// A progressive JPEG of a few blocks, with 65500 x 65500 pixels in its header.
std::string HugeJpeg(std::mt19937& random);
// A JPEG of 1000 x 1000 pixels with its last scan repeated `more_scans` times.
std::string ManyScansJpeg(int more_scans, std::mt19937& random);
// Markers of 64 KiB, one after the other, and no image.
std::string MetadataJpeg(int markers);

// `file` with a chunk of compressed metadata (iCCP, zTXt or iTXt) of `bytes` inflated, before or
// after the pixels. A profile says truly how long it is.
std::string MetadataBombPng(const PngFile& file, std::string_view chunk, size_t bytes,
                            bool after_pixels = false);
// A PNG of 8 x 8 pixels with `bytes` of pixel data.
std::string PixelBombPng(size_t bytes, bool interlaced = false);

// A black lossless WebP. Each of its blocks of 4 x 4 pixels (65536 at most) has a group of Huffman
// codes of its own, with a colour cache of 2048: libwebp takes 20 KB for each.
std::string HuffmanBombWebp(Size size, bool with_transform = false);
// A lossy WebP with two opacities; the second one, taken by libwebp, is such an image.
std::string HuffmanBombAlphaWebp(Size size, std::mt19937& random);

}  // namespace upscaled::test
