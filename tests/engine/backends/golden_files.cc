#include "tests/engine/backends/golden_files.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "nlohmann/json.hpp"

namespace upscaled::test {
namespace {

[[noreturn]] void Abort(const std::filesystem::path& path, const char* why) {
  std::fprintf(stderr, "%s: %s\n", path.c_str(), why);
  std::abort();
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Abort(path, "cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::filesystem::path SharedFolder() {
  const char* folder = std::getenv("UPSCALED_TEST_MODELS");
  return folder != nullptr ? folder : UPSCALED_SHARED_FOLDER;
}

std::vector<Golden> ListGoldens() {
  const std::filesystem::path index = SharedFolder() / "golden" / "index.json";
  if (!std::filesystem::exists(index)) return {};
  std::vector<Golden> goldens;
  for (const auto& entry : nlohmann::json::parse(ReadAll(index))) {
    goldens.push_back(
        {entry["model"], entry["input"], entry["scale"], entry["pad"], entry["align"]});
  }
  return goldens;
}

Image ReadPng(const std::filesystem::path& path) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&png, path.c_str()) == 0) Abort(path, png.message);
  png.format = PNG_FORMAT_RGB;
  Image image({static_cast<int>(png.width), static_cast<int>(png.height), 3, SampleType::kU8});
  uint8_t* pixels = image.mutable_view().data;
  if (png_image_finish_read(&png, nullptr, pixels, 0, nullptr) == 0) Abort(path, png.message);
  return image;
}

Image ReadNpy(const std::filesystem::path& path) {
  const std::string bytes = ReadAll(path);
  constexpr size_t kPreamble = 10;  // magic, version, length of the header
  if (bytes.size() < kPreamble || bytes.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) != 0) {
    Abort(path, "is no .npy of version 1");
  }
  const size_t header_bytes = static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  const std::string header = bytes.substr(kPreamble, header_bytes);
  int planes = 0, height = 0, width = 0;
  const size_t shape = header.find("(");
  if (header.find("<f4") == std::string::npos || shape == std::string::npos ||
      std::sscanf(header.c_str() + shape, "(%d, %d, %d)", &planes, &height, &width) != 3 ||
      planes != 3 || bytes.size() != kPreamble + header_bytes + size_t{12} * height * width) {
    Abort(path, "is not float32 of 3 planes");
  }
  Image image({width, height, 3, SampleType::kF32});
  const char* data = bytes.data() + kPreamble + header_bytes;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x, data += sizeof(float)) {
        std::memcpy(image.mutable_view().row_as<float>(y) + 3 * x + c, data, sizeof(float));
      }
    }
  }
  return image;
}

float MaxAbsError(const ImageView& a, const ImageView& b) {
  float max_error = 0;
  for (int y = 0; y < a.height_px(); ++y) {
    for (int i = 0; i < 3 * a.width_px(); ++i) {
      const float error = std::abs(a.row_as<float>(y)[i] - b.row_as<float>(y)[i]);
      if (!(error <= max_error)) max_error = error;  // a NaN stays
    }
  }
  return max_error;
}

LevelDifference CompareLevels(const ImageView& a, const ImageView& b) {
  LevelDifference difference;
  int64_t equal = 0;
  for (int y = 0; y < a.height_px(); ++y) {
    for (int i = 0; i < 3 * a.width_px(); ++i) {
      const int levels = std::abs(int{a.row(y)[i]} - int{b.row(y)[i]});
      difference.max_levels = std::max(difference.max_levels, levels);
      equal += levels == 0;
    }
  }
  difference.equal_share =
      static_cast<double>(equal) / (3.0 * a.width_px() * static_cast<double>(a.height_px()));
  return difference;
}

}  // namespace upscaled::test
