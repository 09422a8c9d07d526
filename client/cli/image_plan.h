// The output file of each image.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/find_images.h"
#include "client/upscale_client.h"

namespace upscaled::client {

// Standard input or output.
inline constexpr char kStandardStream[] = "-";

struct ImageJob {
  std::string input;
  std::string output;
  v1::ImageFormat format = v1::IMAGE_FORMAT_UNSPECIFIED;
};

struct ImagePlan {
  std::vector<ImageJob> jobs;
  std::vector<LeftOut> left_out = {};  // of a folder, or of several inputs
  std::string warning = {};            // about a file; "": none
  bool is_folder = false;
};

// `inputs` with the matching files, in order of name, in place of each pattern (*.jpg): not every
// caller's shell does so. A file of a pattern's very name is that file. NOT_FOUND for a pattern
// without a match; errors of listing.
absl::StatusOr<std::vector<std::string>> ExpandPatterns(const std::vector<std::string>& inputs);

// The plan for `-i input -o output [-f format]`.
//
// A file, or a URL's image, may go into a file or, under its own name, into a folder:
// an existing one, or one with a slash at its name's end, which is made. A folder goes into a
// folder, made if needed: all images FindImages finds in it, in order of path and with the tree
// kept. A `format` replaces extensions; two images with then the same name keep their old extension
// inside it. Without it, the output's extension tells the format, or the input when it has none. An
// image with another extension that goes into a folder gets the one of its content.
//
// INVALID_ARGUMENT when input and output do not fit together or are the same, or nothing tells the
// format; NOT_FOUND and similar errors when the input cannot be read or is a folder without images.
absl::StatusOr<ImagePlan> PlanImages(const std::string& input, const std::string& output,
                                     v1::ImageFormat format);

// INVALID_ARGUMENT if two results would share a name: images of a folder may differ only by an
// extension, or one may lack it, and several folders may hold the same name.
absl::Status CheckDistinct(const std::vector<ImageJob>& jobs);

// The plan of several inputs, patterns among them. Each goes into the folder `output` by the rules
// above. Files that are no images are left out, and a missing input becomes a failed file. One
// input is as above. INVALID_ARGUMENT also when two of them would share a result's name; NOT_FOUND
// if there is no image at all.
absl::StatusOr<ImagePlan> PlanInputs(const std::vector<std::string>& inputs,
                                     const std::string& output, v1::ImageFormat format);

}  // namespace upscaled::client
