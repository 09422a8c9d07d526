// A plugin with a GPU, "cuda:0", and kernels new to all devices. Results are black. Forced kernels
// do as their names say: good, wrong, slow, hangs, crashes. With STUB_HANGS in the environment the
// device does not answer after its first run.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/layer_profile.h"
#include "engine/backends/plugin.h"
#include "engine/graph/tile_plan.h"

namespace upscaled {
namespace {

std::atomic<bool> no_answer = false;

[[noreturn]] void Hang() {
  while (true) pause();
}

class StubExecutable final : public Executable {
 public:
  StubExecutable(Network network, Precision precision)
      : network_(std::move(network)), precision_(precision) {}

  const Network& network() const override { return network_; }
  Precision precision() const override { return precision_; }
  size_t WorkspaceBytes(Size /*tile*/) const override { return 1; }
  size_t WeightBytes() const override { return 1; }
  Size PreferredTile() const override { return {256, 256}; }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    return PlanTile(network_, image, tile);
  }

  const Network network_;
  const Precision precision_;
};

class StubStream final : public Stream {
 public:
  explicit StubStream(std::string kernel) : kernel_(std::move(kernel)) {}

  absl::Status Run(const Executable& /*executable*/, std::span<const TileTask> tiles) override {
    static std::atomic<bool> has_run = false;
    if (std::getenv("STUB_HANGS") != nullptr && has_run.exchange(true)) no_answer = true;
    if (kernel_ == "hangs" || no_answer) Hang();
    if (kernel_ == "crashes") std::abort();
    for (const TileTask& task : tiles) {
      const ImageSpec spec{task.dst.width_px(), task.dst.height_px(), task.dst.spec.channels,
                           task.dst.spec.type};
      for (int y = 0; y < spec.height_px; ++y) {
        std::memset(task.dst.row(y), 0, spec.width_px * spec.pixel_bytes());
      }
      if (kernel_ == "wrong") task.dst.row_as<float>(0)[0] = 0.25f;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& /*task*/) override {
    const double seconds = kernel_ == "slow" ? 2e-3 : kernel_ == "good" ? 5e-4 : 1e-3;
    return std::vector<LayerProfile>(executable.network().layers.size(), {.seconds = seconds});
  }

 private:
  const std::string kernel_;  // forced; "": the shipped ones
};

class StubBackend final : public Backend {
 public:
  explicit StubBackend(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string_view name() const override { return "cuda:0"; }
  std::string description() const override { return "a stub"; }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    return std::make_shared<StubExecutable>(network, precision);
  }
  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<StubStream>(kernel_); }
  int StreamCount() const override { return 1; }

 private:
  const std::string kernel_;
};

// STUB_DRIVER stands for the driver.
PluginDevices Enumerate() {
  const char* const driver = std::getenv("STUB_DRIVER");
  return {{{.name = "cuda:0",
            .description = std::string("a stub, driver of CUDA ") + (driver ? driver : "1"),
            .unproven_kernels = {"crashes", "good", "hangs", "slow", "wrong"}}},
          {}};
}

absl::StatusOr<std::unique_ptr<Backend>> Create(std::string_view /*device*/,
                                                const BackendOptions& options) {
  if (no_answer) Hang();
  return std::make_unique<StubBackend>(options.kernel);
}

}  // namespace
}  // namespace upscaled

extern "C" __attribute__((visibility("default"))) const upscaled::BackendPlugin*
UpscaledBackendPlugin() {
  static const upscaled::BackendPlugin plugin = {upscaled::PluginAbi(), &upscaled::Enumerate,
                                                 &upscaled::Create};
  return &plugin;
}
