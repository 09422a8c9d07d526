// Images as the PyTorch scripts write them: three int32 (channels, height, width), then one plane
// of float32 after the other.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/image/image.h"

namespace upscaled::test {

// Interleaved float samples.
inline absl::StatusOr<Image> ReadPlanesFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::array<int32_t, 3> shape = {};
  if (bytes.size() < sizeof shape) {
    return absl::NotFoundError(absl::StrCat("no planes in ", path.string()));
  }
  std::memcpy(shape.data(), bytes.data(), sizeof shape);
  const auto [channels, height, width] = shape;
  if (bytes.size() != sizeof shape + sizeof(float) * channels * height * width) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is cut short"));
  }
  Image image({width, height, channels, SampleType::kF32});
  const char* value = bytes.data() + sizeof shape;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < height; ++y) {
      float* row = image.mutable_view().row_as<float>(y);
      for (int x = 0; x < width; ++x, value += sizeof(float)) {
        std::memcpy(&row[x * channels + c], value, sizeof(float));
      }
    }
  }
  return image;
}

}  // namespace upscaled::test
