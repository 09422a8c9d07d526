// How fast the cuda backend is by the device's own clock: the copy bandwidth, then whole networks
// and each of their steps for one 1920x1080 result, pictures being in the device's memory already.
// Prints JSON.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/profile.h"
#include "engine/backends/layer_profile.h"
#include "engine/base/status_macros.h"
#include "engine/graph/tile_geometry.h"
#include "tests/bench/networks.h"

namespace upscaled {
namespace {

using nlohmann::ordered_json;

constexpr Size kResult{1920, 1080};

// Bytes read and written a second by a large copy on the device.
absl::StatusOr<double> CopyBandwidth(const std::shared_ptr<cuda::Context>& context) {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr int kRepetitions = 20;
  ASSIGN_OR_RETURN(const cuda::DeviceMemory from, AllocateDevice(context, kBytes, "a copy"));
  ASSIGN_OR_RETURN(const cuda::DeviceMemory to, AllocateDevice(context, kBytes, "a copy"));
  ASSIGN_OR_RETURN(const cuda::EventHandle begin, CreateEvent(context));
  ASSIGN_OR_RETURN(const cuda::EventHandle end, CreateEvent(context));
  std::vector<float> milliseconds(kRepetitions);
  for (float& time : milliseconds) {
    RETURN_IF_ERROR(context->Check(cudaEventRecord(begin.get()), "cudaEventRecord"));
    RETURN_IF_ERROR(context->Check(
        cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice), "cudaMemcpy"));
    RETURN_IF_ERROR(context->Check(cudaEventRecord(end.get()), "cudaEventRecord"));
    RETURN_IF_ERROR(context->Check(cudaEventSynchronize(end.get()), "cudaEventSynchronize"));
    RETURN_IF_ERROR(context->Check(cudaEventElapsedTime(&time, begin.get(), end.get()),
                                   "cudaEventElapsedTime"));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return 2.0 * kBytes / (milliseconds[kRepetitions / 2] * 1e-3);
}

absl::StatusOr<ordered_json> MeasureNetwork(const std::shared_ptr<cuda::Context>& context,
                                            const std::string& model, Precision precision,
                                            int repetitions) {
  ASSIGN_OR_RETURN(const Network network, bench::LoadBenchNetwork(model, ""));
  ASSIGN_OR_RETURN(const auto executable,
                   cuda::CudaExecutable::Create(context, network, precision, nullptr));
  const Size picture{kResult.width / network.scale, kResult.height / network.scale};
  const Rect whole{0, 0, picture.width, picture.height};
  ASSIGN_OR_RETURN(const cuda::TileProfile profile,
                   cuda::ProfileTile(*executable, {picture, whole}, repetitions));
  const Network& compiled = executable->network();
  const std::vector<Rect> regions = LayerRegions(compiled, picture, whole, {});
  double operations = 0;
  ordered_json steps = ordered_json::array();
  for (const cuda::StepTime& step : profile.steps) {
    const LayerProfile layer =
        DescribeLayer(compiled, step.layer, regions, cuda::StorageBytes(precision));
    const double own_operations = step.kernel == "store_pixels" ? 0 : layer.operations;
    operations += own_operations;
    steps.push_back({{"layer", layer.layer},
                     {"shape", layer.shape},
                     {"kernel", step.kernel},
                     {"seconds", step.seconds},
                     {"gflops", own_operations / step.seconds * 1e-9}});
  }
  return ordered_json{{"model", model},
                      {"precision", PrecisionName(precision)},
                      {"picture", {picture.width, picture.height}},
                      {"seconds", profile.compute_seconds},
                      {"gflops", operations / profile.compute_seconds * 1e-9},
                      {"memory_mib", profile.bytes / (1 << 20)},
                      {"steps", std::move(steps)}};
}

absl::Status Run(const std::string& device_name, const std::vector<std::string>& models,
                 const std::vector<std::string>& precisions, int repetitions) {
  ASSIGN_OR_RETURN(const cuda::Device device, cuda::FindDevice(device_name));
  ASSIGN_OR_RETURN(const auto context, cuda::Context::Create(device));
  ordered_json report{{"device", Describe(device).description}};
  ASSIGN_OR_RETURN(report["copy_bytes_per_second"], CopyBandwidth(context));
  report["networks"] = ordered_json::array();
  for (const std::string& model : models) {
    for (const std::string& precision : precisions) {
      ASSIGN_OR_RETURN(
          ordered_json network,
          MeasureNetwork(context, model, precision == "fast" ? Precision::kFast : Precision::kExact,
                         repetitions));
      report["networks"].push_back(std::move(network));
    }
  }
  std::printf("%s\n", report.dump(2).c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace upscaled

int main(int argc, char** argv) {
  CLI::App app("Times networks on a CUDA device, step by step");
  std::string device = "cuda";
  std::vector<std::string> models = {"random:vgg_7", "random:upconv_7", "random:cunet",
                                     "random:srvgg", "random:srvgg_x4", "random:rrdb"};
  std::vector<std::string> precisions = {"fast", "exact"};
  int repetitions = 30;
  app.add_option("--device", device, "cuda:N, or cuda for the first")->capture_default_str();
  app.add_option("--models", models, "Weights files or random:SHAPE")->delimiter(',');
  app.add_option("--precisions", precisions, "exact, fast or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--repetitions", repetitions, "Of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = upscaled::Run(device, models, precisions, repetitions);
  if (status.ok()) return 0;
  std::fprintf(stderr, "cuda-bench: %s\n", std::string(status.message()).c_str());
  return absl::IsUnavailable(status) ? 77 : 1;
}
