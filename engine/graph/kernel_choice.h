// Chooses a kernel for each layer and a tile size for each network. By default the backend takes
// its shipped order. BackendOptions::chooser replaces that choice, and may time the candidates
// first.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled {

// One layer by itself, computed by one kernel. Used by one thread at a time.
class LayerCandidate {
 public:
  virtual ~LayerCandidate() = default;
  // Computes the whole output from any input, only for its time.
  virtual void Run() = 0;
  // The time of the last Run by the device's own clock; nothing if the caller's is as good.
  virtual std::optional<absl::Duration> LastRunTime() const { return std::nullopt; }
  // The output for an input, both [channel][y][x].
  virtual std::vector<float> Compute(std::span<const float> input) = 0;
};

// A backend's possible kernels for one layer.
class KernelCandidates {
 public:
  virtual ~KernelCandidates() = default;
  // The hardware of the times: the device's model and its driver, as the instruction set.
  virtual std::string device() const = 0;
  virtual const Layer& layer() const = 0;
  virtual Precision precision() const = 0;
  // Two or more, best first as shipped.
  virtual std::vector<std::string> names() const = 0;
  // The output size for timing: as a tile's part computed at once.
  virtual Size timed_output() const { return {168, 12}; }
  // The output size for the check against the reference: any kernel's block and the next's start.
  virtual Size checked_output() const { return {7, 7}; }
  // `name` is one of names(), `input` the size of the layer's input. Throws std::bad_alloc when
  // memory is out.
  virtual std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const = 0;
};

// The possible tiles of a network: only a matter of speed. Used by one thread.
class TileCandidates {
 public:
  virtual ~TileCandidates() = default;
  virtual std::string device() const = 0;       // as KernelCandidates'
  virtual std::string network() const = 0;      // all that its speed depends on, for a table
  virtual std::vector<Size> tiles() const = 0;  // two or more, best first as shipped
  virtual double MacsPerPixel() const = 0;      // the direct algorithm's, per source pixel
  // Computes a part of a tile; returns its worth in source pixels of the tile, with the computed
  // border around them. Throws std::bad_alloc when memory is out.
  virtual double Run(Size tile) = 0;
};

// Thread safe.
class KernelChooser {
 public:
  virtual ~KernelChooser() = default;
  // One of candidates.names(); the same for equal layers and devices as long as the chooser lives.
  // Asked while a network is compiled, once for every layer with more than one supporting kernel.
  virtual std::string Choose(const KernelCandidates& candidates) = 0;
  // One of candidates.tiles().
  virtual Size ChooseTile(TileCandidates& candidates) { return candidates.tiles().front(); }
};

}  // namespace upscaled
