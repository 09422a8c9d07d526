// A trained model as a folder for the server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/ncnn_exporter.h"
#include "engine/model/network.h"
#include "engine/model/repository.h"

namespace upscaled::train {

// A network of the start, unchanged in the new model.
struct KeptNetwork {
  int scale = 2;
  int noise_level = kNoDenoise;
  int pad_px = 0, align_px = 1;
  NcnnFilePair files;
};

// All networks of `card` but `trained`, one of its variants. Errors name the variant not readable
// or writable as ncnn's files.
absl::StatusOr<std::vector<KeptNetwork>> KeepOtherNetworks(const ModelCard& card,
                                                           const ModelVariant& trained);

// The card's account of how the model was made.
struct ModelOrigin {
  const ModelCard* start = nullptr;  // borrowed
  int noise_level = kNoDenoise;
  std::vector<KeptNetwork> kept;
  std::string images;  // the folder's name
  size_t training_images = 0, held_out_images = 0;
  int64_t steps = 0;
  std::string settings;
  double lanczos_psnr_db = 0, start_psnr_db = 0, psnr_db = 0;
};

// Writes the networks, CARD.md and, last, model.json into `folder`; its name is the model's. The
// trained network is model.param with model.bin. The model has the start's precisions. UNAVAILABLE:
// a file cannot be written; names it.
absl::Status WriteModelFolder(const std::filesystem::path& folder, const Network& network,
                              const ModelOrigin& origin);

}  // namespace upscaled::train
