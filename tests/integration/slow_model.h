// A model with seconds of work.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/temp_folder.h"

namespace upscaled::test {

// A model of the repository at `repository` with a first tile of seconds on the reference device.
inline void WriteSlowModel(const std::filesystem::path& repository, const std::string& name) {
  constexpr int kChannels = 256, kLayers = 4;
  std::string layers =
      absl::StrCat("Input in 0 1 in\n", "Convolution first 1 1 in c0 0=", kChannels,
                   " 1=3 5=1 6=", 3 * kChannels * 9, "\n");
  size_t weights = 3 * kChannels * 9 + kChannels;
  for (int i = 0; i < kLayers; ++i) {
    const int outputs = i + 1 < kLayers ? kChannels : 12;
    absl::StrAppend(&layers, "Convolution conv", i, " 1 1 c", i, " c", i + 1, " 0=", outputs,
                    " 1=3 5=1 6=", kChannels * outputs * 9, "\n");
    weights += static_cast<size_t>(kChannels * outputs * 9 + outputs);
  }
  absl::StrAppend(&layers, "PixelShuffle shuffle 1 1 c", kLayers, " out 0=2\n");
  const int count = kLayers + 3;
  const std::filesystem::path folder = repository / name;
  client::WriteText(folder / "scale2.0x_model.param",
                    absl::StrCat("7767517\n", count, " ", count, "\n", layers));
  const size_t tags = kLayers + 1;  // one before the weights of each layer; 0: floats
  client::WriteText(folder / "scale2.0x_model.bin", std::string(4 * (weights + tags), '\0'));
}

}  // namespace upscaled::test
