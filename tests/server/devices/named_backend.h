// A device with a name and with a given answer to Compile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "engine/backends/backend.h"
#include "tests/support/fake_executable.h"

namespace upscaled::test {

// Needs `halo_px` source pixels around a tile; half of its scratch memory is the host's.
class HaloExecutable final : public FakeExecutable {
 public:
  explicit HaloExecutable(int halo_px) : halo_px_(halo_px) {}
  size_t WorkspaceBytes(Size tile) const override { return 2 * HostWorkspaceBytes(tile); }
  size_t HostWorkspaceBytes(Size tile) const override { return 10 * tile.width + tile.height; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override {
    struct Cache final : ActivationCache {
      using ActivationCache::ActivationCache;
      void FreeTensors() override {}
    };
    return std::make_unique<Cache>(this);
  }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    return {.tile = tile, .image = image, .input = Expand(tile, halo_px_)};
  }

  const int halo_px_;
};

class NamedBackend final : public Backend {
 public:
  explicit NamedBackend(std::string name, std::string make = "", int streams = 1)
      : name_(std::move(name)), make_(std::move(make)), streams_(streams) {}

  std::string_view name() const override { return name_; }
  std::string description() const override { return make_; }
  absl::Status CheckPrecision(Precision) const override { return refusal; }
  int StreamCount() const override { return streams_; }
  std::unique_ptr<Stream> CreateStream() override { return nullptr; }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network&, Precision) override {
    if (!refusal.ok()) return refusal;
    return std::make_shared<FakeExecutable>();
  }

  absl::StatusOr<MemoryNeed> PlanMemory(const Network&, Precision) const override { return need; }

  absl::Status refusal;  // the answer of Compile and CheckPrecision
  absl::StatusOr<MemoryNeed> need = absl::UnimplementedError("not planned");

 private:
  const std::string name_;
  const std::string make_;
  const int streams_;
};

}  // namespace upscaled::test
