// A training as it is kept in a file, to go on from to the bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/adam.h"

namespace upscaled::train {

struct Checkpoint {
  std::string settings;  // a line: whatever the next steps depend on beside the rest
  int64_t total_steps = 0;
  Learned learned;
  std::vector<float> best;  // the average that did best on the held-out images
  double start_psnr_db = 0, best_psnr_db = 0;

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// Replaces the file as a whole. UNAVAILABLE names it, and why it cannot be written.
absl::Status WriteCheckpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// NOT_FOUND: no such file. INVALID_ARGUMENT: not a checkpoint of `parameter_count` parameters.
absl::StatusOr<Checkpoint> ReadCheckpoint(const std::filesystem::path& path,
                                          size_t parameter_count);

}  // namespace upscaled::train
