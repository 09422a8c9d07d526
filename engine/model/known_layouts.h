// Models without a card, described by their file names, as well-known projects publish them.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/repository.h"

namespace upscaled {

enum class FileNames {
  kOfFolder,  // all of the layouts, some of which have the folder name the model
  kOwn,       // only those that name the model themselves
};

// Returns the cards that the folder's file names amount to; none when no name is known. Known are
//   waifu2x's: scale2.0x_model, noise1_scale2.0x_model, noise1_model (.param with .bin, or .json);
//   realcugan's: up2x-conservative, up3x-denoise2x, up2x-no-denoise (.param with .bin);
//   realesrgan's: realesr-animevideov3-x2 and -x3, -x4, realesrgan-x4plus, realesrgan-x4plus-anime
//   and others of that pattern (.param with .bin).
// The files of the first two are variants of one model, named as the folder; realesrgan keeps all
// its models in one folder, each named as its files. NAME.model.json in the folder adds to a
// model's files, as next to a bare file; errors of ReadCardBeside.
absl::StatusOr<std::vector<ModelCard>> RecogniseFolder(const std::filesystem::path& folder,
                                                       FileNames names);

// Returns kOfFolder for a folder with several files of the folder's name, so a directory of models
// may be such a model itself; otherwise kOwn. Errors of reading the folder.
absl::StatusOr<FileNames> NamesInDirectory(const std::filesystem::path& directory);

// Returns whether a file has such a name, so it is no model of its own.
bool IsKnownFile(const std::filesystem::path& file, FileNames names);

}  // namespace upscaled
