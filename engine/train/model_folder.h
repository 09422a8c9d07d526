// A trained model as a folder that the server serves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "engine/model/network.h"
#include "engine/model/repository.h"

namespace upscaled::train {

// The card's account of how the model was made.
struct ModelOrigin {
  const ModelCard* start = nullptr;  // borrowed
  int noise_level = kNoDenoise;
  std::string images;  // the folder's name
  size_t training_images = 0, held_out_images = 0;
  int64_t steps = 0;
  std::string settings;
  double lanczos_psnr_db = 0, start_psnr_db = 0, psnr_db = 0;
};

// Writes model.param, model.bin, CARD.md and, last, model.json into `folder`, whose name is the
// model's. UNAVAILABLE names the file that cannot be written.
absl::Status WriteModelFolder(const std::filesystem::path& folder, const Network& network,
                              const ModelOrigin& origin);

}  // namespace upscaled::train
