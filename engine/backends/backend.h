// The interface between the engine and what computes: a Backend compiles a Network into an
// Executable once, and Streams run tiles of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backends/row_stream.h"
#include "engine/base/cancellation.h"
#include "engine/base/geometry.h"
#include "engine/base/int_math.h"
#include "engine/graph/activation_cache.h"
#include "engine/graph/pooling.h"
#include "engine/graph/tile_plan.h"
#include "engine/image/image.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled {

// One tile of one image. The result is bit-exact for every tiling of an image.
//
// A network with global average poolings (ListPoolings) takes one pass over all tiles of the image
// for each of them, in order, and a last one for the result: see engine/pipeline/image_run.h.
//
// Borrowed pixels: `src` and `dst` must stay valid until Run returns. Only the first three channels
// of both are read and written, so that RGBA rows serve without a copy.
struct TileTask {
  std::shared_ptr<const TilePlan> plan;  // made by the executable that runs it
  ImageView src;         // the pixels of `src_rect`: 3 or 4 channels, any sample type
  Rect src_rect;         // where `src` lies in the image, in source pixels; covers plan->input
  MutableImageView dst;  // scale * plan->tile in size; integer types are clamped, rounded half up
  const PoolingPass* pooling = &kNoPooling;  // borrowed; of networks with such poolings
  // Borrowed, may be null. A tile that takes seconds may be left undefined once it is cancelled.
  const Cancellation* cancellation = nullptr;
  // With a stream the tile is one of its bands, of the image's full width, and a run computes the
  // slice that was planned last: `dst` is complete when no slice is left to plan.
  RowSlice slice;
};

// The work of the task: TilePlan::PassCost of its pass, or its slice's.
inline int64_t CostOf(const TileTask& task) {
  if (task.slice.stream != nullptr) return task.slice.cost;
  return task.plan->PassCost(task.pooling->number(), task.pooling->cache != nullptr);
}

// The source pixels that the task is for, without halos.
inline int64_t SourcePixelsOf(const TileTask& task) {
  return task.slice.stream != nullptr ? task.slice.source_px : task.plan->tile.Area();
}

// See Executable::ComputesWhole.
inline constexpr int kMaxWholeImagePx = 1024;

// A compiled network: weights packed for one device and precision. Immutable, thread safe.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const Network& network() const = 0;  // its weights may have been dropped
  virtual Precision precision() const = 0;
  // Everything that does not depend on pixels. `tile` lies inside the image and is not empty.
  TilePlan Plan(const Rect& tile, Size image) const;
  // Scratch memory that a stream needs to run a tile of this size.
  virtual size_t WorkspaceBytes(Size tile) const = 0;
  // The host's part of it: the rest is memory of the device's own.
  virtual size_t HostWorkspaceBytes(Size tile) const { return WorkspaceBytes(tile); }
  virtual size_t WeightBytes() const = 0;
  // Tile size in source pixels that this device likes best, when memory allows.
  virtual Size PreferredTile() const = 0;
  // Whether images of this size are computed by kernels whose blocks reach so far that each tile
  // sees all of the image: best in one tile. Without global poolings no side of such an image is
  // over kMaxWholeImagePx.
  virtual bool ComputesWhole(Size /*image*/) const { return false; }
  // Whether images of this size may be cut into tiles. If not, the executable computes them as
  // streams of rows only.
  virtual bool ComputesTiles(Size /*image*/) const { return true; }
  // PreferredTile, or all of an image that is computed whole.
  Size PreferredTileOf(Size image) const { return ComputesWhole(image) ? image : PreferredTile(); }
  // Streams that have no tile help others of their backend with theirs: this many columns share a
  // tile. 0: none helps.
  virtual int MinSharePx() const { return 0; }
  // For a tile of an image, of up to this many bytes; null and 0 when there is nothing worth
  // keeping.
  virtual std::unique_ptr<ActivationCache> CreateActivationCache() const { return nullptr; }
  virtual size_t ActivationCacheBytes(Size /*tile*/, Size /*image*/) const { return 0; }
  // A stream of rows of an image of this size, and what it needs; null and nothing where the
  // executable computes tiles only. Its bytes are those of any tiling.
  virtual std::unique_ptr<RowStream> CreateRowStream(Size /*image*/) const { return nullptr; }
  virtual std::optional<RowStreamNeed> PlanRowStream(Size /*image*/) const { return std::nullopt; }

 private:
  // Plan, whose maker may be left open.
  virtual TilePlan MakePlan(const Rect& tile, Size image) const = 0;
};

