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

// One layer alone, computed by one kernel. Used by one thread at a time.
class LayerCandidate {
 public:
  virtual ~LayerCandidate() = default;
  // Computes the whole output from whatever input there is, for its time alone.
  virtual void Run() = 0;
  // The time that Run last took by the device's own clock; nothing where the caller's is as good.
  virtual std::optional<absl::Duration> LastRunTime() const { return std::nullopt; }
  // The output for an input, both [channel][y][x].
  virtual std::vector<float> Compute(std::span<const float> input) = 0;
};

// The kernels with which a backend could compute one layer.
class KernelCandidates {
 public:
  virtual ~KernelCandidates() = default;
  // The hardware for which times hold: the device's model and its driver, as the instruction set.
  virtual std::string device() const = 0;
  virtual const Layer& layer() const = 0;
  virtual Precision precision() const = 0;
  // Two or more, best first as shipped.
  virtual std::vector<std::string> names() const = 0;
  // The output size for timing: as a tile's part that is computed at once.
  virtual Size timed_output() const { return {168, 12}; }
  // The output size for the check against the reference: any kernel's block and the next's start.
  virtual Size checked_output() const { return {7, 7}; }
  // `name` is one of names(), `input` the size of the layer's input. Throws std::bad_alloc when
  // memory is out.
  virtual std::unique_ptr<LayerCandidate> Try(const std::string& name, Size input) const = 0;
};

// In which tiles a network could be computed: a matter of speed alone. Used by one thread.
class TileCandidates {
 public:
  virtual ~TileCandidates() = default;
  virtual std::string device() const = 0;       // as KernelCandidates'
  virtual std::string network() const = 0;      // all that its speed depends on, for a table
  virtual std::vector<Size> tiles() const = 0;  // two or more, best first as shipped
  virtual double MacsPerPixel() const = 0;      // the direct algorithm's, per source pixel
  // Computes a part of a tile; returns how many of the tile's source pixels that is worth, what is
  // computed around them included. Throws std::bad_alloc when memory is out.
  virtual double Run(Size tile) = 0;
};

// Thread safe.
class KernelChooser {
 public:
  virtual ~KernelChooser() = default;
  // One of candidates.names(); the same for equal layers and devices as long as the chooser lives.
  // Asked while a network is compiled, once for every layer that more than one kernel supports.
  virtual std::string Choose(const KernelCandidates& candidates) = 0;
  // One of candidates.tiles().
  virtual Size ChooseTile(TileCandidates& candidates) { return candidates.tiles().front(); }
};

}  // namespace upscaled
