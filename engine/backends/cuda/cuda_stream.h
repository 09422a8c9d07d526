// One lane of a device: its queue, memory, staging buffers and graphs.
#pragma once

#include <memory>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cuda/batch_layout.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/cuda_executable.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/lru_cache.h"

namespace upscaled::cuda {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(std::shared_ptr<Context> context)
      : context_(std::move(context)), graphs_(kMaxGraphs) {}

  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;
  // By the device's clock, see profile.h. Fused layers are part of their convolution's time.
  absl::StatusOr<std::vector<LayerProfile>> Profile(const Executable& executable,
                                                    const TileTask& task) override;

 private:
  static constexpr size_t kMaxGraphs = 32;
  static constexpr size_t kMaxBatch = 16;

  // Tiles per graph.
  struct Batch {
    const CudaExecutable& executable;
    Precision precision;
    PlacedTile plan;
    BatchShape shape;
    BatchLayout layout;
    std::vector<const TileTask*> tasks;
    CachedTile* cache = nullptr;  // where the tensors of the one task live
    int first_layer = 0;          // with `cache`: the layers before it are there

    // The nodes from first_layer on read the image.
    bool SendsImage() const;
    size_t sent_bytes() const { return SendsImage() ? layout.sent_bytes : layout.source; }
  };
  // All inputs of the commands for a batch, besides the stream's buffers.
  struct GraphKey {
    int64_t executable = 0;
    Precision precision = Precision::kExact;
    TilePlace place;
    Rect summed;  // the part of the pooling that is gathered
    BatchShape shape;

    friend bool operator==(const GraphKey&, const GraphKey&) = default;
  };
  // Captured when its key is seen for the second time: many are seen once, and the runtime's work
  // at a kernel's first launch is done by then.
  struct Graph {
    bool seen = false;
    GraphExecHandle handle;
  };

  // A batch of one tile.
  static absl::StatusOr<Batch> MakeBatch(const CudaExecutable& executable, Precision precision,
                                         const TileTask& task);
  static GraphKey KeyOf(const Batch& batch);
  // Into a batch of the same plan, if one has room.
  static bool Join(const Batch& single, std::vector<Batch>& batches);

  absl::Status Prepare();
  // Gives the batch of one tile the pass's activation cache, if it can go on with it.
  absl::Status UseCache(Batch& single) const;
  // Delivers results. Computes them once more if a kernel gave up; INTERNAL if it does so again.
  absl::Status RunBatch(const Batch& batch);
  absl::Status RunTile(const CudaExecutable& executable, Precision precision, const TileTask& task);
  // Computes the result's overflowed pixels of precision kFast again in kExact.
  absl::Status RunExactly(const CudaExecutable& executable, const TileTask& task);
  absl::Status Reserve(const Batch& batch);
  // Images and means to the staging buffer.
  void Pack(const Batch& batch) const;
  // From the packed staging buffer to the one of results.
  absl::Status Compute(const Batch& batch);
  absl::Status Launch(const Batch& batch);
  // Captured first where `graph` is null.
  absl::Status LaunchGraph(const Batch& batch, GraphExecHandle& graph);
  // Copies in, computes, copies out.
  absl::Status Enqueue(const Batch& batch);
  absl::Status EnqueueSums(const Batch& batch, const BatchViews& views);
  // The staging buffer to where the tasks want it.
  void DeliverPixels(const Batch& batch, size_t tile) const;
  void DeliverSums(const Batch& batch, size_t tile) const;
  // Whether the tile's pixels are not all numbers.
  bool IsOverflowed(const Batch& batch, size_t tile) const;
  bool HasGivenUp(const Batch& batch) const;
  // A mark that kernels have set, by its place in the layout.
  bool ReceivedMark(const Batch& batch, size_t at) const;

  const std::shared_ptr<Context> context_;
  StreamHandle queue_;  // made by the first run, which can report why it fails
  EventHandle done_;
  DeviceMemory memory_;
  PinnedMemory sent_, received_;
  LruCache<GraphKey, Graph> graphs_;
};

}  // namespace upscaled::cuda