// How many streams may share a tile of this size.
inline int MostStreamsOf(const Executable& executable, Size tile) {
  return PartCount(tile.width, executable.MinSharePx());
}

// For Stream::Run: INVALID_ARGUMENT when another executable made the task's plan or stream, or when
// its rectangles, sizes or channels contradict each other or the executable.
absl::Status CheckTileTask(const Executable& executable, const TileTask& task);

struct LayerProfile;  // engine/backends/layer_profile.h

// One lane of work on a device: a CPU thread's scratch memory, a CUDA stream, an OpenCL queue. Used
// by one thread at a time. Scratch grows to the largest tile seen and is then reused.
class Stream {
 public:
  virtual ~Stream() = default;
  // Runs the tiles and returns when their `dst` is written. Not OK: no `dst` may be used.
  // DEADLINE_EXCEEDED: the device does not answer, and is lost to this process for good.
  virtual absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) = 0;
  // The time that other threads, which had nothing to run, have spent on the last Run.
  virtual absl::Duration HelpedTime() const { return {}; }
  // Runs one tile and tells what each layer of the network took, as the backend runs it; slower
  // than Run. UNIMPLEMENTED where a backend has none.
  virtual absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                            const TileTask& task);
};

class KernelChooser;  // engine/graph/kernel_choice.h

// The default of BackendOptions::poisons_memory.
#ifdef NDEBUG
inline constexpr bool kPoisonsMemory = false;
#else
inline constexpr bool kPoisonsMemory = true;
#endif

struct BackendOptions {
  int threads = 0;             // cpu: streams to offer; 0 = AvailableCpuCount()
  std::string cpu_isa;         // cpu: force one of the instruction sets it lists; "" = the best
  std::string kernel;          // force a kernel by name on all layers it supports; "" = the best
  bool always_stages = false;  // cpu: cut every network into stages, as deep ones are; for tests
  // cpu: fill the memory of a tile with garbage before it runs, so that results show reads of
  // memory that was not written; for tests and debug builds
  bool poisons_memory = kPoisonsMemory;
  // Chooses kernels unless one is forced; null: the order that they are shipped in.
  std::shared_ptr<KernelChooser> chooser = nullptr;
  // cuda: kernels that no device of ours has run, and that have proven themselves on this one
  // (engine/proof): such kernels are used only if they are listed here, or forced.
  std::vector<std::string> proven_kernels;
  // cuda: whether pixels of kFast that are not finite, and batches with a kernel that gave up, are
  // computed again. Proofs do without, or a repair would hide a wrong kernel.
  bool repairs = true;
  // cuda: a device that takes longer than its work can take, and this beyond it, does not answer.
  absl::Duration answer_limit = absl::Seconds(30);
  std::string cache_folder;  // opencl: keeps compiled programs here; "" = compiles at every start
};

// The memory that running a network takes on a device.
struct MemoryNeed {
  size_t weight_bytes = 0;     // Executable::WeightBytes
  size_t workspace_bytes = 0;  // of each stream, for a tile of the preferred size
};

// One device. Thread safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;    // "cpu", "reference", "cuda:0"
  virtual std::string description() const = 0;  // human-readable: model, instruction set, memory
  // Identifies the arithmetic: everything a result depends on besides network and precision.
  // Devices with equal texts compute bit-exact results. Override it if description() leaves
  // something out.
  virtual std::string arithmetic() const { return description(); }
  // UNIMPLEMENTED when no network runs in `precision` on this device.
  virtual absl::Status CheckPrecision(Precision /*precision*/) const { return absl::OkStatus(); }
  // UNIMPLEMENTED, with the layer, the precision or the forced kernel, when this backend cannot run
  // `network` so; RESOURCE_EXHAUSTED, with the limit, when it would take too much memory.
  virtual absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                                    Precision precision) = 0;
  // The need of an executable that Compile would make, found out in a fraction of its time.
  // UNIMPLEMENTED also if the backend knows only compiled networks.
  virtual absl::StatusOr<MemoryNeed> PlanMemory(const Network& network, Precision precision) const;
  virtual std::unique_ptr<Stream> CreateStream() = 0;
  // Tells that a run takes longer than it may: the device is lost to this process for good. Runs
  // that only wait for it return DEADLINE_EXCEEDED. Asks no driver, and returns at once.
  virtual void GiveUp() {}
  // Gives the memory that it keeps for later tiles back to the system; the streams keep theirs.
  virtual void ReleaseSpareMemory() {}
  // How many streams keep the device busy.
  virtual int StreamCount() const = 0;
};

}  // namespace upscaled
