// A network compiled for this backend.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/backends/backend.h"
#include "engine/backends/cpu/program.h"

namespace upscaled::cpu {

class CpuExecutable final : public Executable {
 public:
  // The scratch of a stream for the smallest tile that is ever preferred.
  static constexpr size_t kMaxWorkspaceBytes = size_t{1} << 30;

  // `forced_kernel` and `chooser` may be null; kFast needs HasVnni(isa). UNIMPLEMENTED: see
  // BuildProgram. RESOURCE_EXHAUSTED: no memory for the packed weights, or they or the workspace
  // exceed their limits.
  static absl::StatusOr<std::shared_ptr<const Executable>> Create(const Network& network, Isa isa,
                                                                  const KernelEntry* forced_kernel,
                                                                  Precision precision,
                                                                  KernelChooser* chooser);

  // The memory that Create would take, without weights packed or tile sizes measured.
  static absl::StatusOr<MemoryNeed> PlanMemory(const Network& network, Isa isa,
                                               const KernelEntry* forced_kernel,
                                               Precision precision);

  const Network& network() const override { return network_; }
  Precision precision() const override { return program_.precision; }
  size_t WorkspaceBytes(Size tile) const override;
  size_t WeightBytes() const override;
  Size PreferredTile() const override { return preferred_tile_; }
  std::unique_ptr<ActivationCache> CreateActivationCache() const override;
  size_t ActivationCacheBytes(Size tile) const override;

  const Program& program() const { return program_; }
  // Computes pixels that overflowed in precision kFast; null in precision kExact.
  const Program* exact_program() const { return exact_program_ ? &*exact_program_ : nullptr; }

 private:
  CpuExecutable(Network network, Program program, std::optional<Program> exact_program,
                Size preferred_tile);
  TilePlan MakePlan(const Rect& tile, Size image) const override;

  const Network network_;  // without weights
  const Program program_;
  const std::optional<Program> exact_program_;
  const Size preferred_tile_;
};

}  // namespace upscaled::cpu
