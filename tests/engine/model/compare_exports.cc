// Loads every network.onnx or network.pth below a folder, and compares a device's result with the
// expected one next to it (see exported_networks.py), for the image as one tile and as two. Prints
// a line for each network: its name, and the largest difference as a part of the largest value, or
// why it does not load.
//
//     compare_exports FOLDER DEVICE
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/backend_list.h"
#include "engine/base/status_macros.h"
#include "engine/model/loader.h"
#include "tests/support/planes_file.h"
#include "tests/support/run_image.h"
#include "tests/support/test_image.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr float kTolerance = 1e-4f;

// The folder's network; empty if it has none.
path NetworkOf(const path& folder) {
  for (const char* name : {"network.onnx", "network.pth"}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  return {};
}

absl::StatusOr<Image> Run(Backend& backend, const Executable& executable, const Image& source,
                          const std::vector<Rect>& tiles) {
  const int scale = executable.network().scale;
  const Size size = source.spec().size();
  Image result({size.width * scale, size.height * scale, 3, SampleType::kF32});
  std::vector<TileTask> tasks;
  for (const Rect& tile : tiles) tasks.push_back(test::MakeTask(executable, source, tile, result));
  RETURN_IF_ERROR(test::RunImage(*backend.CreateStream(), executable, std::move(tasks)));
  return result;
}

absl::StatusOr<float> Difference(const path& folder, const std::string& device) {
  ASSIGN_OR_RETURN(const Network network, LoadNetworkFile(NetworkOf(folder)));
  ASSIGN_OR_RETURN(const Image source, test::ReadPlanesFile(folder / "image.planes"));
  ASSIGN_OR_RETURN(const Image expected, test::ReadPlanesFile(folder / "result.planes"));
  ASSIGN_OR_RETURN(const auto backend, CreateBackend(device, {.threads = 1}));
  ASSIGN_OR_RETURN(const auto executable, backend->Compile(network, Precision::kExact));
  const auto [width, height] = source.spec().size();
  ASSIGN_OR_RETURN(const Image result, Run(*backend, *executable, source, {{0, 0, width, height}}));
  if (result.spec() != expected.spec()) {
    return absl::InvalidArgumentError("gives another size than expected");
  }
  const int left = width / 3;
  ASSIGN_OR_RETURN(const Image tiled, Run(*backend, *executable, source,
                                          {{0, 0, left, height}, {left, 0, width - left, height}}));
  if (!test::SameImages(tiled.view(), result.view())) {
    return absl::InternalError("gives other bytes in tiles");
  }
  float most = 0, largest = 1;
  for (int y = 0; y < result.spec().height_px; ++y) {
    for (int i = 0; i < result.spec().width_px * 3; ++i) {
      const float value = expected.view().row_as<float>(y)[i];
      const float difference = std::abs(result.view().row_as<float>(y)[i] - value);
      // Written so that a NaN is a difference.
      if (!(difference <= most)) most = difference;
      largest = std::max(largest, std::abs(value));
    }
  }
  return most / largest;
}

// The number of networks that do not load or differ by more than the tolerance.
int CompareAll(const path& parent, const std::string& device) {
  std::vector<path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (!NetworkOf(entry.path()).empty()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  int failures = 0;
  for (const path& folder : folders) {
    const absl::StatusOr<float> difference = Difference(folder, device);
    const bool same = difference.ok() && *difference <= kTolerance;
    if (!same) ++failures;
    const std::string result =
        difference.ok() ? std::to_string(*difference) : std::string(difference.status().message());
    std::printf("%s %s %s\n", same ? "ok  " : "FAIL", folder.filename().c_str(), result.c_str());
  }
  std::printf("%s: %zu networks, %d failures\n", device.c_str(), folders.size(), failures);
  return folders.empty() ? 1 : failures;
}

}  // namespace
}  // namespace upscaled

int main(int, char** argv) { return upscaled::CompareAll(argv[1], argv[2]) == 0 ? 0 : 1; }
