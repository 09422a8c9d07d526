// How fast the cuda backend is by the device's own clock: the copy bandwidth, then whole networks
// and each of their steps for one 1920x1080 result, images being in the device's memory already.
// Prints a line of JSON for each.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/backends/cuda/profile.h"
#include "engine/backends/cuda/tile_place.h"
#include "engine/backends/layer_profile.h"
#include "engine/base/status_macros.h"
#include "tests/bench/networks.h"

namespace upscaled {
namespace {

using nlohmann::ordered_json;

constexpr Size kResult{1920, 1080};

constexpr absl::Duration kWarmUp = absl::Milliseconds(300);

// Flushed, so that a failure or a hang leaves the measurements before it.
void PrintLine(const ordered_json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Seconds on the device of what `enqueue` enqueues on the stream, the median once it is warm. Each
// is behind another one, so that it waits in the queue when its time begins.
absl::StatusOr<double> TimeOf(const std::shared_ptr<cuda::Context>& context, cudaStream_t queue,
                              int repetitions, absl::FunctionRef<cudaError_t()> enqueue) {
  ASSIGN_OR_RETURN(const cuda::EventHandle begin, CreateEvent(context));
  ASSIGN_OR_RETURN(const cuda::EventHandle end, CreateEvent(context));
  for (const absl::Time warm = absl::Now() + kWarmUp; absl::Now() < warm;) {
    RETURN_IF_ERROR(context->Check(enqueue(), "a launch"));
    RETURN_IF_ERROR(context->Check(cudaStreamSynchronize(queue), "cudaStreamSynchronize"));
  }
  std::vector<float> milliseconds(repetitions);
  for (float& time : milliseconds) {
    RETURN_IF_ERROR(context->Check(enqueue(), "a launch"));
    RETURN_IF_ERROR(context->Check(cudaEventRecord(begin.get(), queue), "cudaEventRecord"));
    RETURN_IF_ERROR(context->Check(enqueue(), "a launch"));
    RETURN_IF_ERROR(context->Check(cudaEventRecord(end.get(), queue), "cudaEventRecord"));
    RETURN_IF_ERROR(context->Check(cudaEventSynchronize(end.get()), "cudaEventSynchronize"));
    RETURN_IF_ERROR(context->Check(cudaEventElapsedTime(&time, begin.get(), end.get()),
                                   "cudaEventElapsedTime"));
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return milliseconds[repetitions / 2] * 1e-3;
}

// Bytes read and written a second by a large copy on the device.
absl::StatusOr<double> CopyBandwidth(const std::shared_ptr<cuda::Context>& context,
                                     int repetitions) {
  constexpr size_t kBytes = size_t{1} << 30;
  ASSIGN_OR_RETURN(const cuda::StreamHandle queue, CreateStream(context));
  ASSIGN_OR_RETURN(const cuda::DeviceMemory from, AllocateDevice(context, kBytes, "a copy"));
  ASSIGN_OR_RETURN(const cuda::DeviceMemory to, AllocateDevice(context, kBytes, "a copy"));
  const auto copy = [&] {
    return cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, queue.get());
  };
  ASSIGN_OR_RETURN(const double seconds, TimeOf(context, queue.get(), repetitions, copy));
  return 2.0 * kBytes / seconds;
}

// The seconds of one of the image's global-average-pooling passes.
absl::StatusOr<double> TimeSums(const cuda::CudaExecutable& executable,
                                const cuda::PlacedTile& plan, size_t number, int repetitions) {
  const std::shared_ptr<cuda::Context>& context = executable.context();
  const Layer& pooling = executable.network().layers[executable.program().poolings[number]];
  const Rect& pooled = plan.regions[pooling.inputs[0]];
  const size_t lanes = cuda::PlaneCount(pooling.out_channels) * cuda::kPlaneChannels;
  const size_t bytes = lanes * pooled.Area() * cuda::StorageBytes(executable.precision());
  ASSIGN_OR_RETURN(const cuda::StreamHandle queue, CreateStream(context));
  ASSIGN_OR_RETURN(const cuda::DeviceMemory values, AllocateDevice(context, bytes, "a layer"));
  ASSIGN_OR_RETURN(const cuda::DeviceMemory sums, AllocateDevice(context, lanes * 8, "sums"));
  RETURN_IF_ERROR(
      context->Check(cudaMemsetAsync(values.data(), 0, bytes, queue.get()), "cudaMemsetAsync"));
  const cuda::TensorView view{.data = values.data(),
                              .rect = pooled,
                              .region = pooled,
                              .layer = plan.layers[pooling.inputs[0]],
                              .channels = pooling.out_channels};
  return TimeOf(context, queue.get(), repetitions, [&] {
    cudaError_t error = cudaSuccess;
    for (const Rect& strip : cuda::SumStrips(plan.partial_sum_rects[number])) {
      if (error != cudaSuccess) break;
      error = cuda::LaunchSumChannels(view, {reinterpret_cast<int64_t*>(sums.data()), strip}, 1,
                                      executable.precision(), queue.get());
    }
    return error;
  });
}

// With the sums of global poolings that no step adds up; of all, a profile takes means as given.
absl::StatusOr<cuda::TileProfile> ProfileImage(const cuda::CudaExecutable& executable,
                                               const cuda::TilePlace& image, int repetitions) {
  ASSIGN_OR_RETURN(cuda::TileProfile profile, cuda::ProfileTile(executable, image, repetitions));
  const std::vector<int>& poolings = executable.program().poolings;
  const cuda::PlacedTile plan =
      cuda::PlaceTile(executable.program(), executable.Plan(image.tile, image.image));
  for (size_t i = 0; i < poolings.size(); ++i) {
    if (profile.sums_added[i]) continue;
    ASSIGN_OR_RETURN(const double seconds, TimeSums(executable, plan, i, repetitions));
    profile.steps.push_back({poolings[i], "sum_channels", seconds});
    profile.compute_seconds += seconds;
  }
  return profile;
}

absl::StatusOr<ordered_json> MeasureNetwork(const std::shared_ptr<cuda::Context>& context,
                                            const std::string& model, Precision precision,
                                            int repetitions) {
  ASSIGN_OR_RETURN(const Network network, bench::LoadBenchNetwork(model));
  ASSIGN_OR_RETURN(const auto executable,
                   cuda::CudaExecutable::Create(context, network, precision, nullptr));
  const Size image{kResult.width / network.scale, kResult.height / network.scale};
  const Rect whole{0, 0, image.width, image.height};
  ASSIGN_OR_RETURN(const cuda::TileProfile profile,
                   ProfileImage(*executable, {image, whole}, repetitions));
  const Network& compiled = executable->network();
  const std::vector<Rect> regions = executable->Plan(whole, image).regions;
  double operations = 0;
  ordered_json steps = ordered_json::array();
  for (const cuda::StepTime& step : profile.steps) {
    const LayerProfile layer =
        DescribeLayer(compiled, step.layer, regions, cuda::StorageBytes(precision));
    const bool moves = step.kernel == "store_pixels" || step.kernel == "sum_channels";
    const double own_operations = moves ? 0 : layer.operations;
    operations += own_operations;
    steps.push_back({{"layer", layer.layer},
                     {"shape", layer.shape},
                     {"kernel", step.kernel},
                     {"seconds", step.seconds},
                     {"gflops", own_operations / step.seconds * 1e-9}});
  }
  return ordered_json{{"model", model},
                      {"precision", PrecisionName(precision)},
                      {"image", {image.width, image.height}},
                      {"seconds", profile.compute_seconds},
                      {"gflops", operations / profile.compute_seconds * 1e-9},
                      {"memory_mib", profile.bytes / (1 << 20)},
                      {"steps", std::move(steps)}};
}

// Whether all could be measured; what could not is a line with an error. Without the device no
// more is tried.
bool MeasureAll(const std::shared_ptr<cuda::Context>& context,
                const std::vector<std::string>& models, const std::vector<std::string>& precisions,
                int repetitions) {
  const absl::StatusOr<double> bandwidth = CopyBandwidth(context, repetitions);
  if (bandwidth.ok()) {
    PrintLine({{"copy_bytes_per_second", *bandwidth}});
  } else {
    PrintLine({{"error", bandwidth.status().message()}});
  }
  bool all = bandwidth.ok();
  for (const std::string& model : models) {
    for (const std::string& name : precisions) {
      const Precision precision = name == "fast" ? Precision::kFast : Precision::kExact;
      const absl::StatusOr<ordered_json> network =
          MeasureNetwork(context, model, precision, repetitions);
      all = all && network.ok();
      PrintLine(network.ok() ? *network
                             : ordered_json{{"model", model},
                                            {"precision", name},
                                            {"error", network.status().message()}});
      if (absl::IsUnavailable(network.status())) return false;
    }
  }
  return all;
}

}  // namespace
}  // namespace upscaled

int main(int argc, char** argv) {
  CLI::App app("Times networks on a CUDA device, step by step");
  std::string device = "cuda";
  std::vector<std::string> models = {"random:vgg_7", "random:upconv_7", "random:cunet",
                                     "random:srvgg", "random:srvgg_x4", "random:rrdb"};
  std::vector<std::string> precisions = {"fast", "exact"};
  std::vector<std::string> proven;
  int repetitions = 30;
  app.add_option("--device", device, "cuda:N, or cuda for the first")->capture_default_str();
  app.add_option("--models", models, "Weights files or random:SHAPE")->delimiter(',');
  app.add_option("--precisions", precisions, "exact, fast or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--proven", proven, "Kernels that have proven themselves: upscaled-prove")
      ->delimiter(',');
  app.add_option("--repetitions", repetitions, "Of which the median counts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto found = upscaled::cuda::FindDevice(device);
  const auto context = found.ok()
                           ? upscaled::cuda::Context::Create(*found, {.proven_kernels = proven})
                           : found.status();
  if (!context.ok()) {
    std::fprintf(stderr, "cuda-bench: %s\n", std::string(context.status().message()).c_str());
    return absl::IsUnavailable(context.status()) ? 77 : 1;
  }
  upscaled::PrintLine({{"device", upscaled::cuda::Describe(*found).description}});
  return upscaled::MeasureAll(*context, models, precisions, repetitions) ? 0 : 1;
}
