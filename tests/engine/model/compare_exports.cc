// Loads every network.onnx below a folder and compares the reference's result with the one that
// lies beside it (see exported_networks.py). Prints a line for each: its name, the largest
// difference as a part of the largest value, or why it does not load.
//
//     compare_exports FOLDER
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/backends/reference/reference_backend.h"
#include "engine/base/status_macros.h"
#include "engine/model/loader.h"
#include "tests/support/planes_file.h"
#include "tests/support/run_image.h"

namespace upscaled {
namespace {

using std::filesystem::path;

constexpr float kTolerance = 1e-4f;

absl::StatusOr<float> Difference(const path& folder) {
  ASSIGN_OR_RETURN(const Network network, LoadNetworkFile(folder / "network.onnx"));
  ASSIGN_OR_RETURN(const Image source, test::ReadPlanesFile(folder / "image.planes"));
  ASSIGN_OR_RETURN(const Image expected, test::ReadPlanesFile(folder / "result.planes"));
  ASSIGN_OR_RETURN(const auto backend, CreateReferenceBackend({}));
  ASSIGN_OR_RETURN(const auto executable, backend->Compile(network, Precision::kExact));
  const Size size = source.spec().size();
  Image result({size.width * network.scale, size.height * network.scale, 3, SampleType::kF32});
  if (result.spec() != expected.spec()) {
    return absl::InvalidArgumentError("gives another size than expected");
  }
  RETURN_IF_ERROR(
      test::RunImage(*backend->CreateStream(), *executable,
                     {test::WholeTask(*executable, source.view(), result.mutable_view())}));
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
int CompareAll(const path& parent) {
  std::vector<path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(parent)) {
    if (std::filesystem::exists(entry.path() / "network.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  int failures = 0;
  for (const path& folder : folders) {
    const absl::StatusOr<float> difference = Difference(folder);
    const bool same = difference.ok() && *difference <= kTolerance;
    if (!same) ++failures;
    const std::string result =
        difference.ok() ? std::to_string(*difference) : std::string(difference.status().message());
    std::printf("%s %s %s\n", same ? "ok  " : "FAIL", folder.filename().c_str(), result.c_str());
  }
  std::printf("%zu networks, %d failures\n", folders.size(), failures);
  return folders.empty() ? 1 : failures;
}

}  // namespace
}  // namespace upscaled

int main(int, char** argv) { return upscaled::CompareAll(argv[1]) == 0 ? 0 : 1; }
